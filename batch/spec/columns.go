package spec

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
)

// Columns of completions that are taken apart.
const (
	ReasoningColumn = "reasoning"
	ToolCallsColumn = "tool_calls"
)

// ColumnsOf are the columns on request that the output has: the named ones, and the columns of parameters that the job,
// a column of its input, or a line of a batch file sets. An input of nil is not known.
func (s *Spec) ColumnsOf(input *promptset.Schema) []string {
	names := slices.Clone(s.Columns)
	if s.Accept.Judges() {
		names = append(names, completion.JudgedColumns()...)
	}
	if s.Tools.Used() {
		names = append(names, completion.ConversationColumns()...)
	}
	var given []string
	if input != nil && !s.Encodes() {
		given = input.Parameters()
	}
	for c := range s.Task.Columns() {
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
	ordered, _ := s.Task.OnRequest(names)
	return ordered
}

// ShapeOfStarted is ShapeOf for a job that was started.
func ShapeOfStarted(job *jobstate.Description, input *promptset.Schema) completion.Shape {
	existing, _ := settingsOf(job)
	s := &Job{Spec: Spec{Task: existing.Task, Columns: existing.Columns, Exclude: existing.Exclude,
		Partitions: existing.Partitions, Sampling: parameter.Defaults(), KeepPartitions: existing.Folders,
		Accept: AcceptOf(job), Tools: ToolsOf(job)}}
	s.Vectors.Element, s.Vectors.Dimensions = existing.EmbeddingType, cmp.Or(existing.Dimensions, existing.Classes)
	for setting, target := range map[string]*int{"top_logprobs": &s.Sampling.TopLogprobs,
		"prompt_logprobs": &s.Sampling.PromptLogprobs} {
		if _, given := job.Settings[setting]; given {
			*target = int(job.NumberAt(len(job.Changes), setting))
		}
	}
	if schema, given := job.Settings["structured_outputs"].(json.RawMessage); given {
		_ = s.Sampling.StructuredOutputs.UnmarshalJSON(schema) // the job was started with it
	}
	return s.ShapeOf(input)
}

// JSONType is the type of the column json, nil if the output has none.
func (s *Spec) JSONType() *completion.JSONType {
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
	structure := s.Sampling.StructuredOutputs
	if structure.Kind != parameter.SchemaStructure {
		return Invalid("columns",
			"is json, whose type follows from the job's JSON schema: give `json-schema`, or leave "+
				"it out")
	}
	if _, err := completion.NewJSONType(structure.Text); err != nil {
		return Invalid("columns", "is json, and %v", err)
	}
	return nil
}

// checkExcluded checks the columns that the output leaves out, as far as that is possible without the input.
func (s *Spec) checkExcluded() error {
	s.Exclude = slices.Compact(slices.Sorted(slices.Values(s.Exclude)))
	if len(s.Exclude) > 0 && s.Format == promptset.FormatOpenAI {
		return Invalid(excludeField, "is %s, and the lines of `format` openai have no columns: leave it out, or give "+
			"`format` parquet or jsonl", strings.Join(s.Exclude, ","))
	}
	shape := completion.Shape{Task: s.Task, Requested: s.ColumnsOf(nil), Excluded: s.Exclude}
	if err := shape.CheckExcluded(nil); err != nil {
		return Invalid(excludeField, "%v", err)
	}
	return nil
}

const excludeField = "exclude-columns"

// CheckExclude refuses columns to do without that an output of this input has not, or needs.
func (s *Spec) CheckExclude(input *promptset.Reader) error {
	schema := input.Schema()
	shape := completion.Shape{Task: s.Task, Requested: s.ColumnsOf(schema), Excluded: s.Exclude}
	if err := shape.CheckExcluded(schema); err != nil {
		return outcome.Errorf(outcome.Misused, "%s %w", setting.Name(excludeField), err)
	}
	if slices.Contains(s.Exclude, "token_ids") && input.HasParents() {
		return outcome.Errorf(outcome.Misused,
			"%s has \"token_ids\", and rows have a parent, whose tokens they go on from: "+
				"leave it out", setting.Name(excludeField))
	}
	return nil
}

const keepField = "keep-partitions"

// CheckPartitions refuses inputs whose folders the output cannot have.
func (s *Spec) CheckPartitions(input *promptset.Reader) error {
	if !s.KeepPartitions {
		return nil
	}
	if err := input.CheckKept(completion.Shape{Task: s.Task, Requested: s.ColumnsOf(input.Schema())}); err != nil {
		return outcome.Errorf(outcome.Misused, "%s %w", setting.Name(keepField), err)
	}
	return nil
}

// ExcludedColumns returns the columns that the output files leave out: the columns that the user named, and the columns
// that the output's folders give.
func (s *Spec) ExcludedColumns() []string {
	if !s.KeepPartitions {
		return s.Exclude
	}
	all := slices.Concat(s.Exclude, s.Partitions)
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckAnswers refuses inputs whose rows the output's format has no lines for.
func (s *Spec) CheckAnswers(r *promptset.Reader) error {
	name := r.NoRequests()
	if s.Format != promptset.FormatOpenAI || name == "" {
		return nil
	}
	return outcome.Errorf(outcome.Misused,
		"`format` is openai, which answers the lines of OpenAI's batch files, and %s is none (its "+
			"lines have no custom_id, method, url and body): give `format` parquet or jsonl", name)
}

// ScoresChoices reports whether the output has the probabilities of the choices of rows.
func (s *Spec) ScoresChoices() bool { return slices.Contains(s.Columns, completion.ChoicesColumn) }

// Embeds reports whether the output has vectors of prompts alongside completions.
func (s *Spec) Embeds() bool {
	return s.Task == completion.Generate && slices.Contains(s.Columns, completion.VectorColumn)
}

// addOutputs adds the columns that the job's outputs ask for.
func addOutputs(s *Spec) error {
	if s.Sampling.Outputs == "" {
		return nil
	}
	o, err := parameter.ParseOutputs(s.Sampling.Outputs)
	if err != nil {
		return Invalid("outputs", "%v", err)
	}
	for column, wanted := range map[string]bool{completion.VectorColumn: o.Embedding,
		completion.ChoicesColumn: o.Choice.Kind != ""} {
		if wanted && !slices.Contains(s.Columns, column) {
			s.Columns = append(slices.Clone(s.Columns), column)
		}
	}
	return nil
}

// checkEmbeds checks what may come with vectors of prompts.
func (s *Spec) checkEmbeds() error {
	switch {
	case !s.Embeds():
		return nil
	case s.Tools.Used():
		return Invalid("tools-from", "and `tool-command` may not come with `columns` %s: a conversation has a prompt "+
			"for each turn, and one row: leave the column out, and embed the prompts by `task` embed",
			completion.VectorColumn)
	}
	return checkEmbedding(s)
}

// checkChoices checks what may come with the probabilities of choices, and what generates nothing but them.
func (s *Spec) checkChoices() error {
	set := &s.Sampling
	structure := set.StructuredOutputs.Kind
	switch {
	case !s.ScoresChoices() && set.MaxTokens == 0 && set.PromptLogprobs == parameter.NoPromptLogprobs &&
		structure == parameter.ChoiceStructure:
		return Invalid("max-tokens", "is 0, but must be at least 1, or 0 with prompt_logprobs, or with `columns` %s",
			completion.ChoicesColumn)
	case !s.ScoresChoices():
		return nil
	case structure != "" && structure != parameter.ChoiceStructure:
		return Invalid("columns", "is %s, and the job's structure is %s: give `choice`, or leave it out",
			completion.ChoicesColumn, structure)
	case s.Watch != "":
		return Invalid("watch", "may not come with `columns` %s: the probabilities of a row are of one version of the "+
			"weights", completion.ChoicesColumn)
	case s.Tools.Used():
		return Invalid("tools-from", "and `tool-command` may not come with `columns` %s: completions that call tools "+
			"have no choice", completion.ChoicesColumn)
	}
	return nil
}

// CheckChoices refuses inputs whose rows can have no choices, if the output has their probabilities.
func (s *Spec) CheckChoices(input *promptset.Reader) error {
	gives := func(column string) bool {
		own := parameter.Sink(column)
		return own != nil && (own.Type() == parameter.Structured || own.Name == "outputs")
	}
	if !s.ScoresChoices() || s.Format == promptset.FormatOpenAI || s.Sampling.StructuredOutputs.Kind != "" ||
		s.Sampling.Outputs != "" ||
		slices.ContainsFunc(input.Schema().Parameters(), gives) {
		return nil
	}
	return outcome.Errorf(outcome.Misused, "`columns` is %s, and neither the job nor a column of its inputs gives a "+
		"choice: give `choice`, a column structured_outputs, or leave it out", completion.ChoicesColumn)
}
