// Package spec describes what a job is: its settings, their checks, and what of them job.json has.
package spec

import (
	"slices"

	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
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

// Spec describes a job: job.json is made from it, and a queue gives it to workers. Completions depend on nothing else.
// Start with [DefaultSpec].
type Spec struct {
	// Model is a Hugging Face folder or a GGUF file, here or in an object store, hf://org/name, or a name that package
	// setup knows.
	Model string
	// LoadFormat is the weight source: LoadAuto or LoadDummy.
	LoadFormat string
	// Task is what the job computes for each prompt. Embedding describes its vectors if that is embed, and Scoring its
	// scores if that is classify or rerank.
	Task      completion.Task `json:",omitempty"`
	Embedding Embedding       `json:",omitzero"`
	Scoring   Scoring         `json:",omitzero"`
	// ChatTemplate is TemplateOfModel, TemplateNone or a file with a Jinja template.
	ChatTemplate string

	// Inputs are files, globs and folders of prompts, here or in an object store.
	Inputs []string `json:"-"`
	// PromptColumn, Template and System define the prompts of rows: see [promptset.Mapping]. Template is a Jinja
	// template. PrefixFile has the text of [promptset.Mapping.Prefix].
	PromptColumn, Template, System, PrefixFile string
	IDColumn                                   string // "" is id
	// PromptAs reports what a prompt is: one of the values above. "" is PromptAuto, as in jobs of older versions.
	PromptAs string `json:",omitempty"`
	// Partitions are the columns that folders of the inputs give, once they were looked into.
	Partitions []string
	// Output is the folder of the completions, here or in an object store.
	Output string
	// Format of the output: one of promptset.Formats.
	Format string
	// Columns are the columns that the output has on request.
	Columns []string
	Hidden  HiddenStates `json:",omitzero"`
	// Exclude are columns that the output leaves out: see [promptset.WriterOptions].
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
	// Watch is a folder, here or in an object store, where a trainer puts weights while the job runs: see package
	// watch. OnSwap is what happens to completions that have started when the engine takes them: see engine.Policy.
	Watch  string        `json:",omitempty"`
	OnSwap engine.Policy `json:",omitempty"`
	// Given are the names of the parameters that Sampling gives, in whose place the model's generation_config.json can
	// not have another default. GenerationConfig is GenerationAuto or GenerationNone, which reads none.
	Given            []string
	GenerationConfig string
	// Accept describes how completions are judged, and when a row ends before it has all n.
	Accept verdict.Settings `json:",omitzero"`
	// Tools are what completions may call.
	Tools    tools.Settings `json:",omitzero"`
	Engine   Engine
	Adapters Adapters `json:",omitzero"`
}

// Default is a job without model, inputs and output.
func Default() Spec {
	return Spec{
		LoadFormat: LoadAuto, ChatTemplate: TemplateOfModel, PromptAs: PromptAuto, Format: promptset.FormatParquet,
		ReasoningParser: reply.Auto, ToolCallParser: reply.Auto,
		Sampling: parameter.Defaults(), GenerationConfig: GenerationAuto, Engine: defaultEngine(),
	}
}

// EngineConfig is the config of the job's engine, without model, tokenizer and backend.
func (s *Spec) EngineConfig() engine.Config {
	cfg := s.Engine.Config()
	cfg.AdapterSlots = s.Adapters.Slots
	cfg.Features |= engine.FeaturesOf(s.Sampling.Sampling) |
		engine.ScoringFeatures(s.Sampling.TopLogprobs, s.Sampling.PromptLogprobs) |
		engine.FeaturesOfColumns(s.Columns...)
	if len(s.Sampling.LogitBias) > 0 {
		cfg.Features |= engine.Biases
	}
	if s.ScoresChoices() {
		cfg.Features |= engine.PromptLogprobs
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
	cfg.Hidden = s.Hidden.engine(s.Sampling.MaxTokens)
	cfg.SwapWeights = s.Watch != ""
	// After a restart each completion must stop at the token at which its weights changed.
	if s.OnSwap == engine.Continue && cfg.Speculate == engine.SpeculateAuto && s.Engine.DraftModel == "" {
		cfg.Speculate = 0
	}
	return cfg
}

// HideURLParameters takes the parameters off URLs of objects, which may hold what does not belong into logs and
// outputs. Storage has them from then on.
func (s *Spec) HideURLParameters() (err error) {
	s.Inputs = slices.Clone(s.Inputs)
	names := []*string{&s.Model, &s.Output, &s.Engine.DraftModel, &s.Watch, &s.Adapters.Merged,
		&s.Accept.Score}
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

// Encodes reports whether the job's task is an encoder's: nothing is generated.
func (s *Spec) Encodes() bool { return s.Task.Encodes() }

// ReadsStandard reports whether the job's rows come from standard input.
func (s *Spec) ReadsStandard() bool { return slices.Contains(s.Inputs, Standard) }
