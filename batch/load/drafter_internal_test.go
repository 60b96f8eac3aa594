package load

import (
	"strings"
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/tokenizer"
)

// A draft model must have the tokens of the model: as texts where there are tokenizers, else as many.
func TestDraftModelHasTheTokens(t *testing.T) {
	open := func(name string) *tokenizer.Tokenizer {
		tok, err := tokenizer.Open(testenv.Path("text", "tokenizer", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	of := func(size int) *models.Checkpoint { return &models.Checkpoint{Config: models.Config{VocabSize: size}} }
	a, b := open("llama3"), open("qwen2")
	for name, c := range map[string]struct {
		model, draft int
		tok, of      *tokenizer.Tokenizer
		want         string
	}{
		"the same":          {256, 256, nil, nil, ""},
		"other sizes":       {256, 300, nil, nil, "the model has 256 tokens, the draft model 300"},
		"the same texts":    {256, 300, a, open("llama3.gguf"), ""}, // embeddings with room for more
		"other texts":       {256, 256, a, b, "for the draft model"},
		"without tokenizer": {256, 256, a, nil, "has a tokenizer, and the other has none"},
	} {
		t.Run(name, func(t *testing.T) {
			err := sameTokens(of(c.model), of(c.draft), c.tok, c.of)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
