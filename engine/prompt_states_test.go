package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/sentence"
)

// stating are requests that ask for the hidden states after their prompts, some of which generate nothing.
func stating() (requests []*engine.Request) {
	for i := range 9 {
		r := sampled(fmt.Sprint("stating", i), nil, 1, 6, 3)
		for k := range 20 + i/3*25 {
			r.Tokens = append(r.Tokens, int32(20+(k*7+i/2)%50))
		}
		r.Tokens = append(r.Tokens, int32(30+i))
		r.State = true
		switch i % 3 {
		case 1:
			r.N = 3
		case 2:
			r.MaxTokens = 0
		}
		requests = append(requests, r)
	}
	return requests
}

// The hidden state after a prompt is the vector that the encoder gives of the last token, bit for bit, next to text
// whose bytes are the same without it: alone and together, in any order, in one slot, in small steps, with prompts that
// share a part, and with drafts.
func TestPromptStates(t *testing.T) {
	states := func(c *engine.Config) { c.Features |= engine.FeaturesOfColumns("embedding") }
	e := contractEngine(t, states)
	model, err := models.Open(testenv.Path("testdata", "models", contractFamily))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	encoder, err := encode.New(t.Context(), encode.Config{Model: model, Backend: testenv.XLA(t),
		DType: contractConfig().DType, Pooling: sentence.Last})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoder.Close)
	want := map[string][]float32{}
	for c, err := range encoder.Run(t.Context(), slices.Values(stating())) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c.Err)
		}
		want[c.Request.ID] = c.Vector
	}
	texts := collect(t, contractEngine(t, nil), slices.DeleteFunc(stating(), func(r *engine.Request) bool {
		return r.MaxTokens == 0
	})...)
	check := func(name string, got map[string]*engine.Completion) {
		t.Helper()
		for key, c := range got {
			if c.Err != nil {
				t.Fatalf("%s: %s: %v", name, key, c.Err)
			}
			if !slices.Equal(c.State, want[c.Request.ID]) {
				t.Errorf("%s: %s has another state than the encoder: %.6v, want %.6v", name, key, c.State[:4],
					want[c.Request.ID][:4])
			}
			if text := texts[key]; text != nil && !slices.Equal(text.Tokens, c.Tokens) {
				t.Errorf("%s: %s has other tokens: %v, want %v", name, key, c.Tokens, text.Tokens)
			}
		}
	}
	check("together", collect(t, e, stating()...))
	shuffled := stating()
	rand.New(rand.NewPCG(3, 5)).Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	check("again, in another order", collect(t, e, shuffled...))
	for _, r := range stating() {
		check("alone", collect(t, e, r))
	}
	if testing.Short() {
		return
	}
	check("in one slot", collect(t, contractEngine(t, func(c *engine.Config) { states(c); c.MaxSeqs = 1 }),
		stating()...))
	check("in small steps", collect(t, contractEngine(t, func(c *engine.Config) { states(c); c.PrefillTokens = 16 }),
		stating()...))
	check("with drafts", collect(t, contractEngine(t, func(c *engine.Config) { states(c); c.Speculate = 3 }),
		stating()...))
}
