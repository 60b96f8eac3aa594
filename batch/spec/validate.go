package spec

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
)

// Validate checks what does not need the model. The error is a [*FieldError].
func (s *Spec) Validate() error {
	switch {
	case s.Model == "":
		return Invalid("model", "is missing: a folder, a .gguf file, hf://org/name, or smollm2")
	case len(s.Inputs) == 0:
		return Invalid("input", "is missing: a %s file with a column prompt, messages or prompt_token_ids",
			promptset.InputFormats())
	case s.Output == "":
		return Invalid("output", "is missing: a folder for the results")
	case s.Limit < 0:
		return Invalid("limit", "is %d, but must be 0 (all rows) or more", s.Limit)
	case s.PartRows < 0:
		return Invalid("part-rows", "is %d, but must be 0 (found automatically) or more", s.PartRows)
	}
	if err := checkTask(s); err != nil {
		return err
	}
	if err := addOutputs(s); err != nil {
		return err
	}
	var err error
	if s.Columns, err = s.Task.OnRequest(s.Columns); err != nil {
		return Invalid("columns", "%v", err)
	}
	// Answers have a place for the probabilities of choices, and for nothing else.
	without := slices.DeleteFunc(slices.Clone(s.Columns), func(c string) bool { return c == completion.ChoicesColumn })
	if len(without) > 0 && s.Format == promptset.FormatOpenAI {
		return Invalid("columns", "is %s, and the lines of `format` openai have no columns: leave it out, or give "+
			"`format` parquet or jsonl", strings.Join(without, ","))
	}
	return FirstError(
		s.checkAccept,
		s.checkTools,
		func() error { return s.Hidden.check(s.Columns) },
		s.checkExcluded,
		s.checkJSONColumn,
		s.checkChoices,
		s.checkEmbeds,
		s.checkStreams,
		func() error { return oneOf("format", s.Format, promptset.Formats()...) },
		func() error { return oneOf("load-format", s.LoadFormat, LoadAuto, LoadDummy) },
		s.checkParsers,
		s.checkPrompts,
		s.checkWatch,
		func() error {
			// "" is the value in jobs that earlier versions gave to a queue.
			return oneOf("generation-config", cmp.Or(s.GenerationConfig, GenerationNone), GenerationAuto,
				GenerationNone)
		},
		func() error { return checkParameters(&s.Sampling) },
		s.Engine.Validate,
		s.Adapters.Validate,
	)
}

// checkAccept checks how completions are judged.
func (s *Spec) checkAccept() error {
	if err := s.Accept.Check(Invalid); err != nil {
		return err
	}
	for _, name := range completion.JudgedColumns() {
		if slices.Contains(s.Columns, name) {
			return Invalid("columns", "is %s, which the output has if and only if completions are judged: leave it "+
				"out, and give `accept-regex`, `accept-schema`, `accept-equals`, `accept-command` or "+
				"`accept-score`", name)
		}
	}
	switch {
	case s.Accept.Judges() && s.Format == promptset.FormatOpenAI:
		return Invalid("format", "is openai, whose lines have no columns for verdicts: give `format` parquet or "+
			"jsonl, or leave `accept-regex`, `accept-schema`, `accept-equals`, `accept-command`, `accept-score` and "+
			"`until-majority` out")
	case s.Accept.Until > max(0, s.Sampling.N): // a negative n is refused by its name
		return Invalid("until", "is %d, and `max-n` is %d, so that no row can have as many: give a larger `max-n`",
			s.Accept.Until, s.Sampling.N)
	}
	return nil
}

// checkTools checks which tools completions may call, and presents them to the model.
func (s *Spec) checkTools() error {
	if err := s.Tools.Check(Invalid); err != nil {
		return err
	}
	for _, name := range completion.ConversationColumns() {
		if slices.Contains(s.Columns, name) {
			return Invalid("columns", "is %s, which the output has if and only if completions call tools: leave it "+
				"out, and give `tools-from` or `tool-command`", name)
		}
	}
	if !s.Tools.Used() {
		return nil
	}
	switch {
	case slices.Contains(s.Columns, completion.HiddenColumn):
		return Invalid("columns", "is %s, and may not come with `tools-from` and `tool-command`: tokens between two "+
			"turns have no hidden states", completion.HiddenColumn)
	case s.Format == promptset.FormatOpenAI:
		return Invalid("format", "is openai, whose lines have no place for turns: give `format` parquet or jsonl, or "+
			"leave `tools-from` and `tool-command` out")
	case s.ToolCallParser == reply.None:
		return Invalid("tool-call-parser", "is none, and completions are to call tools: leave it out")
	case s.Watch != "":
		return Invalid("watch", "may not come with `tools-from` and `tool-command`: the turns of a completion are of "+
			"one version of the weights; run a job for each checkpoint, as its `model`")
	}
	registry, err := tools.ParseRegistry(s.Tools.Registry)
	if err == nil && s.Sampling.Tools == "" {
		s.Sampling.Tools = parameter.ListJSON(registry.Definitions())
	}
	return err
}

// checkParameters checks the parameters and brings them into their canonical form.
func checkParameters(set *parameter.Set) error {
	err := set.Check(func(own string) string { return parameter.Sink(own).Flag })
	if err != nil {
		var problem interface {
			Of() string
			Problem() string
		}
		if errors.As(err, &problem) {
			return Invalid(problem.Of(), "%s", problem.Problem())
		}
		return err
	}
	if err := engine.CheckStructure(set.StructuredOutputs); err != nil {
		return Invalid(StructureField(set.StructuredOutputs.Kind), "can't be followed: %w", err)
	}
	return nil
}

// checkStreams checks what [Standard] is, and what may come with it.
func (s *Spec) checkStreams() error {
	in := s.ReadsStandard()
	switch {
	case in && len(s.Inputs) > 1:
		return Invalid("input", "is - and more: standard input is the only input, or none")
	case s.Output != Standard:
		return nil
	case s.PartRows != 0:
		return Invalid("part-rows", NeedsFolder)
	case s.KeepPartitions:
		return Invalid(keepField, NeedsFolder)
	case s.Format == promptset.FormatParquet:
		return Invalid("format", "is parquet, and `output` is -, which takes lines: give `format` jsonl")
	case in && s.Format == promptset.FormatOpenAI:
		return Invalid("format",
			"is openai, and `input` is -: the lines of a batch file are compared with one another "+
				"first, so give a file")
	}
	return nil
}

// checkParsers checks the names of forms, and that there is a column for what they find.
func (s *Spec) checkParsers() error {
	for _, p := range []struct {
		field, name, column string
		names               []string
	}{
		{"reasoning-parser", s.ReasoningParser, ReasoningColumn, reply.ReasoningNames()},
		{"tool-call-parser", s.ToolCallParser, ToolCallsColumn, reply.ToolCallNames()},
	} {
		if err := reply.Check(p.name, p.names); err != nil {
			return Invalid(p.field, "%v", err)
		}
		named := p.name != reply.Auto && p.name != reply.None && !(p.column == ToolCallsColumn && s.Tools.Used())
		if named && !slices.Contains(s.Columns, p.column) && s.Format != promptset.FormatOpenAI {
			return Invalid(p.field, "is %s, and the output has no column for it: give `columns` %s", p.name, p.column)
		}
	}
	return nil
}

// checkWatch checks what happens when the weights change.
func (s *Spec) checkWatch() error {
	if s.Watch == "" {
		if s.OnSwap != "" {
			return Invalid("on-swap", "is %s, and no weights are watched: give `watch` PLACE, or leave it out",
				s.OnSwap)
		}
		return nil
	}
	if s.Adapters.Merged != "" {
		return Invalid("merge-adapter", "is %s, and the weights that `watch` takes would lack it: merge it into these",
			storage.Redact(s.Adapters.Merged))
	}
	s.OnSwap = cmp.Or(s.OnSwap, engine.Finish)
	return oneOf("on-swap", string(s.OnSwap), string(engine.Finish), string(engine.Restart), string(engine.Continue))
}

// NeedsFolder is what is wrong with a setting alongside the output Standard.
const NeedsFolder = "is for output folders, and `output` is -: leave one of the two out"

// StructureField is the field that gives a structure of a kind.
func StructureField(kind parameter.StructureKind) string {
	switch kind {
	case parameter.SchemaStructure:
		return "json-schema"
	case parameter.RegexStructure, parameter.ChoiceStructure, parameter.GrammarStructure:
		return string(kind)
	}
	return "structured-outputs"
}
