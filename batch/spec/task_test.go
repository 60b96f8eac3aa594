package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
)

// Everything that a job of vectors settles on and that their bytes depend on is in job.json, and a job of completions
// has none of it.
func TestVectorsAreIdentified(t *testing.T) {
	job := func(change func(*Job)) string {
		j := &Job{Spec: Default()}
		j.Task = completion.Embed
		j.Vectors = Vectors{VectorType: completion.VectorType{Element: completion.Float32, Dimensions: 8},
			Pooling: sentence.Mean}
		change(j)
		text, err := json.Marshal(j.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	was := job(func(*Job) {})
	for name, change := range map[string]func(*Job){
		"element":    func(j *Job) { j.Vectors.Element = completion.Int8 },
		"dimensions": func(j *Job) { j.Vectors.Dimensions = 4 },
		"pooling":    func(j *Job) { j.Vectors.Pooling = sentence.CLS },
		"normalize":  func(j *Job) { j.Vectors.Normalize = true },
		"prompt":     func(j *Job) { j.Vectors.Prompt = "query: " },
		"truncation": func(j *Job) { j.Sampling.TruncatePromptTokens = 7 },
	} {
		if job(change) == was {
			t.Errorf("another %s does not change the job's identity: %s", name, was)
		}
	}
	if now := job(func(j *Job) { j.Sampling.Temperature = 0.5 }); now != was {
		t.Errorf("the temperature is in the identity of a job that generates nothing: %s", now)
	}
	plain := job(func(j *Job) { j.Task = completion.Generate })
	for _, name := range []string{"task", "embedding", "pooling", "normalize", "dimensions"} {
		if strings.Contains(plain, name) {
			t.Errorf("a job of completions has %s: %s", name, plain)
		}
	}
}

// The text that a tokenizer gets, and the vector that is stored, follow from the model's files unless the job says
// otherwise.
func TestWithSentence(t *testing.T) {
	files := sentence.Settings{Pooling: sentence.Last, Normalize: true, Stated: true, DefaultPrompt: "document",
		Prompts: map[string]string{"document": "title: ", "query": "q: "}}
	for _, c := range []struct {
		given Embedding
		want  Vectors
	}{
		{Embedding{}, Vectors{completion.VectorType{Element: completion.Float32, Dimensions: 16}, sentence.Last, true,
			false, true, "title: "}},
		{Embedding{Type: "binary", Pooling: "max", Normalize: "off", PromptName: "query"},
			Vectors{completion.VectorType{Element: completion.Binary, Dimensions: 16}, sentence.Max, false, false, true,
				"q: "}},
		{Embedding{PromptName: PromptNone, Dimensions: 16}, Vectors{completion.VectorType{Element: completion.Float32,
			Dimensions: 16}, sentence.Last, true, false, true, ""}},
	} {
		j := &Job{Spec: Spec{Task: completion.Embed, Embedding: c.given}}
		got, err := j.WithSentence(files, 16, func(format string, args ...any) {
			t.Errorf("%+v: "+format, append([]any{c.given}, args...)...)
		})
		if err != nil || got.Vectors != c.want {
			t.Errorf("%+v: %+v, %v, want %+v", c.given, got, err, c.want)
		}
	}
}

// A model whose files say nothing of vectors is warned about, unless the user chose.
func TestPoolingNobodyChose(t *testing.T) {
	for pooling, want := range map[string]string{
		"mean": "",
		"": "warning: the model's files do not say how its vectors are made: `pooling` is last and `normalize` is " +
			"off"} {
		said := ""
		j := &Job{Spec: Spec{Task: completion.Embed, Embedding: Embedding{Pooling: pooling}}}
		if _, err := j.WithSentence(sentence.Settings{Pooling: sentence.Last}, 16, func(format string, args ...any) {
			said += fmt.Sprintf(format, args...)
		}); err != nil || !strings.HasPrefix(said, want) || (said == "") != (want == "") {
			t.Errorf("pooling %q: %q, %v, want %q", pooling, said, err, want)
		}
	}
}

// A stored vector is near the vector, as its type allows.
func TestStoredVectors(t *testing.T) {
	const n = 96
	vector := make([]float32, n)
	for i := range vector {
		vector[i] = float32(math.Sin(float64(i * i)))
	}
	sentence.Normalize(vector)
	for element, most := range map[completion.Element]float64{completion.Float32: 0, completion.Float16: 2e-4,
		completion.Int8: 8 / math.Sqrt(n) / 127 / 2} {
		typ := completion.VectorType{Element: element, Dimensions: n}
		scale := typ.Scale()
		if scale == 0 {
			scale = 1
		}
		stored := typ.Stored(vector)
		for i, v := range vector {
			if off := math.Abs(float64(stored[i])*scale - float64(v)); off > most*1.0001 {
				t.Errorf("%s: number %d is off by %v", typ, i, off)
			}
		}
	}
	bits := completion.VectorType{Element: completion.Binary, Dimensions: 10}.Stored(
		[]float32{1, -1, 0, 2, 0, 0, 0, 1e-9, -5, 3})
	if len(bits) != 2 || bits[0] != 0b10010001 || bits[1] != 0b01000000 {
		t.Errorf("bits %v", bits)
	}
}

// Everything that scores depend on is in job.json, and what the model's files say holds unless the job says otherwise.
func TestScoresAreIdentified(t *testing.T) {
	job := func(task completion.Task, given Scoring, labels ...string) string {
		j := &Job{Spec: Default()}
		j.Task, j.Scoring = task, given
		next, err := j.WithClassifier(&arch.Classifier{Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(next.Parameters())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	was := job(completion.Classify, Scoring{}, "a", "b")
	if !strings.Contains(was, `"score_function":"softmax"`) || !strings.Contains(was, `"classes":2`) {
		t.Errorf("the identity is %s", was)
	}
	for name, now := range map[string]string{
		"function": job(completion.Classify, Scoring{Function: "none"}, "a", "b"),
		"labels":   job(completion.Classify, Scoring{}, "a", "b", "c"),
		"task":     job(completion.Rerank, Scoring{}, "a"),
	} {
		if now == was {
			t.Errorf("another %s does not change the job's identity: %s", name, was)
		}
	}
	if job(completion.Rerank, Scoring{TopN: 3}, "a") == job(completion.Rerank, Scoring{}, "a") {
		t.Error("another top-n does not change the job's identity")
	}
}
