package main

import (
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
)

// promptFlags defines what the prompts of rows are, where the names of their columns do not say it.
func promptFlags(s *pflag.FlagSet, spec *batch.Spec) {
	s.StringVar(&spec.PromptColumn, "prompt-column", "",
		"`NAME` the column that has the prompt as text (default: prompt, messages or prompt_token_ids)")
	s.StringVar(&spec.IDColumn, "id-column", "",
		"`NAME` the column that has the ids of rows, text or whole numbers (default: id)")
	s.StringVar(&spec.Template, "template", "",
		"`TEXT` make each prompt of the row's columns by a Jinja template, such as 'Question: {{question}}'; the "+
			"output has it as the column prompt")
	s.StringVar(&spec.System, "system", "",
		"`TEXT` a system message before each prompt, which becomes the user's message, and before messages that do "+
			"not begin with one")
	placeVar(s, &spec.PrefixFile, onThisMachine, "prefix-file", "",
		"`FILE` put the text of a file before each prompt; its keys and values are computed once (--prefix-cache)")
}
