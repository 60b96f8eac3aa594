package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// If weights are replaced while requests run, the state after a prompt is that of the version of the first token, with
// each policy, also without tokens; and when the completion is generated again with its versions.
func TestPromptStatesOfVersions(t *testing.T) {
	versions := versionsOf(t, 3)
	wave := func(number int) (requests []*engine.Request) {
		for _, r := range stating() {
			r.ID += fmt.Sprint(" ", number)
			requests = append(requests, r)
		}
		return requests
	}
	cfg := contractConfig()
	cfg.KVMemory = smallPool // rows are swapped out
	cfg.Features |= engine.FeaturesOfColumns("embedding")
	want := map[string]map[string]*engine.Completion{}
	for _, v := range versions {
		want[v.FingerPrint()] = collect(t, engineOf(t, v, cfg), slices.Concat(wave(0), wave(1), wave(2))...)
	}
	e := engineOf(t, versions[0], cfg)
	for _, policy := range []engine.Policy{engine.Finish, engine.Restart, engine.Continue} {
		check := func(got map[string]*engine.Completion) {
			tokenless := map[string]bool{}
			for key, c := range got {
				if c.Err != nil || len(c.Weights) == 0 {
					t.Fatalf("%s: %s has the weights %v and the error %v", policy, key, c.Weights, c.Err)
				}
				version := c.Weights[0].Version
				tokenless[version] = tokenless[version] || len(c.Tokens) == 0
				if !slices.Equal(bits(c.State), bits(want[version][key].State)) {
					t.Errorf("%s: %s has another state than with the weights of its first token", policy, key)
				}
			}
			// How many requests come with the last version depends on when calls end.
			if len(tokenless) < 2 || !tokenless[versions[1].FingerPrint()] {
				t.Errorf("%s: %v of the versions have completions without tokens", policy, tokenless)
			}
		}
		ended := make(chan *engine.Completion, 100)
		got := map[string]*engine.Completion{}
		for c, err := range e.Run(t.Context(), func(yield func(*engine.Request) bool) {
			for i := range versions {
				for _, r := range wave(i) {
					if !yield(r) {
						return
					}
				}
				for c := range ended { // the first ones without tokens, while others run
					if len(c.Tokens) == 0 && strings.HasSuffix(c.Request.ID, fmt.Sprint(" ", i)) {
						break
					}
				}
				if _, err := e.Swap(t.Context(), versions[(i+1)%len(versions)], policy); err != nil {
					t.Error(err)
				}
			}
		}) {
			if err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c
			ended <- c
		}
		check(got)
		var again []*engine.Request
		for _, c := range got {
			r := *c.Request
			r.FirstGeneration, r.N, r.Weights = c.Generation, 1, c.Weights
			again = append(again, &r)
		}
		replayed := map[string]*engine.Completion{}
		for c, err := range e.Replay(t.Context(), slices.Values(again), opener(versions)) {
			if err != nil {
				t.Fatal(err)
			}
			replayed[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c
		}
		check(replayed)
		sameBytes(t, got, replayed, true)
	}
}
