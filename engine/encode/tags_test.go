package encode_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/scoring"
	"github.com/quire/quire/text/tokenizer"
)

// tagged is what the pipeline of transformers makes of a text.
type tagged struct {
	Labels, Tokens []string
	Starts, Ends   []int32
	Scores         []float32
	IDs            []int32
	Offsets        [][2]int
}

// openTokens opens a tiny checkpoint whose head scores tokens.
func openTokens(t *testing.T, name string) (*models.Checkpoint, string) {
	t.Helper()
	dir := testenv.Path("testdata", "classifiers", name)
	model, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return model, dir
}

// Each token has the logits of transformers, in steps of any size.
func TestLogitsOfTokens(t *testing.T) {
	for _, name := range []string{"bert-tokens", "distilbert-tokens", "roberta-tokens", "roberta-bytes",
		"modernbert-tokens", "llama-tokens", "xlm-roberta-tokens"} {
		model, dir := openTokens(t, name)
		b, err := os.ReadFile(filepath.Join(dir, "scores.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var cases []scored
		if err := json.NewDecoder(z).Decode(&cases); err != nil {
			t.Fatal(err)
		}
		var before [][]float32
		for _, step := range []int{0, 80} {
			cfg := wide(model)
			cfg.StepTokens = step
			got := logits(t, newEncoder(t, cfg), sequencesOf(cases))
			for i, c := range cases {
				if d := apart(got[i], c.Logits); !(d < 2e-4) {
					t.Errorf("%s, row %d of %d tokens: %d numbers, %g apart from transformers", name, i, len(c.IDs),
						len(got[i]), d)
				}
				if before != nil && !slices.Equal(got[i], before[i]) {
					t.Errorf("%s, row %d: it has other bytes in steps of %d tokens", name, i, step)
				}
			}
			before = got
		}
	}
}

// The labeled parts of texts are those of transformers' pipeline, and so are the characters of tokens.
func TestTagsEqualTransformers(t *testing.T) {
	for _, name := range []string{"bert-tokens", "roberta-bytes", "modernbert-tokens", "llama-tokens",
		"xlm-roberta-tokens"} {
		t.Run(name, func(t *testing.T) { tagsEqualTransformers(t, name) })
	}
}

func tagsEqualTransformers(t *testing.T, name string) {
	model, dir := openTokens(t, name)
	tok, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := newEncoder(t, wide(model))
	texts, err := os.ReadFile(filepath.Join(dir, "texts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "tags.json"))
	if err != nil {
		t.Fatal(err)
	}
	rows, goldens := json.NewDecoder(bytes.NewReader(texts)), json.NewDecoder(bytes.NewReader(want))
	for rows.More() {
		var row struct{ Prompt string }
		var golden tagged
		if rows.Decode(&row) != nil || goldens.Decode(&golden) != nil {
			t.Fatal("the files of texts and tags are not alike")
		}
		ids, spans, err := tok.EncodeSpans(row.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		if whole, _ := tok.Encode(row.Prompt, true); !slices.Equal(ids, whole) {
			t.Errorf("%q: the tokens with spans are %v, and %v without", row.Prompt, ids, whole)
		}
		if len(ids) == 0 {
			continue
		}
		if n, ends := len(golden.IDs), 0; len(ids) > n { // it is truncated
			if spans[len(spans)-1].IsSpecial {
				ends = 1
			}
			ids = slices.Concat(ids[:n-ends], ids[len(ids)-ends:])
			spans = slices.Concat(spans[:n-ends], spans[len(spans)-ends:])
		}
		tokens := make([]scoring.Span, len(spans))
		for i, s := range spans {
			tokens[i] = scoring.Span(s)
			if s.Start != golden.Offsets[i][0] || s.End != golden.Offsets[i][1] {
				t.Errorf("%q: token %d is of the characters %v, want %v", row.Prompt, i, s, golden.Offsets[i])
			}
		}
		if !slices.Equal(ids, golden.IDs) {
			t.Fatalf("%q: the tokens are %v, want %v", row.Prompt, ids, golden.IDs)
		}
		numbers := logits(t, e, []admit.Sequence{{Tokens: ids}})[0]
		got := scoring.Tag(model.Config.Classifier.Labels, numbers, tokens)
		var own []string // of the text
		for i, s := range spans {
			if !s.IsSpecial {
				own = append(own, got.Tokens[i])
			}
		}
		if !slices.Equal(got.Labels, golden.Labels) || !slices.Equal(got.Starts, golden.Starts) ||
			!slices.Equal(got.Ends, golden.Ends) || !slices.Equal(own, golden.Tokens) ||
			!(apart(got.Scores, golden.Scores) < 1e-4) {
			t.Errorf("%q: %+v, want %+v", row.Prompt, got, golden)
		}
	}
}
