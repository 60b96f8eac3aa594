package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models/scoring"
	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/text/chat"
	"github.com/quire/quire/text/chat/reply"
)

// Settings in job.json that a larger job has larger, or has and the smaller one has not.
const (
	SettingN       = "n"
	SettingRows    = "rows"
	SettingParents = "parents"
)

// SettingMaxModelLen is the limit, among what a job settled on, that may be raised for rows that are tried again.
const SettingMaxModelLen = "max_model_len"

// The settings that distinguish a job are written under their names in job.json, alongside the sampling parameters that
// rows take. outputVersion is the version of all of them. [jobstate.Description.Differences] compares jobs.

// outputSettings are the settings that the completions and their columns depend on: they are in the output's files and
// in reports, too.
type outputSettings struct {
	ChatTemplate    string   `json:"chat_template"`
	DType           string   `json:"dtype,omitempty"`
	KVDType         string   `json:"kv_dtype,omitempty"`
	Weights         string   `json:"weights"`
	ServedModels    []string `json:"served_models,omitempty"`
	Columns         []string `json:"columns,omitempty"`
	HiddenLayers    []int    `json:"hidden_layers,omitempty"`
	HiddenTokens    string   `json:"hidden_tokens,omitempty"`
	HiddenDType     string   `json:"hidden_dtype,omitempty"`
	Exclude         []string `json:"exclude_columns,omitempty"`
	ReasoningParser *string  `json:"reasoning_parser,omitempty"` // nil for auto
	ToolCallParser  *string  `json:"tool_call_parser,omitempty"`
	PromptColumn    string   `json:"prompt_column,omitempty"`
	IDColumn        string   `json:"id_column,omitempty"`
	Template        string   `json:"template,omitempty"`
	System          string   `json:"system,omitempty"`
	PromptAs        string   `json:"prompt_as,omitempty"`
	Partitions      []string `json:"partitions,omitempty"` // which earlier versions had no columns of
	Prefix          string   `json:"prefix,omitempty"`     // its SHA-256
	OnSwap          string   `json:"on_swap,omitempty"`    // "" if the weights stay; the place may differ
	// Adapters are the digests of the adapters that rows may name.
	Adapters map[string]string `json:"adapters,omitempty"`
	Accept   *verdict.Settings `json:"accept,omitempty"`       // nil for jobs that judge nothing
	Tools    *tools.Settings   `json:"tool_calling,omitempty"` // nil for jobs that call none
	vectorSettings
}

// vectorSettings are the settings of a job whose task is not to generate completions.
type vectorSettings struct {
	Task           completion.Task    `json:"task,omitempty"`
	EmbeddingType  completion.Element `json:"embedding_type,omitempty"`
	Dimensions     int                `json:"dimensions,omitempty"`
	Pooling        sentence.Pooling   `json:"pooling,omitempty"`
	Normalize      *bool              `json:"normalize,omitempty"`
	EmbeddingStart string             `json:"embedding_prompt,omitempty"` // text before each text
	EmbeddingSide  *sentence.Side     `json:"embedding_side,omitempty"`   // if each token has a vector
	Classes        int                `json:"classes,omitempty"`
	ScoreFunction  scoring.Function   `json:"score_function,omitempty"`
	TopN           int                `json:"top_n,omitempty"`
}

// vectorSettings are the job's.
func (j *Job) vectorSettings() vectorSettings {
	if !j.Encodes() && !j.Embeds() {
		return vectorSettings{}
	}
	if j.Encodes() && j.Task != completion.Embed && j.Task != completion.MultiVector {
		return vectorSettings{Task: j.Task, Classes: len(j.Scores.Labels), ScoreFunction: j.Scores.Function,
			TopN: j.Scores.TopN}
	}
	v := &j.Vectors
	s := vectorSettings{Task: j.Task, EmbeddingType: v.Element, Dimensions: v.Dimensions, Pooling: v.Pooling,
		Normalize: &v.Normalize, EmbeddingStart: v.Prompt}
	if j.Task == completion.MultiVector {
		s.EmbeddingSide = &j.Side
	}
	return s
}

// jobSettings are all settings of a job but the parameters of sampling.
type jobSettings struct {
	outputSettings
	Format   string `json:"format"`
	Rows     int64  `json:"rows"`
	PartRows int64  `json:"part_rows"`
	Backend  string `json:"backend"`
	Kernels  string `json:"kernels"`
	KV       string `json:"kv"`
	Folders  bool   `json:"keep_partitions,omitempty"` // parts lie in folders as the inputs do
	Parents  bool   `json:"parents,omitempty"`         // which earlier versions passed through
	TP       int    `json:"tp,omitempty"`              // sums over devices have another order; replicas change nothing
	EP       int    `json:"ep,omitempty"`              // so have sums over groups; 0 is found
	Layers   string `json:"layers,omitempty"`          // compilers join operations of a loop in other ways
}

// outputSettings are the job's.
func (j *Job) outputSettings() outputSettings {
	s := outputSettings{ChatTemplate: j.ChatTemplate, DType: j.Engine.DType, KVDType: j.Engine.KVDType,
		Weights: j.Engine.Weights, ServedModels: j.ServedModels, Columns: j.Columns, Exclude: j.Exclude,
		HiddenLayers: j.Hidden.Layers, HiddenTokens: j.Hidden.Tokens, HiddenDType: j.Hidden.DType,
		PromptColumn: j.PromptColumn, IDColumn: j.IDColumn, Template: j.Template, System: j.System,
		Partitions: j.Partitions, OnSwap: string(j.OnSwap), Adapters: j.AdapterDigests,
		Accept: j.Accept.Identity(), Tools: j.Tools.Identity(), vectorSettings: j.vectorSettings()}
	if j.ReasoningParser != reply.Auto {
		s.ReasoningParser = &j.ReasoningParser
	}
	if j.ToolCallParser != reply.Auto {
		s.ToolCallParser = &j.ToolCallParser
	}
	if j.PromptAs == PromptUser && j.System == "" { // which makes prompts messages itself
		s.PromptAs = j.PromptAs
	}
	if j.Mapping.Prefix != "" {
		s.Prefix = digestOf([]byte(j.Mapping.Prefix))
	}
	return s
}

// digestOf stands for a text in job.json.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// settings are all that a job with rows of some kind has in job.json.
func (j *Job) settings(parts folder.Parts, parents bool) jobSettings {
	s := jobSettings{outputSettings: j.outputSettings(), Format: j.Format, Rows: parts.Rows, PartRows: parts.PartRows,
		Backend: j.Engine.Backend, Kernels: j.Engine.Kernels, KV: j.Engine.KV, Folders: j.KeepPartitions,
		Parents: parents}
	s.DType, s.KVDType = "", ""              // these two come under "settled" as what they turned out to be
	if parents && j.PromptAs == PromptUser { // also after `system`, which makes messages of first prompts alone
		s.PromptAs = j.PromptAs
	}
	if j.Engine.TP > 1 {
		s.TP = j.Engine.TP
	}
	if j.Engine.EP > 0 {
		s.EP = j.Engine.EP
	}
	if j.Engine.Layers == engine.LayersLoop {
		s.Layers = j.Engine.Layers
	}
	return s
}

// withSampling are settings by their names, with the job's parameters of sampling.
func (j *Job) withSampling(settings any) jobstate.Settings {
	var all jobstate.Settings
	text, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic(err) // they are texts, numbers and lists of texts
	}
	if j.Encodes() {
		maps.Copy(all, j.Sampling.PromptIdentity())
	} else {
		maps.Copy(all, j.Sampling.Identity())
	}
	return all
}

// Parameters are the settings that the completions depend on.
func (j *Job) Parameters() map[string]any { return j.withSampling(j.outputSettings()) }

// settingsOf reads the settings of a job that was started; ok is false if they are not the settings of a job.
func settingsOf(job *jobstate.Description) (s jobSettings, ok bool) {
	text, err := json.Marshal(job.Settings)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err == nil
}

// AcceptOf returns how a job judges completions.
func AcceptOf(job *jobstate.Description) (accept verdict.Settings) {
	if s, _ := settingsOf(job); s.Accept != nil {
		accept = *s.Accept
	}
	return accept
}

// ToolsOf returns which tools a job calls.
func ToolsOf(job *jobstate.Description) (called tools.Settings) {
	if s, _ := settingsOf(job); s.Tools != nil {
		called = *s.Tools
	}
	return called
}

// MappingOf is the mapping of prompts in a job's settings. They do not contain the text of a prefix, and a different
// text stands for it.
func MappingOf(job *jobstate.Description) (promptset.Mapping, error) {
	s, _ := settingsOf(job)
	m := promptset.Mapping{PromptColumn: s.PromptColumn, IDColumn: s.IDColumn,
		System: systemOf(s.Task, s.System), Chat: s.PromptAs == PromptUser, Prefix: s.Prefix, Partitions: s.Partitions,
		Reads: s.Task.Reads()}
	if s.Template == "" {
		return m, nil
	}
	template, err := chat.ParsePrompt(s.Template)
	if err == nil {
		m.Template = template
	}
	return m, err
}
