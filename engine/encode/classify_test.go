package encode_test

import (
	"compress/gzip"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/scoring"
	"github.com/quire/quire/models/sentence"
)

// scored is what transformers makes of a row with a head.
type scored struct {
	IDs            []int32
	Second         int
	Logits, Scores []float32
	Label          string
}

// classifiers are the tiny checkpoints with a head. The first ones are those of fast tests.
var classifiers = []string{"bert", "modernbert", "qwen3", "bert-reranker", "roberta", "xlm-roberta", "mpnet",
	"distilbert", "modernbert-cls", "llama", "gemma2"}

func openClassifier(t *testing.T, name string) (*models.Checkpoint, []scored) {
	t.Helper()
	dir := testenv.Path("testdata", "classifiers", name)
	model, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	f, err := os.Open(filepath.Join(dir, "scores.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []scored
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return model, list
}

func (s scored) sequence() admit.Sequence { return admit.Sequence{Tokens: s.IDs, Second: s.Second} }

// logits returns the numbers that a model's head makes of sequences, one request for each.
func logits(t *testing.T, e *encode.Encoder, sequences []admit.Sequence) (list [][]float32) {
	t.Helper()
	for c, err := range e.Run(t.Context(), each(sequences)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		list = append(list, c.Vector)
	}
	return list
}

func each(sequences []admit.Sequence) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		for i := range sequences {
			if !yield(&engine.Request{Sequences: sequences[i : i+1]}) {
				return
			}
		}
	}
}

func sequencesOf(cases []scored) (list []admit.Sequence) {
	for _, c := range cases {
		list = append(list, c.sequence())
	}
	return list
}

// Heads of each family have the logits, the scores and the labels of transformers.
func TestClassesEqualTransformers(t *testing.T) {
	for i, name := range classifiers {
		t.Run(name, func(t *testing.T) {
			model, cases := openClassifier(t, name)
			backends := map[string]compute.Backend{"kernels": testenv.XLA(t)}
			if !testing.Short() || i < 3 {
				backends["plain"] = testenv.XLAWithoutKernels(t)
			}
			head := model.Config.Classifier
			for kind, backend := range backends {
				cfg := wide(model)
				cfg.Backend = backend
				for i, got := range logits(t, newEncoder(t, cfg), sequencesOf(cases)) {
					if d := apart(got, cases[i].Logits); !(d < 2e-5) {
						t.Errorf("%s, row %d of %d tokens: %v, %g apart from transformers", kind, i, len(cases[i].IDs),
							got, d)
					}
					scores := scoring.OfClasses(head).Apply(got)
					if d := apart(scores, cases[i].Scores); !(d < 1e-5) {
						t.Errorf("%s, row %d: scores %v are %g apart from transformers", kind, i, scores, d)
					}
					if label := head.Labels[scoring.Best(scores)]; label != cases[i].Label {
						t.Errorf("%s, row %d: it is %s, and %s in transformers", kind, i, label, cases[i].Label)
					}
				}
			}
		})
	}
}

// What the configs say about heads matters: without it, scores are others.
func TestFeaturesOfHeadsMatter(t *testing.T) {
	activation := func(c *models.Config) { c.Dense[0].Activation = "" }
	for _, c := range []struct {
		name, feature string
		change        func(c *models.Config)
	}{
		{"modernbert", "norm", func(c *models.Config) { c.Dense[0].Norm = false }},
		{"modernbert", "gelu", activation},
		{"modernbert", "pooling", func(c *models.Config) { c.Classifier.Pooling = "cls" }},
		{"qwen3", "padding", func(c *models.Config) { c.Classifier.Padding = -1 }},
		{"bert", "bias", func(c *models.Config) { c.Dense[1].Bias = false }},
		{"bert", "tanh", activation},
		{"bert", "kinds of tokens", func(c *models.Config) { c.Encoder.Types = 1 }},
		{"distilbert", "relu", activation},
	} {
		if testing.Short() && c.name != "modernbert" && c.name != "qwen3" {
			continue
		}
		t.Run(c.name+"/"+c.feature, func(t *testing.T) {
			model, cases := openClassifier(t, c.name)
			if c.change(&model.Config); c.feature == "kinds of tokens" {
				cases = cases[len(cases)-1:]
				cases[0].Second, model.Config.Encoder.Types = 0, 2
			}
			model.Sentence.Pooling = sentence.Pooling(model.Config.Classifier.Pooling)
			most := 0.0
			for i, got := range logits(t, newEncoder(t, wide(model)), sequencesOf(cases)) {
				most = max(most, apart(got, cases[i].Logits))
			}
			if most < 1e-3 {
				t.Error("it makes no difference")
			}
		})
	}
}

// The scores of a request with several rows are those of its rows alone, whatever steps they are in, and requests are
// answered in order.
func TestSeveralSequences(t *testing.T) {
	model, rng := first(openClassifier(t, "bert")), rand.New(rand.NewPCG(5, 6))
	var rows []admit.Sequence
	for i := range 200 {
		tokens := make([]int32, 2+rng.IntN(1+rng.IntN(78)))
		for k := range tokens {
			tokens[k] = int32((7*i + k*k) % model.Config.VocabSize)
		}
		rows = append(rows, admit.Sequence{Tokens: tokens, Second: rng.IntN(len(tokens))})
	}
	alone := logits(t, newEncoder(t, wide(model)), rows)
	for _, step := range []int{80, 1000} {
		cfg := wide(model)
		cfg.StepTokens = step
		e := newEncoder(t, cfg)
		sizes := []int{1, 150, 0, 3, 46}
		requests := func(yield func(*engine.Request) bool) {
			rest := rows
			for _, n := range sizes {
				if !yield(&engine.Request{Sequences: rest[:n:n]}) {
					return
				}
				rest = rest[n:]
			}
		}
		rest, n := alone, 0
		for c, err := range e.Run(t.Context(), requests) {
			if err != nil {
				t.Fatal(err)
			}
			size := sizes[n]
			if n++; size == 0 {
				if c.Err == nil {
					t.Error("a request without rows is not refused")
				}
				continue
			}
			want := slices.Concat(rest[:size]...)
			rest = rest[size:]
			if c.Err != nil || !slices.Equal(c.Vector, want) {
				t.Errorf("steps of %d: %d rows have other scores together (%v)", step, size, c.Err)
			}
		}
		if n != len(sizes) {
			t.Errorf("%d answers of %d", n, len(sizes))
		}
	}
	long := slices.Repeat([]int32{5}, 81)
	check := wide(model).Check(&engine.Request{Sequences: []admit.Sequence{rows[0], {Tokens: long}}})
	if check == nil || !strings.Contains(check.Error(), "documents[1]: the prompt is too long") {
		t.Errorf("a document that is too long: %v", check)
	}
}

func first[A, B any](a A, _ B) A { return a }

// Heads that are not computed are refused by name, and models with heads generate no text.
func TestRefusedHeads(t *testing.T) {
	model, _ := openClassifier(t, "llama")
	if err := model.Config.Generates(); err == nil || !strings.Contains(err.Error(), "LlamaForSequenceClassification "+
		"scores classes") {
		t.Errorf("it generates: %v", err)
	}
	config, err := os.ReadFile(testenv.Path("testdata", "classifiers", "bert", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string][2]string{
		`"LlamaForQuestionAnswering"`:                       {"BertForSequenceClassification", "LlamaForQuestionAnswering"},
		`problem_type "ranking"`:                            {`"architectures"`, `"problem_type": "ranking", "architectures"`},
		`id2label has 3 labels, and none with the number 2`: {`"2": "positive"`, `"7": "positive"`},
		`sbert_ce_default_activation_function "torch.nn.Tanh"`: {`"architectures"`,
			`"sbert_ce_default_activation_function": "torch.nn.Tanh", "architectures"`},
	} {
		text := strings.ReplaceAll(string(config), change[0], change[1])
		if _, err := models.ParseConfig([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c, err := models.ParseConfig(config, nil)
	if err != nil || !slices.Equal(c.Classifier.Labels, []string{"negative", "neutral", "positive"}) ||
		c.Dense[0].Activation != arch.Tanh {
		t.Errorf("%+v %v", c.Classifier, err)
	}
}

// GGUF files with heads, made by llama.cpp's converter, have the bytes of their folders' scores, and their labels.
// Files have no position of the padding, so texts are without it.
func TestHeadsOfGGUF(t *testing.T) {
	for _, name := range []string{"roberta", "xlm-roberta", "distilbert"} {
		folder, cases := openClassifier(t, name)
		file, err := models.Open(testenv.Path("testdata", "classifiers", name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got, want := file.Config.Classifier, folder.Config.Classifier; !slices.Equal(got.Labels, want.Labels) ||
			got.Pooling != want.Pooling || got.Padding != want.Padding {
			t.Errorf("%s: its head is read as %+v, want %+v", name, got, want)
		}
		cases = slices.DeleteFunc(cases, func(c scored) bool { return slices.Contains(c.IDs, 1) })
		want := logits(t, newEncoder(t, wide(folder)), sequencesOf(cases))
		for i, got := range logits(t, newEncoder(t, wide(file)), sequencesOf(cases)) {
			if !slices.Equal(got, want[i]) {
				t.Errorf("%s, row %d: %v, and %v of the folder", name, i, got, want[i])
			}
		}
	}
}
