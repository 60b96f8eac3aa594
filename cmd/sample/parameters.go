package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/chat/reply"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
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
		switch at := p.At(set).(type) {
		case *int:
			s.IntVarP(at, p.Flag, p.Short, *at, usage)
			if p.Default() == "none" { // and not the number that stands for it
				s.Lookup(p.Flag).DefValue = ""
			}
		case *float64:
			s.Float64VarP(at, p.Flag, p.Short, *at, usage)
		case *uint64:
			s.VarP((*seedValue)(at), p.Flag, p.Short, usage)
		case *bool:
			s.BoolVarP(at, p.Flag, p.Short, *at, usage)
		case *[]string:
			s.StringArrayVarP(at, p.Flag, p.Short, *at, usage)
			if len(*at) > 0 { // which may have line breaks
				s.Lookup(p.Flag).DefValue = p.Default()
			}
		case *[]int:
			s.IntSliceVarP(at, p.Flag, p.Short, *at, usage)
		case *parameter.Biases:
			s.Func(p.Flag, usage+" (default: none)", func(text string) (err error) {
				*at, err = parameter.ParseBiases([]byte(text))
				return err
			})
		case *parameter.Structure:
			structureFlags(s, p, at)
		case *string:
			s.StringVarP(at, p.Flag, p.Short, *at, usage)
		case *parameter.ObjectJSON:
			s.VarP(&jsonValue{(*string)(at), p.Type()}, p.Flag, p.Short, usage)
		case *parameter.ListJSON:
			s.VarP(&jsonValue{(*string)(at), p.Type()}, p.Flag, p.Short, usage)
		}
	}
}

// structureFlags defines the flags that say what the text must be.
func structureFlags(s *pflag.FlagSet, p *parameter.Parameter, at *parameter.Structure) {
	set := func(name string, read func(text string) (parameter.Structure, error)) func(string) error {
		return func(text string) error {
			of, err := read(text)
			if err != nil {
				return err
			}
			if at.Kind != "" && (at.Kind != parameter.ChoiceStructure || name != "choice") {
				return fmt.Errorf("the text's structure is given already, as %.100s: give one", *at)
			}
			if at.Kind != "" {
				of, err = parameter.NewStructure(parameter.ChoiceStructure, append(at.Choices(), text))
			}
			*at = of
			return err
		}
	}
	ofFile := func(kind parameter.StructureKind) func(string) (parameter.Structure, error) {
		return func(name string) (parameter.Structure, error) {
			text, err := os.ReadFile(name)
			if err != nil {
				return parameter.Structure{}, err
			}
			return parameter.NewStructure(kind, string(text))
		}
	}
	of := func(kind parameter.StructureKind, value any) (parameter.Structure, error) {
		return parameter.NewStructure(kind, value)
	}
	define := func(name, usage string, read func(text string) (parameter.Structure, error)) {
		s.Func(name, usage+" (default: any text)", set(name, read))
	}
	define(p.Flag, fmt.Sprintf("`%s` %s", p.Placeholder, p.Note), func(text string) (parameter.Structure, error) {
		return parameter.ParseStructure(p.Name, []byte(text))
	})
	define("json-schema", "`FILE` draw JSON of this schema", ofFile(parameter.SchemaStructure))
	define("regex", "`PATTERN` draw text that this regular expression matches as a whole",
		func(text string) (parameter.Structure, error) { return of(parameter.RegexStructure, text) })
	define("choice", "`TEXT` draw one of these texts; repeatable",
		func(text string) (parameter.Structure, error) { return of(parameter.ChoiceStructure, []string{text}) })
	define("grammar", "`FILE` draw text of this grammar, in GBNF", ofFile(parameter.GrammarStructure))
}

// jsonValue is the value of a flag that is JSON: as it is, or the name of a file with it.
type jsonValue struct {
	at *string
	of parameter.Type
}

// maxJSON bounds a file with such a value.
const maxJSON = 16 << 20

func (v *jsonValue) Set(text string) error {
	raw := []byte(strings.TrimSpace(text))
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		file, err := os.Open(text)
		if err != nil {
			return v.wrong(text)
		}
		defer file.Close()
		if raw, err = io.ReadAll(io.LimitReader(file, maxJSON+1)); err != nil || len(raw) > maxJSON {
			return v.wrong(text)
		}
	}
	if len(raw) > 0 && !json.Valid(raw) {
		return v.wrong(text)
	}
	*v.at = parameter.ParseJSON(raw)
	return nil
}

func (v *jsonValue) wrong(text string) error {
	return &rangeError{text, v.of.String() + ", or a file with one"}
}

func (v *jsonValue) String() string { return *v.at }
func (v *jsonValue) Type() string   { return v.of.String() }

// parserFlags defines the flags that name forms of texts.
func parserFlags(s *pflag.FlagSet, spec *batch.Spec) {
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
		strings.Join(columnsOnRequest(), ", ")))
}

// excludeFlag defines --exclude-columns.
func excludeFlag(s *pflag.FlagSet, columns *[]string) {
	s.StringSliceVar(columns, "exclude-columns", nil, fmt.Sprintf(
		"`NAME` leave columns out of the output, separated by commas or repeated: %s, and columns of the input by "+
			"their names in the output (default: none)", strings.Join(promptset.Excludable(), ", ")))
}

// columnsOnRequest names the columns that an output has if it is asked for them.
func columnsOnRequest() (names []string) {
	for c := range promptset.Columns() {
		if c.OnRequest {
			names = append(names, c.Name)
		}
	}
	return names
}
