package jobflags

import (
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
)

// promptFlags defines what the prompts of rows are, if the names of their columns do not determine it.
func promptFlags(s *pflag.FlagSet, spec *spec.Spec) {
	s.StringVar(&spec.PromptColumn, "prompt-column", "",
		"`NAME` the column that has the prompt as text (default: prompt, messages or prompt_token_ids)")
	s.StringVar(&spec.IDColumn, "id-column", "",
		"`NAME` the column that has the ids of rows, text or whole numbers (default: id)")
	s.StringVar(&spec.Template, "template", "",
		"`TEXT` make each prompt of the row's columns by a Jinja template, such as 'Question: {{question}}'; the "+
			"output has it as the column prompt")
	s.StringVar(&spec.PromptAs, "prompt-as", spec.PromptAs,
		"`FORM` what a prompt is: user (the user's message, through the chat template), raw (raw text), or auto: raw "+
			"text in rows unless --system is given, the user's message as an argument")
	s.StringVar(&spec.System, "system", "",
		"`TEXT` send each prompt as the user's message after this system message; messages that begin with a system "+
			"message of their own keep it")
	cli.PlaceVar(s, &spec.PrefixFile, cli.OnThisMachine, "prefix-file", "",
		"`FILE` put the text of a file before each prompt; its keys and values are computed once (--prefix-cache)")
}
