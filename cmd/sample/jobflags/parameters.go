package jobflags

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/text/chat/reply"
)

// parameterFlags defines a flag for each parameter that has one. The values in set are their defaults.
func parameterFlags(s *pflag.FlagSet, set *parameter.Set) {
	for p := range parameter.Own() {
		if p.Flag == "" {
			continue
		}
		usage := p.Note
		if p.Placeholder != "" {
			usage = fmt.Sprintf("`%s` %s", p.Placeholder, p.Note)
		}
		if p.Default() == "0" { // the help adds the others
			usage += " (default 0)"
		}
		switch target := p.At(set).(type) {
		case *int:
			s.IntVarP(target, p.Flag, p.Short, *target, usage)
			if p.Default() == "none" { // rather than the number that stands for it
				s.Lookup(p.Flag).DefValue = ""
			}
		case *float64:
			s.Float64VarP(target, p.Flag, p.Short, *target, usage)
		case *uint64:
			s.VarP((*cli.SeedValue)(target), p.Flag, p.Short, usage)
		case *bool:
			s.BoolVarP(target, p.Flag, p.Short, *target, usage)
		case *[]string:
			s.StringArrayVarP(target, p.Flag, p.Short, *target, usage)
			if len(*target) > 0 { // the text may have line breaks
				s.Lookup(p.Flag).DefValue = p.Default()
			}
		case *[]int:
			s.IntSliceVarP(target, p.Flag, p.Short, *target, usage)
		case *parameter.Biases:
			s.Var(&structureValue{func(text string) (err error) {
				*target, err = parameter.ParseBiases([]byte(text))
				return err
			}, true}, p.Flag, usage+" (default: none)")
		case *parameter.Structure:
			structureFlags(s, p, target)
		case *string:
			s.StringVarP(target, p.Flag, p.Short, *target, usage)
		case *parameter.ObjectJSON:
			s.VarP(&jsonValue{(*string)(target), p.Type()}, p.Flag, p.Short, usage)
		case *parameter.ListJSON:
			s.VarP(&jsonValue{(*string)(target), p.Type()}, p.Flag, p.Short, usage)
		}
	}
}

// structureFlags defines the flags for what the text must be.
func structureFlags(s *pflag.FlagSet, p *parameter.Parameter, target *parameter.Structure) {
	set := func(name string, read func(text string) (parameter.Structure, error)) func(string) error {
		return func(text string) error {
			structure, err := read(text)
			if err != nil {
				return err
			}
			if target.Kind != "" && (target.Kind != parameter.ChoiceStructure || name != "choice") {
				return fmt.Errorf("the text's structure is given already, as %.100s: give one", *target)
			}
			if target.Kind != "" {
				structure, err = parameter.NewStructure(parameter.ChoiceStructure, append(target.Choices(), text))
			}
			*target = structure
			return err
		}
	}
	newStructure := func(kind parameter.StructureKind, value any) (parameter.Structure, error) {
		return parameter.NewStructure(kind, value)
	}
	// ofText reads a structure of its text, or of a file with it.
	ofText := func(kind parameter.StructureKind, what string, isText func(string) bool) func(string) (
		parameter.Structure, error) {
		return func(given string) (parameter.Structure, error) {
			text := []byte(given)
			if !isText(strings.TrimSpace(given)) {
				var err error
				if text, err = readValue(given); err != nil {
					return parameter.Structure{}, &cli.RangeError{Value: given, Allowed: what + ", or a file with one"}
				}
			}
			return newStructure(kind, string(text))
		}
	}
	define := func(name, usage string, json bool, read func(text string) (parameter.Structure, error)) {
		s.Var(&structureValue{set(name, read), json}, name, usage+" (default: any text)")
	}
	define(p.Flag, fmt.Sprintf("`%s` %s", p.Placeholder, p.Note), true,
		func(text string) (parameter.Structure, error) {
			return parameter.ParseStructure(p.Name, []byte(text))
		})
	define("json-schema", "`FILE` generate JSON of this schema: a file, or the schema itself, as '{...}'", true,
		ofText(parameter.SchemaStructure, "a JSON schema", func(text string) bool {
			return strings.HasPrefix(text, "{")
		}))
	define("regex", "`PATTERN` generate text that this regular expression matches as a whole", false,
		func(text string) (parameter.Structure, error) { return newStructure(parameter.RegexStructure, text) })
	define("choice", "`TEXT` generate one of these texts; repeatable", false,
		func(text string) (parameter.Structure, error) {
			return newStructure(parameter.ChoiceStructure, []string{text})
		})
	define("grammar", "`FILE` generate text of this grammar, in GBNF: a file, or the grammar itself, with root ::= ...",
		false, ofText(parameter.GrammarStructure, "a grammar with a rule root ::= ...", func(text string) bool {
			return strings.Contains(text, "::=")
		}))
}

// structureValue is the value of a flag that reports what the text must be.
type structureValue struct {
	set  func(text string) error
	json bool
}

func (v *structureValue) Set(text string) error { return v.set(text) }

func (v *structureValue) String() string { return "" }

func (v *structureValue) Type() string { return "structure" }

func (v *structureValue) TakesJSON() bool { return v.json }

// jsonValue is the value of a flag that is JSON: as it is, or the name of a file with it.
type jsonValue struct {
	target *string
	kind   parameter.Type
}

// maxJSON bounds a file with such a value.
const maxJSON = 16 << 20

// readValue reads a file with the value of a flag, without a byte order mark.
func readValue(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxJSON+1))
	if err == nil && len(raw) > maxJSON {
		err = fmt.Errorf("%s has more than %d bytes", name, maxJSON)
	}
	return bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), err
}

func (v *jsonValue) Set(text string) error {
	raw := []byte(strings.TrimSpace(text))
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		var err error
		if raw, err = readValue(text); err != nil {
			return v.wrong(text)
		}
	}
	if len(raw) > 0 && !json.Valid(raw) {
		return v.wrong(text)
	}
	*v.target = parameter.ParseJSON(raw)
	return nil
}

func (v *jsonValue) wrong(text string) error {
	return &cli.RangeError{Value: text, Allowed: v.kind.String() + ", or a file with one"}
}

func (v *jsonValue) String() string { return *v.target }

func (v *jsonValue) Type() string { return v.kind.String() }

func (v *jsonValue) TakesJSON() bool { return true }

// parserFlags defines the flags that name forms of texts.
func parserFlags(s *pflag.FlagSet, spec *spec.Spec) {
	list := func(names []string) string { return strings.Join(names[2:], ", ") }
	s.StringVar(&spec.ReasoningParser, "reasoning-parser", spec.ReasoningParser, fmt.Sprintf(
		"`NAME` form of the reasoning for the column reasoning: auto (the chat template's), none, %s",
		list(reply.ReasoningNames())))
	s.StringVar(&spec.ToolCallParser, "tool-call-parser", spec.ToolCallParser, fmt.Sprintf(
		"`NAME` form of tool calls for the column tool_calls: auto (the chat template's), none, %s",
		list(reply.ToolCallNames())))
}

// columnsFlag defines --columns.
func columnsFlag(s *pflag.FlagSet, columns *[]string) {
	s.StringSliceVar(columns, "columns", nil, fmt.Sprintf(
		"`NAME` add columns to the output, separated by commas or repeated: %s (default: none of these)",
		strings.Join(cli.ColumnsOnRequest(completion.Generate), ", ")))
}

// hiddenFlags define what the column hidden has.
func hiddenFlags(s *pflag.FlagSet, hidden *spec.HiddenStates) {
	s.IntSliceVar(&hidden.Layers, "hidden-layers", nil,
		"`NUMBERS` which hidden states the column hidden has, by their numbers in transformers: 0 is the embeddings, "+
			"N the output of layer N, and -1 the last one, after the norm (default: -1)")
	s.StringVar(&hidden.Tokens, "hidden-tokens", "",
		"`TOKENS` whose hidden states these are: last (of a completion) or all (default: last)")
	s.StringVar(&hidden.DType, "hidden-dtype", "",
		"`TYPE` numbers of hidden states: f32, bf16 or f16 (default: f32)")
}

// excludeFlag defines --exclude-columns.
func excludeFlag(s *pflag.FlagSet, columns *[]string) {
	s.StringSliceVar(columns, "exclude-columns", nil, fmt.Sprintf(
		"`NAME` leave columns out of the output, separated by commas or repeated: %s, and columns of the input by "+
			"their names in the output (default: none)", strings.Join(completion.Excludable(), ", ")))
}
