package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/parameter"
)

// Flags is a flag set whose help is in groups.
type Flags struct {
	Set    *pflag.FlagSet
	Groups []flagGroup
}

type flagGroup struct {
	Title string
	Set   *pflag.FlagSet
}

func NewFlags(name string) *Flags {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SortFlags = false
	set.SetNormalizeFunc(dashed)
	set.Usage = func() {} // the caller prints it, once the destination is known
	return &Flags{Set: set}
}

// dashed lets a flag be written with underscores, as rows and Python have its name.
func dashed(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// Group defines flags under a title of their own in the help.
func (f *Flags) Group(title string, define func(set *pflag.FlagSet)) {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	define(set)
	f.Set.AddFlagSet(set)
	f.Groups = append(f.Groups, flagGroup{title, set})
}

// WarnUnused names flags of run on the command line that a command has no use for, since it generates nothing: the
// flags in the groups of titles, except used ones and ones that all commands use. It does not name flags in a file of
// --config, so that a job's file serves other commands too.
func (f *Flags) WarnUnused(w io.Writer, command string, run *Flags, titles []string, used ...string) {
	used = append(used, "config", "log-format", "log-level", "quiet", "verbose")
	var names []string
	for _, g := range run.Groups {
		if !slices.Contains(titles, g.Title) {
			continue
		}
		g.Set.VisitAll(func(flag *pflag.Flag) {
			if f.Set.Changed(flag.Name) && !slices.Contains(used, flag.Name) {
				names = append(names, "--"+flag.Name)
			}
		})
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "%s generates nothing and does not use %s\n", command, strings.Join(names, ", "))
	}
}

// Parse parses the arguments; an unknown flag's error names the nearest known one.
func (f *Flags) Parse(args []string) error {
	if err := f.singleDash(args); err != nil {
		return err
	}
	err := f.Set.Parse(args)
	var invalid *pflag.InvalidValueError
	var out *RangeError
	if errors.As(err, &invalid) && errors.As(err, &out) {
		return fmt.Errorf("--%s is %w", invalid.GetFlag().Name, out)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, f.meant(unknown))
	}
	var value *pflag.InvalidValueError
	// pflag's own text has the name as it was given
	if wrong := (*PlaceError)(nil); errors.As(err, &value) && errors.As(err, &wrong) {
		return fmt.Errorf("--%s %w", value.GetFlag().Name, wrong)
	}
	if errors.As(err, &invalid) {
		flag, meant := invalid.GetFlag(), ""
		if word := flag.Shorthand + invalid.GetValue(); flag.Shorthand != "" && slices.Contains(args, "-"+word) {
			meant = f.nearest(word)
		}
		return fmt.Errorf("--%s: %w%s", flag.Name, typeError(flag, invalid.GetValue(), invalid.Unwrap()), meant)
	}
	return err
}

// meant names the flag that one which there is not was probably meant for.
func (f *Flags) meant(unknown *pflag.NotExistError) string {
	name, _, _ := strings.Cut(unknown.GetSpecifiedName(), "=")
	switch short := unknown.GetSpecifiedShortnames(); short {
	case "":
		return f.nearest(string(dashed(nil, name)))
	case "v":
		return `; "sample version" prints the version`
	default:
		return f.nearest(short)
	}
}

// nearest names the flag that a word was probably meant for.
func (f *Flags) nearest(word string) string {
	other, ok := otherFlags[word]
	if name, isDevice := backend.Aliases()[word]; isDevice {
		other, ok = "--backend "+name, true
	}
	if ok {
		name, _, _ := strings.Cut(strings.TrimPrefix(other, "--"), " ")
		flag := f.Set.Lookup(strings.Trim(name, ","))
		if flag != nil && flag.Hidden && name == "max-seqs" { // vectors and scores have no slots, but steps
			other = "--prefill-tokens"
		}
		if flag != nil {
			return fmt.Sprintf("; did you mean %s?", other)
		}
	}
	return DidYouMean(word, f.names(), "--")
}

// singleDash finds a flag with one dash before its name: -temperature 0 would be -t with the value "emperature".
func (f *Flags) singleDash(args []string) error {
	value := false // value of the flag before it
	for _, arg := range args {
		name, _, with := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		var flag *pflag.Flag
		switch {
		case value:
			value = false
			continue
		case arg == "--":
			return nil
		case strings.HasPrefix(arg, "--"):
			flag = f.Set.Lookup(name)
		case strings.HasPrefix(arg, "-") && len(name) == 1:
			flag = f.Set.ShorthandLookup(name)
		case strings.HasPrefix(arg, "-") && len(name) > 1 && f.Set.Lookup(name) != nil:
			return fmt.Errorf("unknown flag: -%s; did you mean --%s?", name, name)
		}
		value = flag != nil && !with && flag.NoOptDefVal == ""
	}
	return nil
}

// otherFlags are flags by the names that other programs have for them, or that people try.
var otherFlags = map[string]string{
	"temp": "--temperature", "batch-size": "--max-seqs", "max-num-seqs": "--max-seqs", "parallel": "--max-seqs",
	"max-num-batched-tokens": "--prefill-tokens", "max-new-tokens": "--max-tokens", "n-predict": "--max-tokens",
	"length": "--max-tokens", "num-samples": "--n-generations", "samples": "--n-generations",
	"num-return-sequences": "--n-generations", "device": "--backend, such as --backend xla:cuda",
	"quantization": "--weights, such as --weights q8_0", "quantize": "--weights, such as --weights q8_0",
	"tensor-parallel-size": "--tp", "data-parallel-size": "--dp", "gpu-memory-utilization": "--kv-memory",
	"ctx-size": "--max-model-len", "context": "--max-model-len", "system-prompt": "--system", "schema": "--json-schema",
	"prompt": "--input, or the prompt as an argument", "prompts": "--input", "file": "--input", "data": "--input",
	"out": "--output", "overwrite": "--new", "force": "--new", "greedy": "--temperature 0", "silent": "--quiet",
	"debug-level": "--log-level", "chat": "--prompt-as user", "raw": "--prompt-as raw",
	"guided-json": "--json-schema", "guided-regex": "--regex", "guided-choice": "--choice",
	"guided-grammar": "--grammar", "text-column": "--prompt-column", "normalize-embeddings": "--normalize on",
	"truncate-dim": "--dimensions", "precision": "--embedding-type", "max-seq-length": "--truncate-prompt-tokens",
	"max-length": "--truncate-prompt-tokens",
}

// otherSubcommands are subcommands by the names that other programs have for them.
var otherSubcommands = map[string]string{
	"generate": "run", "draw": "run", "infer": "run", "inference": "run", "complete": "run", "predict": "run",
	"batch": "run", "run-batch": "run", "resume": "run", "continue": "run", "serve": "run", "sample": "run",
	"talk": "chat", "validate": "check", "count": "check", "queue": "submit", "stop": "cancel", "kill": "cancel",
	"view": "show", "cat": "show", "head": "show", "print": "show", "read": "show", "list": "show", "ls": "show",
	"diff": "show", "summary": "stats", "eval": "stats", "score": "stats", "html": "report", "download": "setup",
	"pull": "setup", "fetch": "setup", "install": "setup", "init": "setup", "estimate": "plan", "benchmark": "bench",
	"man": "manual",
}

// typeError returns an error that names what the text of a flag must be, if err only has Go's words for it.
func typeError(flag *pflag.Flag, text string, err error) error {
	wanted := map[string]string{"int": "a whole number", "int64": "a whole number", "float64": "a number",
		"intSlice": "a list of whole numbers, such as 1,2",
		"bool":     "true or false", "duration": "a duration such as 90s or 5m"}[flag.Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is out of range%s", text, rangeOf(flag.Name))
	case wanted != "":
		return fmt.Errorf("%q is not %s", text, wanted)
	}
	return err
}

// rangeOf reports what a flag of a parameter must be, "" for other flags.
func rangeOf(flag string) string {
	for p := range parameter.Own() {
		if p.Flag == flag {
			return ": it must be " + p.Range()
		}
	}
	return ""
}

// RangeError reports that a flag's value is not one that it may have.
type RangeError struct{ Value, Allowed string }

func (e *RangeError) Error() string { return fmt.Sprintf("%q, but must be %s", e.Value, e.Allowed) }

// SeedValue is a flag for a seed.
type SeedValue uint64

func (s *SeedValue) String() string { return strconv.FormatUint(uint64(*s), 10) }

func (s *SeedValue) Type() string { return "uint64" }

func (s *SeedValue) Set(text string) error {
	v, err := strconv.ParseUint(text, 0, 64)
	if text == strconv.Itoa(parameter.NoSeed) {
		initial := parameter.Defaults()
		v, err = initial.Seed, nil
	}
	if err != nil {
		return &RangeError{text, parameter.SeedRange}
	}
	*s = SeedValue(v)
	return nil
}

// version defines --version, which every subcommand has: in no help, and no key of config files.
func (f *Flags) version() *bool {
	requested := f.Set.Bool("version", false, "print the version")
	_ = f.Set.MarkHidden("version")
	return requested
}

// names lists the names of all flags that help shows.
func (f *Flags) names() []string {
	var names []string
	f.Set.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	return names
}

// DidYouMean returns "; did you mean X?" for the nearest of the known words, or "" if none is near. prefix is what
// people write before the word, such as the dashes of a flag.
func DidYouMean(word string, known []string, prefix string) string {
	best, bestDistance := "", near(word)+1
	for _, k := range known {
		d := misspelt(word, k)
		if len(word) > 2 && strings.HasPrefix(k, word+"-") || len(word) > 3 && strings.HasPrefix(k, word) { // cut off
			d = min(d, near(word))
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	switch {
	case best == "":
		return ""
	case prefix != "":
		return fmt.Sprintf("; did you mean %s%s?", prefix, best)
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// misspelt is by how many letters a word differs from the one that may be meant; two that changed places are one. A
// word that is so much longer or shorter that it can't be near is not compared: its time grows with the square of its
// length.
func misspelt(word, meant string) int {
	if d := max(len(word)-len(meant), len(meant)-len(word)); d > utf8.UTFMax*near(word) {
		return d
	}
	d := levenshtein.Distance(word, meant, nil)
	for i := 1; i < len(word); i++ {
		swapped := word[:i-1] + word[i:i+1] + word[i-1:i] + word[i+1:]
		d = min(d, 1+levenshtein.Distance(swapped, meant, nil))
	}
	return d
}

// near is how many letters a word may be off from one that is likely to be meant: one in three, 3 at most.
func near(word string) int { return min((len(word)+1)/3, 3) }
