package masking_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/tokenizer"
)

// A row that comes to a state which does not say all of its text stands in one that does once it is placed, so that the
// items of its array are distinct.
func TestLooseStatesAreSettled(t *testing.T) {
	texts := []string{"", "[", "]", `"`, `","`, `"]`, "a", "b", ","}
	p := &tokenizer.Pieces{Starts: []int32{0}}
	for _, text := range texts {
		p.Bytes = append(p.Bytes, text...)
		p.Starts = append(p.Starts, int32(len(p.Bytes)))
	}
	v := masking.NewVocabulary(p, len(texts), []int32{0})
	m, err := masking.NewMachine(stopping.OfText, func() (masking.Automaton, error) {
		a, err := grammar.JSONSchema([]byte(`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`),
			grammar.Options{})
		if err != nil {
			return nil, err
		}
		return masking.NewText(a, v), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	arena := masking.New(masking.Sizes{States: 200, Masks: 20, Words: 1, PatchStates: 20, PatchMasks: 20})
	rnd, ended := rand.New(rand.NewPCG(1, 2)), 0
	for range 100 {
		r, text := arena.Start(m), []byte(nil)
		for tokens := 0; ; tokens++ {
			if _, err := arena.Place([]*masking.Reader{r}); err != nil || r.Err() != nil {
				t.Fatal(err, r.Err())
			}
			arena.Ahead(func() bool { return tokens%2 == 0 })
			mask := arena.Mask(r)
			if mask == nil {
				t.Fatalf("%q has no mask", text)
			}
			var can []int32
			for token := range int32(len(texts)) {
				if masking.Has(mask, token) && (tokens < 30 || texts[token] != `","` && texts[token] != ",") {
					can = append(can, token)
				}
			}
			token := can[rnd.IntN(len(can))]
			if token == 0 {
				break
			}
			text = append(text, texts[token]...)
			if !arena.Walk(r, []byte(texts[token])) {
				t.Fatalf("%q is dead", text)
			}
		}
		var items []string
		if err := json.Unmarshal(text, &items); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		slices.Sort(items)
		if len(slices.Compact(slices.Clone(items))) != len(items) {
			t.Fatalf("%s has an item twice", text)
		}
		if len(items) > 2 {
			ended++
		}
	}
	if ended < 20 {
		t.Errorf("%d texts have several items", ended)
	}
}
