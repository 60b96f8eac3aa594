package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/sentence"
)

// TaskGenerate is another name of [completion.Generate], for people.
const TaskGenerate completion.Task = "generate"

// Values of fields of [Embedding].
const (
	EmbeddingAuto = "auto" // as the model's files say
	EmbeddingOn   = "on"
	EmbeddingOff  = "off"
	PromptNone    = "none" // no text before a text
)

// Embedding describes the vectors of a job whose task is embed. The zero value takes what the model's files say.
type Embedding struct {
	Type       string `json:",omitempty"` // one of completion.Elements; "" is float32
	Dimensions int    `json:",omitempty"` // 0 is all of the model's
	Pooling    string `json:",omitempty"` // EmbeddingAuto, or one of sentence.Poolings
	Normalize  string `json:",omitempty"` // EmbeddingAuto, EmbeddingOn or EmbeddingOff
	// PromptName names the text before each text, among the prompts of the model's files; "" is their default.
	PromptName string `json:",omitempty"`
	// Multi reports whether each token of a text has a vector, for late interaction.
	Multi bool `json:",omitempty"`
}

// Poolings are the values of [Embedding.Pooling].
func Poolings() []string {
	names := []string{EmbeddingAuto}
	for _, p := range sentence.Poolings {
		names = append(names, string(p))
	}
	return names
}

// checkTask checks the task and what only jobs of one task have. It sets the defaults that depend on the task.
func checkTask(s *Spec) error {
	if s.Task == TaskGenerate {
		s.Task = completion.Generate
	}
	if !s.Task.IsTask() || s.Task == completion.Tag || s.Task == completion.MultiVector { // what another task becomes
		return oneOf("task", string(s.Task), string(TaskGenerate), string(completion.Embed),
			string(completion.Classify), string(completion.Rerank))
	}
	if err := checkOtherTasks(s); err != nil {
		return err
	}
	checks := map[completion.Task]func(*Spec) error{completion.Embed: checkEmbedding,
		completion.Classify: checkScoring, completion.Rerank: checkScoring}
	check := checks[s.Task]
	if check == nil {
		return nil
	}
	if err := FirstError(func() error { return check(s) }, func() error { return checkNotGenerating(s) }); err != nil {
		return err
	}
	if !slices.Contains(s.Given, "truncate_prompt_tokens") {
		s.Sampling.TruncatePromptTokens = -1
	}
	if !slices.Contains(s.Given, "add_generation_prompt") {
		s.Sampling.AddGenerationPrompt = false
	}
	return nil
}

// checkEmbedding checks the settings of vectors.
func checkEmbedding(s *Spec) error {
	e := &s.Embedding
	if e.Dimensions < 0 {
		return Invalid("dimensions", "is %d, but must be 0 (all of the model's) or more", e.Dimensions)
	}
	if e.Type == string(completion.Float32) {
		e.Type = ""
	}
	if s.Format == promptset.FormatOpenAI && e.Type != "" {
		return Invalid("embedding-type", "is %s, and the answers of `format` openai have float32: leave it out",
			e.Type)
	}
	switch {
	case e.Multi && s.Format == promptset.FormatOpenAI:
		return Invalid("multi-vector", "is given, and the answers of `format` openai have one vector: give `format` "+
			"parquet or jsonl")
	case e.Multi && e.Pooling != "" && e.Pooling != EmbeddingAuto:
		return Invalid("pooling", "is %s, and `multi-vector` keeps the vectors of all tokens: leave one of them out",
			e.Pooling)
	}
	if err := FirstError(
		func() error {
			return oneOf("embedding-type", cmp.Or(e.Type, string(completion.Float32)), completion.Elements()...)
		},
		func() error { return oneOf("pooling", cmp.Or(e.Pooling, EmbeddingAuto), Poolings()...) },
		func() error {
			return oneOf("normalize", cmp.Or(e.Normalize, EmbeddingAuto), EmbeddingAuto, EmbeddingOn, EmbeddingOff)
		},
	); err != nil {
		return err
	}
	for _, field := range []*string{&e.Pooling, &e.Normalize} {
		if *field == EmbeddingAuto {
			*field = ""
		}
	}
	return nil
}

// asksEmbedding reports whether a job of completions asks for vectors of prompts, too, before its settings are checked.
func asksEmbedding(s *Spec) bool {
	o, err := parameter.ParseOutputs(s.Sampling.Outputs)
	return s.Task == completion.Generate && (slices.Contains(s.Columns, completion.VectorColumn) ||
		err == nil && o.Embedding)
}

// checkOtherTasks refuses settings that only jobs of other tasks have.
func checkOtherTasks(s *Spec) error {
	e, vectors := &s.Embedding, []completion.Task{completion.Embed}
	scores := []completion.Task{completion.Classify, completion.Rerank}
	for _, c := range []struct {
		field, what string
		of          []completion.Task
		given       bool
	}{
		{"embedding-type", "vectors", vectors, e.Type != "" && e.Type != string(completion.Float32)},
		{"dimensions", "vectors", vectors, e.Dimensions != 0},
		{"pooling", "vectors", vectors, e.Pooling != "" && e.Pooling != EmbeddingAuto},
		{"normalize", "vectors", vectors, e.Normalize != "" && e.Normalize != EmbeddingAuto},
		{"prompt-name", "vectors", vectors, e.PromptName != ""},
		{"multi-vector", "vectors", vectors, e.Multi},
		{"score-function", "scores", scores, s.Scoring.Function != "" && s.Scoring.Function != ScoringAuto},
		{"top-n", "rankings", scores[1:], s.Scoring.TopN != 0},
	} {
		ours := slices.Contains(c.of, s.Task) || asksEmbedding(s) && c.what == "vectors" && c.field != "multi-vector"
		if c.given && !ours {
			names := make([]string, len(c.of))
			for i, t := range c.of {
				names[i] = string(t)
			}
			return Invalid(c.field, "is for %s, and `task` is %s: leave it out, or give `task` %s", c.what,
				cmp.Or(s.Task, TaskGenerate), strings.Join(names, " or "))
		}
	}
	if s.Task != completion.Embed && !asksEmbedding(s) {
		s.Embedding = Embedding{}
	}
	if !slices.Contains(scores, s.Task) {
		s.Scoring = Scoring{}
	}
	return nil
}

// checkNotGenerating refuses settings of generating in a job of another task.
func checkNotGenerating(s *Spec) error {
	for p := range parameter.Own() {
		if p.Flag != "" && !p.OfPrompt() && slices.Contains(s.Given, p.Name) {
			return Invalid(p.Flag, "is for generated text, and `task` is %s: leave it out", s.Task)
		}
	}
	e := &s.Engine
	for _, c := range []struct {
		field, what string
		given       bool
	}{
		{"speculate", "is for generated text", e.Speculate != "off" && e.Speculate != ""},
		{"draft-model", "is for generated text", e.DraftModel != ""},
		{"accept-regex", "is for generated text", s.Accept.Regex != ""},
		{"accept-schema", "is for generated text", s.Accept.Schema != ""},
		{"accept-equals", "is for generated text", s.Accept.Equals != ""},
		{"accept-command", "is for generated text", s.Accept.Command != ""},
		{"accept-score", "is for generated text", s.Accept.Score != ""},
		{"until-majority", "is for generated text", s.Accept.Majority > 0},
		{"tools-from", "is for generated text", s.Tools.Registry != ""},
		{"tool-command", "is for generated text", s.Tools.Command != ""},
		{"watch", "is for generated text", s.Watch != ""},
		{"adapter", "is for generated text", len(s.Adapters.Named) > 0},
		{"adapters", "is for generated text", len(s.Adapters.Folders) > 0},
		{"merge-adapter", "is for generated text", s.Adapters.Merged != ""},
		{"features", "is for generated text", e.Features != ""},
		{"kv-memory", "is for keys and values, which an encoder does not keep", e.KVMemory != 0},
		{"host-kv-memory", "is for keys and values, which an encoder does not keep", e.HostKVMemory != 0},
	} {
		if c.given {
			return Invalid(c.field, "%s, and `task` is %s: leave it out", c.what, s.Task)
		}
	}
	return nil
}

// Vectors is how the vectors of a job are made, once the model's files were read.
type Vectors struct {
	completion.VectorType
	Pooling   sentence.Pooling
	Normalize bool
	Lowercase bool   // texts become lower case
	Trim      bool   // texts lose the spaces around them
	Prompt    string // text before each text
}

// checkDimensions returns what is wrong with a number of dimensions that is given, for a model whose vectors have size.
func checkDimensions(given, size int, m sentence.Matryoshka) error {
	switch {
	case given == 0 || given == size:
		return nil
	case given > size:
		return setting.Errorf("is %d, and the model's vectors have %d", given, size)
	case len(m.Dimensions) > 0 && !slices.Contains(m.Dimensions, given):
		return setting.Errorf("is %d, and the model's config.json has the matryoshka_dimensions %s: give one of these",
			given, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(m.Dimensions)), ", "), "[]"))
	case !m.Is && len(m.Dimensions) == 0:
		return setting.Errorf("is %d, and the model's files do not say that the first numbers of its vectors (%d) are "+
			"a vector too: leave it out; or, if the model was trained so (Matryoshka), add \"is_matryoshka\": true to "+
			"its config.json", given, size)
	}
	return nil
}

// promptNamed returns the text of a prompt of the model's files.
func promptNamed(name string, s *sentence.Settings) (string, error) {
	switch {
	case name == PromptNone:
		return "", nil
	case name == "":
		return s.Prompts[s.DefaultPrompt], nil
	}
	text, known := s.Prompts[name]
	if !known {
		var names []string
		for other := range s.Prompts {
			names = append(names, other)
		}
		slices.Sort(names)
		if len(names) == 0 {
			return "", setting.Errorf("is %q, and the model's files have no prompts: leave it out", name)
		}
		return "", setting.Errorf("is %q, and the model's files have the prompts %s: give one of these, or none", name,
			strings.Join(names, ", "))
	}
	return text, nil
}
