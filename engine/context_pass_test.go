package engine_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/pagetable"
)

// forward runs a pass.
func forward(t testing.TB, c *contexts.Context, p contexts.Pass) [][]float32 {
	t.Helper()
	logits, err := c.Forward(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// all lists n tokens of a pass.
func all(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// logprob is the logarithm of a token's probability.
func logprob(logits []float32, token int32) float32 {
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l - logits[token]))
	}
	return float32(-math.Log(sum))
}

// sameLogits compares logits that are computed in different ways.
func sameLogits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%s: logits of %d tokens, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !closeTo(got[i], want[i], 2e-4) {
			t.Errorf("%s: logits after token %d: %v..., want %v...", what, i, got[i][:4], want[i][:4])
			return
		}
	}
}

// A pass without positions and masks is what the model makes of the tokens: the same logits as scores have, in one pass
// and in many, across steps and pages.
func TestPassIsTheModel(t *testing.T) {
	e := contextEngine(t, nil)
	before, tokens := sharing(1, 37), sharing(2, 60)
	plain := open(t, e, before...)
	want, err := plain.Score(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e, before...)
	logits := forward(t, c, contexts.Pass{Tokens: tokens, Logits: all(len(tokens))})
	if c.Len() != len(before)+len(tokens) || len(logits) != len(tokens) || len(logits[0]) != 256 {
		t.Fatalf("%d tokens, %d logits", c.Len(), len(logits))
	}
	for i, token := range tokens[1:] {
		if got := logprob(logits[i], token); math.Abs(float64(got-want[i+1])) > 1e-4 {
			t.Errorf("token %d has %g, and a score of %g", i+1, got, want[i+1])
		}
	}
	single := open(t, e, before...)
	var one [][]float32
	for _, token := range tokens {
		one = append(one, forward(t, single, contexts.Pass{Tokens: []int32{token}})...)
	}
	sameLogits(t, "token by token", one, logits)
	last := forward(t, open(t, e, before...), contexts.Pass{Tokens: tokens})
	sameLogits(t, "the last", last, logits[len(logits)-1:])
}

// Tokens that do not see what is before them, and have the positions of a beginning, have the logits of a beginning.
func TestPassWithPositions(t *testing.T) {
	e := contextEngine(t, nil)
	before, tokens := sharing(1, 37), sharing(2, 40)
	want := forward(t, open(t, e), contexts.Pass{Tokens: tokens, Logits: all(len(tokens))})
	positions := make([]int32, len(tokens))
	for i := range positions {
		positions[i] = int32(i)
	}
	hidden := contexts.Pass{Tokens: tokens, Positions: positions, Logits: all(len(tokens)),
		Sees: func(_, place int) bool { return place >= len(before) }}
	sameLogits(t, "behind hidden tokens", forward(t, open(t, e, before...), hidden), want)
	hidden.Positions = nil // what matters is how far tokens are from each other
	sameLogits(t, "further on", forward(t, open(t, e, before...), hidden), want)
	hidden.Sees = nil
	got := forward(t, open(t, e, before...), hidden)
	if closeTo(got[0], want[0], 1e-2) {
		t.Error("what is hidden makes no difference: the test shows nothing")
	}
}

// Attention sinks: tokens see the first few and the last few. The logits are those of the tokens that they see alone.
func TestPassWithSinksAndWindow(t *testing.T) {
	e := contextEngine(t, nil)
	const sinks, window = 4, 16
	sees := func(token, place int) bool { return place < sinks || token-place < window }
	tokens := sharing(3, 70)
	whole := forward(t, open(t, e), contexts.Pass{Tokens: tokens, Sees: sees, Logits: all(len(tokens))})
	c := open(t, e)
	var steps [][]float32
	for _, token := range tokens {
		steps = append(steps, forward(t, c, contexts.Pass{Tokens: []int32{token}, Sees: sees})...)
	}
	sameLogits(t, "token by token", steps, whole)

	if testing.Short() {
		return
	}
	// A model whose layers have a window is that model with a mask.
	cfg := contractConfig()
	cfg.Model, cfg.Contexts, cfg.KVMemory = testenv.Model(t, contractFamily), 2, pagesOf(contextPages)
	for i := range cfg.Model.Config.Layers {
		cfg.Model.Config.Layers[i].Window = window
	}
	withDefaults(t, &cfg)
	other, err := engine.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	want := forward(t, open(t, other), contexts.Pass{Tokens: tokens, Logits: all(len(tokens))})
	got := forward(t, open(t, e), contexts.Pass{Tokens: tokens, Logits: all(len(tokens)),
		Sees: func(token, place int) bool { return token-place < window }})
	sameLogits(t, "a window", got, want)
}

// A pass leaves others' pages as they are, nobody takes over its pages, and a context that gives its tokens back
// generates what it did before.
func TestPassesKeepToThemselves(t *testing.T) {
	e := contextEngine(t, nil)
	before, tokens := sharing(1, 37), sharing(2, 60)
	request := func(id string, tokens []int32) *engine.Request { return sampled(id, tokens, 2, 6, 7) }
	plain := contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true })
	first, long := slices.Clone(before), slices.Concat(before, tokens)
	want := collect(t, plain, request("first", first), request("long", long))

	c := open(t, e, before...)
	other := fork(t, c)
	none := contexts.Pass{Tokens: tokens, Sees: func(int, int) bool { return false }}
	forward(t, c, none)
	if counts := c.Counts(); counts.Committed != 6 || counts.WorkingTokens != 1 || counts.Reserved != 0 {
		t.Errorf("%+v", counts)
	}
	got := collect(t, e, request("long", long))
	drawn, err := other.Generate(t.Context(), request("first", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drawn {
		got[key(d)] = d
	}
	sameBytes(t, want, got, true)

	equal := open(t, e, long...)
	if err := equal.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine, err := c.PageHash(4)
	theirs, err2 := equal.PageHash(4)
	if err != nil || err2 != nil || mine == theirs {
		t.Errorf("pages of a pass have the names of others: %v, %v", err, err2)
	}
	if err := c.TruncateCommitted(len(tokens)); err != nil {
		t.Fatal(err)
	}
	if drawn, err = c.Generate(t.Context(), request("first", nil)); err != nil {
		t.Fatal(err)
	}
	clear(got)
	for _, d := range drawn {
		got[key(d)] = d
	}
	sameBytes(t, map[string]*engine.Completion{"first/0": want["first/0"], "first/1": want["first/1"]}, got, true)
	for _, c := range []*contexts.Context{c, other, equal} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if e.Contexts().FreePages() != contextPages {
		t.Errorf("%d pages are free", e.Contexts().FreePages())
	}
}

func TestPassErrors(t *testing.T) {
	e := contextEngine(t, nil)
	c := open(t, e, 1, 2, 3)
	for what, pass := range map[string]contexts.Pass{
		"a token":             {Tokens: []int32{256}},
		"too few positions":   {Tokens: []int32{1, 2}, Positions: []int32{1}},
		"a negative position": {Tokens: []int32{1}, Positions: []int32{-1}},
		"a large position":    {Tokens: []int32{1}, Positions: []int32{1 << 20}},
		"logits of no token":  {Tokens: []int32{1}, Logits: []int{1}},
		"logits out of order": {Tokens: []int32{1, 2}, Logits: []int{1, 0}},
	} {
		if _, err := c.Forward(t.Context(), pass); !errors.Is(err, engine.ErrInvalidRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Forward(t.Context(), contexts.Pass{Tokens: make([]int32, 1000)}); !errors.Is(err,
		engine.ErrPromptTooLong) {
		t.Error(err)
	}
	var others []*contexts.Context // have all pages but two
	for free := e.Contexts().FreePages(); free > 2; free = e.Contexts().FreePages() {
		other := open(t, e)
		if err := other.Reserve(min(10, free-2)); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
	}
	if _, err := c.Forward(t.Context(), contexts.Pass{Tokens: make([]int32, 40)}); !errors.Is(err,
		pagetable.ErrOutOfPages{}) {
		t.Error(err)
	}
	if c.Len() != 3 || c.Counts().Waiting != 0 || e.Contexts().FreePages() != 1 {
		t.Errorf("%d tokens, %+v, %d pages are free", c.Len(), c.Counts(), e.Contexts().FreePages())
	}
	for _, each := range append(others, c) {
		if err := each.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Forward(t.Context(), contexts.Pass{Tokens: []int32{1}}); !errors.Is(err, contexts.ErrClosed) {
		t.Error(err)
	}
}
