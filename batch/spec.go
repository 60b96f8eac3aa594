package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/chat/reply"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/completion"
	"github.com/quire/quire/storage"
)

// Values of [Spec.LoadFormat].
const (
	LoadAuto  = "auto"  // weights from the model's files
	LoadDummy = "dummy" // random weights in the shapes of the model's config
)

// Values of [Spec.ChatTemplate] that are not the name of a file.
const (
	TemplateOfModel = "model"
	TemplateNone    = "none"
)

// Values of [Spec.PromptAs].
const (
	PromptAuto = "auto" // raw text, unless System is given
	PromptUser = "user" // a message of the user
	PromptRaw  = "raw"  // raw text
)

// Standard stands for standard input among [Spec.Inputs], and for standard output as [Spec.Output].
const Standard = "-"

// Spec says what a job is: what job.json describes is made from it, and a queue gives it to workers. Completions depend
// on nothing else. Begin with [DefaultSpec].
type Spec struct {
	// Model is a Hugging Face folder or a GGUF file, here or in an object store, hf://org/name, or a name that package
	// setup knows.
	Model string
	// LoadFormat is the weight source: LoadAuto or LoadDummy.
	LoadFormat string
	// ChatTemplate is TemplateOfModel, TemplateNone or a file with a Jinja template.
	ChatTemplate string

	// Inputs are files, globs and folders of prompts, here or in an object store.
	Inputs []string `json:"-"`
	// PromptColumn, Template and System say what the prompts of rows are: see [promptset.Mapping]. Template is a Jinja
	// template. PrefixFile has the text of [promptset.Mapping.Prefix].
	PromptColumn, Template, System, PrefixFile string
	IDColumn                                   string // "" is id
	// PromptAs says what a prompt is: one of the values above. "" is PromptAuto, as in jobs of older versions.
	PromptAs string `json:",omitempty"`
	// Partitions are the columns that folders of the inputs give, once they were looked into.
	Partitions []string
	// Output is the folder of the completions, here or in an object store.
	Output string
	// Format of the output: one of promptset.Formats.
	Format string
	// Columns are those of the output that it has on request.
	Columns []string
	// Exclude are columns that the output does without: see [promptset.WriterOptions].
	Exclude []string `json:",omitempty"`
	// KeepPartitions has the parts lie in folders as the inputs do, such as lang=en/split=test, without the columns
	// that these folders give.
	KeepPartitions bool `json:",omitempty"`
	// ServedModels are the names that lines of OpenAI batch files may give the model; none stands for any.
	ServedModels []string
	// ReasoningParser and ToolCallParser name the forms by which the columns reasoning and tool_calls are taken from
	// texts: see package reply.
	ReasoningParser, ToolCallParser string
	// Limit takes so many rows from the start of the input; 0 takes all.
	Limit int64
	// PartRows is the input rows of a part; 0 takes as many as make about 16,384 completions.
	PartRows int64

	// Sampling is what rows that give no parameters of their own take.
	Sampling parameter.Set
	// Given are the names of the parameters that Sampling gives, in whose place the model's generation_config.json can
	// not have another default. GenerationConfig is GenerationAuto or GenerationNone, which reads none.
	Given            []string
	GenerationConfig string
	Engine           Engine
}

// DefaultSpec is a job without model, inputs and output.
func DefaultSpec() Spec {
	return Spec{
		LoadFormat: LoadAuto, ChatTemplate: TemplateOfModel, PromptAs: PromptAuto, Format: promptset.FormatParquet,
		ReasoningParser: reply.Auto, ToolCallParser: reply.Auto,
		Sampling: parameter.Defaults(), GenerationConfig: GenerationAuto, Engine: defaultEngine(),
	}
}

// EngineConfig is the config of the job's engine, without model, tokenizer and backend.
func (s *Spec) EngineConfig() engine.Config {
	cfg := s.Engine.Config()
	cfg.Features |= engine.FeaturesOf(s.Sampling.Sampling) |
		engine.ScoringFeatures(s.Sampling.TopLogprobs, s.Sampling.PromptLogprobs)
	if len(s.Sampling.LogitBias) > 0 {
		cfg.Features |= engine.Biases
	}
	if s.Sampling.StructuredOutputs.Kind != "" || s.Sampling.AllowedTokenIDs != nil || s.Sampling.BadWords != nil {
		cfg.Features |= engine.MaskedTokens
	}
	if _, wanted := s.Sampling.WantsCall(); wanted {
		cfg.Features |= engine.MaskedTokens
	}
	if s.Sampling.MaxThinkingTokens >= 0 {
		cfg.Features |= engine.Thinking
	}
	return cfg
}

// FieldError says what is wrong with a field of a [Spec] or of [Options]. Field is the name that config files have for
// it, such as "max-tokens".
type FieldError struct {
	Field, Problem string
}

func (e *FieldError) Error() string { return "`" + e.Field + "` " + e.Problem }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// Validate checks what does not need the model. The error is a [*FieldError].
func (s *Spec) Validate() error {
	switch {
	case s.Model == "":
		return wrong("model", "is missing: a folder, a .gguf file, hf://org/name, or smollm2")
	case len(s.Inputs) == 0:
		return wrong("input", "is missing: a %s file with a column prompt, messages or prompt_token_ids",
			promptset.InputFormats())
	case s.Output == "":
		return wrong("output", "is missing: a folder for the completions")
	case s.Limit < 0:
		return wrong("limit", "is %d, but must be 0 (all rows) or more", s.Limit)
	case s.PartRows < 0:
		return wrong("part-rows", "is %d, but must be 0 (found automatically) or more", s.PartRows)
	}
	var err error
	if s.Columns, err = completion.OnRequest(s.Columns); err != nil {
		return wrong("columns", "%v", err)
	}
	if len(s.Columns) > 0 && s.Format == promptset.FormatOpenAI {
		return wrong("columns", "is %s, and the lines of `format` openai have no columns: leave it out, or give "+
			"`format` parquet or jsonl", strings.Join(s.Columns, ","))
	}
	return cmpOr(
		s.checkExcluded,
		s.checkJSONColumn,
		s.checkStreams,
		func() error { return oneOf("format", s.Format, promptset.Formats()...) },
		func() error { return oneOf("load-format", s.LoadFormat, LoadAuto, LoadDummy) },
		s.checkParsers,
		s.checkPrompts,
		func() error {
			// "" is that of jobs that earlier versions gave to a queue.
			return oneOf("generation-config", cmp.Or(s.GenerationConfig, GenerationNone), GenerationAuto,
				GenerationNone)
		},
		func() error { return checkParameters(&s.Sampling) },
		s.Engine.Validate,
	)
}

// cmpOr returns the error of the first check that fails.
func cmpOr(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	last := len(allowed) - 1
	return wrong(field, "is %q, but must be %s or %s", value, strings.Join(allowed[:last], ", "), allowed[last])
}

// checkParameters checks the parameters and brings them into their canonical form.
func checkParameters(set *parameter.Set) error {
	err := set.Check(func(own string) string { return parameter.Sink(own).Flag })
	if err != nil {
		var of interface {
			Of() string
			Problem() string
		}
		if errors.As(err, &of) {
			return &FieldError{of.Of(), of.Problem()}
		}
		return err
	}
	if err := engine.CheckStructure(set.StructuredOutputs); err != nil {
		return wrong(structureField(set.StructuredOutputs.Kind), "can't be followed: %v", err)
	}
	return nil
}

// hideParameters takes the parameters off URLs of objects, which may hold what does not belong into logs and outputs.
// Storage has them from then on.
func (s *Spec) hideParameters() (err error) {
	s.Inputs = slices.Clone(s.Inputs)
	names := []*string{&s.Model, &s.Output, &s.Engine.DraftModel}
	for i := range s.Inputs {
		names = append(names, &s.Inputs[i])
	}
	for _, name := range names {
		if *name, err = storage.Hide(*name); err != nil {
			return err
		}
	}
	return nil
}

// readsStandard says that the job's rows are those of standard input.
func (s *Spec) readsStandard() bool { return slices.Contains(s.Inputs, Standard) }

// checkStreams checks what [Standard] is, and what may come with it.
func (s *Spec) checkStreams() error {
	in := s.readsStandard()
	switch {
	case in && len(s.Inputs) > 1:
		return wrong("input", "is - and more: standard input is the only input, or none")
	case s.Output != Standard:
		return nil
	case s.PartRows != 0:
		return wrong("part-rows", forFolders)
	case s.KeepPartitions:
		return wrong(keepField, forFolders)
	case s.Format == promptset.FormatParquet:
		return wrong("format", "is parquet, and `output` is -, which takes lines: give `format` jsonl")
	case in && s.Format == promptset.FormatOpenAI:
		return wrong("format", "is openai, and `input` is -: the lines of a batch file are compared with one another "+
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
		{"reasoning-parser", s.ReasoningParser, reasoningColumn, reply.ReasoningNames()},
		{"tool-call-parser", s.ToolCallParser, callsColumn, reply.ToolCallNames()},
	} {
		if err := reply.Check(p.name, p.names); err != nil {
			return wrong(p.field, "%v", err)
		}
		named := p.name != reply.Auto && p.name != reply.None
		if named && !slices.Contains(s.Columns, p.column) && s.Format != promptset.FormatOpenAI {
			return wrong(p.field, "is %s, and the output has no column for it: give `columns` %s", p.name, p.column)
		}
	}
	return nil
}
