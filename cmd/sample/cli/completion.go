package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/prefixes"
	"github.com/quire/quire/bench/workload"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/text/chat/reply"
)

// completeWord is the subcommand that scripts of shells call, with the words of a command line after "sample", the
// last one as far as it is typed.
const completeWord = "__complete"

// orFiles is the line after suggestions that also offers the name of a file.
const orFiles = ":files"

func NewCompletion() *Command {
	return &Command{
		Name:    "completion",
		Args:    "bash|zsh|fish",
		Summary: "print a script that completes command lines in a shell",
		About: `
The script completes subcommands, flags, their values and file names. It asks this program for them.`,
		Example: `
source <(sample completion bash)                                    # in ~/.bashrc
sample completion zsh > ~/.zsh/_sample                              # a folder of $fpath, before compinit
sample completion fish > ~/.config/fish/completions/sample.fish`,
		Flags: func(*Flags) {},
		Run: func(_ context.Context, env *Environment, args []string) error {
			if len(args) != 1 || shellScripts[args[0]] == "" {
				return Usagef("completion needs the name of a shell: bash, zsh or fish")
			}
			_, err := io.WriteString(env.Stdout, shellScripts[args[0]])
			return err
		},
	}
}

// suggestion is a word that can replace the typed one, and its meaning.
type suggestion struct{ word, text string }

// printSuggestions answers a shell: a line for each suggestion, a tab before its text.
func printSuggestions(w io.Writer, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	found, files := complete(words)
	for _, s := range found {
		if strings.HasPrefix(s.word, words[len(words)-1]) {
			fmt.Fprintf(w, "%s\t%s\n", s.word, s.text)
		}
	}
	if files {
		fmt.Fprintln(w, orFiles)
	}
}

// complete suggests what the last word may become. The others are finished.
func complete(words []string) (found []suggestion, files bool) {
	before, word := words[:len(words)-1], words[len(words)-1]
	if len(before) == 0 {
		return append(commandWords(), suggestion{"help", "the help of a subcommand"}), false
	}
	if before[0] == "help" || before[0] == "manual" && !strings.HasPrefix(word, "-") && len(before) == 1 {
		return commandWords(), false
	}
	sub, err := Find(before[0])
	if err != nil {
		return nil, false
	}
	f := NewFlags(sub.Name)
	sub.Flags(f)
	if name, value, given := strings.Cut(word, "="); given && strings.HasPrefix(name, "--") {
		found, files = valuesOf(f.Set.Lookup(name[2:]), value, before)
		for i := range found {
			found[i].word = name + "=" + found[i].word
		}
		return found, files
	}
	if flag := lastFlag(f, before[len(before)-1]); flag != nil && flag.NoOptDefVal == "" {
		return valuesOf(flag, word, before)
	}
	if strings.HasPrefix(word, "-") {
		return flagWords(f), false
	}
	for choice := range strings.SplitSeq(choices.FindString(sub.Args), "|") {
		if choice != "" {
			found = append(found, suggestion{choice, ""})
		}
	}
	files = strings.Contains(sub.Args, "FILE") || strings.Contains(sub.Args, "FOLDER")
	if sub.Name == "prefix" && len(before) == 1 {
		found = []suggestion{{"save", ""}, {"list", ""}, {"drop", ""}}
	}
	if sub.Name == "prefix" && len(before) > 1 && before[1] == "drop" {
		return prefixWords(before), false
	}
	return found, files
}

// choices is the part of the arguments' description that lists words to choose from.
var choices = regexp.MustCompile(`[a-z0-9-]+(\|[a-z0-9-]+)+`)

func commandWords() (found []suggestion) {
	for _, sub := range Commands() {
		found = append(found, suggestion{sub.Name, sub.Summary})
	}
	return found
}

func flagWords(f *Flags) []suggestion {
	found := []suggestion{{"--help", "the help of this subcommand"}}
	f.Set.VisitAll(func(flag *pflag.Flag) { found = append(found, suggestion{"--" + flag.Name, FlagText(flag)}) })
	return found
}

// lastFlag is the flag that a word ends with, nil if it is no flag.
func lastFlag(f *Flags, word string) *pflag.Flag {
	switch {
	case strings.Contains(word, "="):
		return nil
	case strings.HasPrefix(word, "--"):
		return f.Set.Lookup(word[2:])
	case strings.HasPrefix(word, "-") && len(word) == 2:
		return f.Set.ShorthandLookup(word[1:])
	}
	return nil
}

// valuesOf suggests values of a flag; typed is the typed part of one, before are the words before it.
func valuesOf(flag *pflag.Flag, typed string, before []string) (found []suggestion, files bool) {
	if flag == nil {
		return nil, false
	}
	for _, value := range FlagValues[flag.Name] {
		if Mentions(FlagText(flag), value) { // flags of one name may differ between subcommands
			found = append(found, suggestion{value, ""})
		}
	}
	if list := ListedValues[flag.Name]; list != nil {
		begun := typed[:strings.LastIndex(typed, ",")+1] // start of the last value, if values are separated by commas
		for _, value := range list() {
			found = append(found, suggestion{begun + value, ""})
		}
	}
	if flag.Name == "load-prefix" {
		found = prefixWords(before)
	}
	if flag.Value.Type() == "bool" {
		found = append(found, suggestion{"true", ""}, suggestion{"false", ""})
	}
	kind, _ := splitUsage(flag)
	return found, flag.Name == "load-prefix" ||
		slices.Contains([]string{"FILE", "FOLDER", "MODEL", "TEMPLATE", "JSON", "WHERE"}, kind)
}

// prefixWords returns the names of the saved prefixes in the folder that the preceding words name.
func prefixWords(before []string) (found []suggestion) {
	dir := ""
	for i, word := range before {
		if value, ok := strings.CutPrefix(word, "--prefix-dir="); ok {
			dir = value
		} else if word == "--prefix-dir" && i+1 < len(before) {
			dir = before[i+1]
		}
	}
	saved, err := prefixes.Prefixes{Dir: dir}.List()
	if err != nil {
		return nil
	}
	for _, p := range saved {
		text := plural.Count(p.Tokens, "token")
		if p.Err != nil {
			text = p.Err.Error()
		}
		found = append(found, suggestion{p.Name, text})
	}
	return found
}

// Mentions reports whether a text has a word.
func Mentions(text, word string) bool {
	return regexp.MustCompile(`(^|[^\w:/-])` + regexp.QuoteMeta(word) + `($|[^\w:/-])`).MatchString(text)
}

// FlagValues are the words that flags take. Help names them: one that it does not name is not suggested.
var FlagValues = map[string][]string{
	"admission":         {"overcommit", "reserve"},
	"backend":           backend.Names(),
	"chat-template":     {"model", "none"},
	"dtype":             {"auto", "f32", "bf16", "f16", "bfloat16", "float32"},
	"dump-tables":       {"fault"},
	"generation-config": {"auto", "none"},
	"kernels":           {"auto", "off"},
	"kv":                {"paged", "basic"},
	"kv-dtype":          {"auto", "f32", "bf16", "f16", "int8", "fp8"},
	"layers":            {"unrolled", "loop"},
	"load-format":       {"auto", "dummy"},
	"log-format":        {"text", "json"},
	"log-level":         {"debug", "info", "warn", "error"},
	"maintenance":       {"auto", "on", "off"},
	"prefix-cache":      {"on", "off"},
	"prompt-as":         {"auto", "user", "raw"},
	"progress":          {"auto", "bar", "plain", "none"},
	"shard":             {"auto"},
	"speculate":         {"off", "auto"},
	"tool-choice":       {"auto", "none", "required"},
	"topology":          {"v5e:1x1", "v5e:2x4", "v5e:4x4", "v6e:1x1", "v5p:2x2x1", "h200:1"},
	"weights":           {"auto", "f32", "bf16", "f16", "q8_0", "q4_0", "int8"},
}

// ListedValues are the words that flags take which other packages list.
var ListedValues = map[string]func() []string{
	"columns":          func() []string { return ColumnsOnRequest(completion.Generate) },
	"exclude-columns":  completion.Excludable,
	"features":         engine.FeatureNames,
	"format":           promptset.Formats,
	"model":            setup.Models,
	"reasoning-parser": reply.ReasoningNames,
	"tool-call-parser": reply.ToolCallNames,
	"workload":         workload.Names,
}

// shellScripts are the scripts of the shells.
var shellScripts = map[string]string{
	// COMP_WORDS is split at colons and equals signs, and what is suggested stands for the last piece.
	"bash": `# bash completion of sample: source <(sample completion bash)
_sample() {
	local line=${COMP_LINE:0:COMP_POINT} piece=${COMP_WORDS[COMP_CWORD]} words word begun suggestion
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	word=${words[-1]}
	case $piece in = | :) piece= ;; esac
	begun=${word%"$piece"}
	COMPREPLY=()
	while IFS= read -r suggestion; do
		if [[ $suggestion == ` + orFiles + ` ]]; then
			compopt -o filenames 2>/dev/null
			while IFS= read -r suggestion; do COMPREPLY+=("$suggestion"); done < <(compgen -f -- "$piece")
		else
			suggestion=${suggestion%%$'\t'*}
			COMPREPLY+=("${suggestion#"$begun"}")
		fi
	done < <("${words[0]}" ` + completeWord + ` "${words[@]:1}" 2>/dev/null)
}
complete -F _sample sample
`,
	"zsh": `#compdef sample
_sample() {
	local suggestion files=
	local -a lines described
	lines=("${(@f)$("${(Q)words[1]}" ` + completeWord + ` "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
	for suggestion in $lines; do
		if [[ $suggestion == ` + orFiles + ` ]]; then
			files=1
		else
			described+=("${${suggestion%%$'\t'*}//:/\\:}:${suggestion#*$'\t'}")
		fi
	done
	(( $#described )) && _describe -t values sample described
	if [[ -n $files ]]; then
		compset -P '--[a-z-]#='
		_files
	fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
	_sample "$@"
else
	compdef _sample sample
fi
`,
	"fish": `# fish completion of sample
function __sample_complete
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	for suggestion in ($words[1] ` + completeWord + ` $words[2..-1] "$word" 2>/dev/null)
		if test "$suggestion" = ` + orFiles + `
			__fish_complete_path (string replace -r '^--[a-z-]*=' '' -- "$word")
		else
			echo $suggestion
		end
	end
end
complete -c sample -f -a '(__sample_complete)'
`,
}

// ColumnsOnRequest names the columns that an output has if it is asked for them.
func ColumnsOnRequest(task completion.Task) (names []string) {
	for c := range task.Columns() {
		if c.OnRequest && c.ByJob == "" {
			names = append(names, c.Name)
		}
	}
	return names
}
