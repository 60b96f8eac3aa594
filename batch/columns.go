package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/completion"
)

// columnsOf are the columns on request that the output has: those that are named, and those of parameters that the job
// or a column of its input, or a line of a batch file, gives. An input of nil is not known.
func (s *Spec) columnsOf(input *promptset.Schema) []string {
	names := slices.Clone(s.Columns)
	var given []string
	if input != nil {
		given = input.Parameters()
	}
	for c := range completion.Columns() {
		if c.AskedBy == nil {
			continue
		}
		gives := func(column string) bool {
			own := parameter.Sink(column)
			return own != nil && own.Name == c.Parameter
		}
		if c.AskedBy(&s.Sampling) || slices.ContainsFunc(given, gives) {
			names = append(names, c.Name)
		}
	}
	ordered, _ := completion.OnRequest(names)
	return ordered
}

// SetColumnsOf sets what columns the output of a job has, given the options' schema of its input.
func SetColumnsOf(job *jobstate.Description, o *promptset.WriterOptions) {
	begun, _ := settingsOf(job)
	s := &Spec{Columns: begun.Columns, Exclude: begun.Exclude, Partitions: begun.Partitions,
		Sampling: parameter.Defaults(), KeepPartitions: begun.Folders}
	for setting, at := range map[string]*int{"top_logprobs": &s.Sampling.TopLogprobs,
		"prompt_logprobs": &s.Sampling.PromptLogprobs} {
		if _, given := job.Settings[setting]; given {
			*at = int(job.NumberAt(len(job.Changes), setting))
		}
	}
	if schema, given := job.Settings["structured_outputs"].(json.RawMessage); given {
		_ = s.Sampling.StructuredOutputs.UnmarshalJSON(schema) // the job was begun with it
	}
	o.Columns, o.Exclude, o.JSONType = s.columnsOf(o.Schema), s.without(), s.jsonType()
}

// jsonType is the type of the column json, nil where the output has none.
func (s *Spec) jsonType() *completion.JSONType {
	if !slices.Contains(s.Columns, completion.JSONColumn) {
		return nil
	}
	t, _ := completion.NewJSONType(s.Sampling.StructuredOutputs.Text) // checkJSONColumn has its error
	return t
}

// checkJSONColumn wants a type for the column json.
func (s *Spec) checkJSONColumn() error {
	if !slices.Contains(s.Columns, completion.JSONColumn) {
		return nil
	}
	of := s.Sampling.StructuredOutputs
	if of.Kind != parameter.SchemaStructure {
		return wrong("columns", "is json, whose type follows from the job's JSON schema: give `json-schema`, or leave "+
			"it out")
	}
	if _, err := completion.NewJSONType(of.Text); err != nil {
		return wrong("columns", "is json, and %v", err)
	}
	return nil
}

// checkExcluded checks the columns that the output does without, as far as that is possible without the input.
func (s *Spec) checkExcluded() error {
	s.Exclude = slices.Compact(slices.Sorted(slices.Values(s.Exclude)))
	if len(s.Exclude) > 0 && s.Format == promptset.FormatOpenAI {
		return wrong(excludeField, "is %s, and the lines of `format` openai have no columns: leave it out, or give "+
			"`format` parquet or jsonl", strings.Join(s.Exclude, ","))
	}
	if err := completion.CheckExcluded(s.Exclude, nil, s.columnsOf(nil)); err != nil {
		return wrong(excludeField, "%v", err)
	}
	return nil
}

const excludeField = "exclude-columns"

// canExclude refuses columns to do without that an output of this input has not, or needs.
func (s *Spec) canExclude(input *promptset.Reader) error {
	schema := input.Schema()
	if err := completion.CheckExcluded(s.Exclude, schema, s.columnsOf(schema)); err != nil {
		return endWith(Misused, "`%s` %w", excludeField, err)
	}
	if slices.Contains(s.Exclude, "token_ids") && input.HasParents() {
		return endWith(Misused, "`%s` has \"token_ids\", and rows have a parent, whose tokens they go on from: "+
			"leave it out", excludeField)
	}
	return nil
}

const keepField = "keep-partitions"

// canKeepPartitions refuses inputs whose folders the output cannot have.
func (s *Spec) canKeepPartitions(input *promptset.Reader) error {
	if !s.KeepPartitions {
		return nil
	}
	if err := input.CheckKept(s.columnsOf(input.Schema())); err != nil {
		return endWith(Misused, "`%s` %w", keepField, err)
	}
	return nil
}

// without are the columns that the files of the output do without: those that are named, and those that its folders
// give.
func (s *Spec) without() []string {
	if !s.KeepPartitions {
		return s.Exclude
	}
	all := slices.Concat(s.Exclude, s.Partitions)
	slices.Sort(all)
	return slices.Compact(all)
}

// maxNamed bounds the names in warnings about the input.
const maxNamed = 8

// warnOfInput says once what the input was perhaps not meant to be: of raw text, without rows, or with columns that are
// only passed through and have nearly the names of parameters, or names of parameters of other engines.
func warnOfInput(ctx context.Context, p *Process, opened *Opened) {
	warnOfRaw(ctx, p, opened)
	warnOfSame(ctx, p, opened)
	w, input := p.Messages, opened.reader
	if input.NumRows() == 0 {
		fmt.Fprintln(w, "warning: the input has no rows")
	}
	said := 0
	for _, column := range slices.Sorted(slices.Values(input.Schema().Columns())) {
		hint := nearest(column)
		if hint == "" {
			continue
		}
		if said++; said > maxNamed {
			fmt.Fprintln(w, "warning: more columns have names of parameters, or near to them, and are passed through")
			return
		}
		fmt.Fprintf(w, "warning: column %q is not a parameter of Quire: %s It is passed through\n", column, hint)
	}
}

// nearest says which parameter a column was perhaps meant for, "" where it is likely data.
func nearest(column string) string {
	if of, ok := parameter.LookupForeign(column); ok && of.Instead != "" {
		return fmt.Sprintf("it is one of %s, and Quire's name is %q.", of.Engines, of.Instead)
	} else if ok {
		return fmt.Sprintf("it is one of %s, which Quire does not have.", of.Engines)
	}
	if near, ok := parameter.Near(column); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// canAnswer refuses inputs whose rows the output's format has no lines for.
func (s *Spec) canAnswer(r *promptset.Reader) error {
	name := r.NoRequests()
	if s.Format != promptset.FormatOpenAI || name == "" {
		return nil
	}
	return endWith(Misused, "`format` is openai, which answers the lines of OpenAI's batch files, and %s is none (its "+
		"lines have no custom_id, method, url and body): give `format` parquet or jsonl", name)
}
