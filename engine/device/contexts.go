package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// contexts run the verbs of contexts, and score tokens for them.
type contexts struct{ recorder }

// programs returns the programs for contexts. Layers that keep states have no masks.
func (c contexts) programs() []Program {
	scoreIn := tree.Make[ScoreInput](c.StepTokens())
	verbArrays, scoreArrays, passArrays := tree.Arrays(c.NewVerbs()), tree.Arrays(&scoreIn), tree.Arrays(c.NewPass())
	all := []Program{
		{
			Name: Verbs, Input: packed(verbArrays), twin: twinOf[VerbsOutput],
			build: func(st state, _ weights, nodes []*Node) (state, any, []*Node) {
				st, out := c.verbs(st, tree.Of[verbs](verbArrays, nodes))
				return st, out, nil
			},
		},
		{
			Name: Score, Weights: true, Input: packed(scoreArrays),
			twin: twinOf[ScoreOutput],
			build: func(st state, w weights, nodes []*Node) (state, any, []*Node) {
				st, out := c.score(st, w.Weights, tree.Of[scoreInput](scoreArrays, nodes))
				return st, out, nil
			},
		},
		{
			Name: Pass, Weights: true, Input: packed(passArrays), twin: twinOf[PassOutput], Later: true,
			build: func(st state, w weights, nodes []*Node) (state, any, []*Node) {
				st, out := c.pass(st, w.Weights, tree.Of[passInput](passArrays, nodes))
				return st, out, nil
			},
		},
	}
	if c.Model.HasStates() {
		all = slices.DeleteFunc(all, func(p Program) bool { return p.Name == Pass })
	}
	return all
}

func (c contexts) verbs(st state, in verbs) (state, verbsOutput) {
	g := in.Lens.Graph()
	st = c.beginVerbs(st)
	st, status := c.release(st, in.Release)
	before := st.Pages
	then := func(next seqtable.Status) { status = status.Then(next) }
	copyPages := func(from, to *Node) {
		st.Caches = c.copyPages(st.Caches, from, to)
	}
	var from, to *Node
	var done seqtable.Status
	st.Sequences, st.Pages, done = st.Sequences.Truncate(st.Pages, in.Lens)
	then(done)
	st.Sequences, st.Pages, from, to, done = st.Sequences.Own(st.Pages, in.Own)
	then(done)
	copyPages(from, to)
	st.Sequences, done = st.Sequences.Open(in.Open)
	then(done)
	isClone := GreaterOrEqual(in.Sources, integer(g, 0))
	ids := Iota(g, in.Sources.Shape(), 0)
	none := FillScalar(g, in.Sources.Shape(), -1)
	st.Sequences, st.Pages, from, to, done = st.Sequences.Fork(st.Pages, in.Sources, Where(isClone, ids, none),
		Where(isClone, in.Held, ZerosLike(ids)), in.Lazy)
	then(done)
	copyPages(from, to)
	st.Sequences, st.Pages, done = st.Sequences.Adopt(st.Pages, in.Equals, in.EqualFrom, in.EqualTo)
	then(done)
	if c.PrefixCache {
		var invalid *Node
		st.Pages, invalid = hold(st.Pages, in.Named)
		then(seqtable.InvalidPages(invalid, c.Pages))
		st.Sequences, st.Pages, done = st.Sequences.Join(st.Pages, in.Named, in.Starts, in.Counts)
		then(done)
		st.Pages = unhold(st.Pages, in.Named)
	}
	st.Caches = c.zeroFreed(st.Caches, before, st.Pages)
	set := func(old, new *Node) *Node { return Where(GreaterOrEqual(new, integer(g, 0)), new, old) }
	st.Rows.PromptLens, st.Rows.MaxPages = set(st.Rows.PromptLens, in.PromptLens), set(st.Rows.MaxPages, in.MaxPages)
	out := verbsOutput{Status: status, EndFree: st.Pages.NumFree(), Pages: pageFates(st.Pages)}
	if c.Debug {
		out.Rules = st.Sequences.Check(c.checkInput(st, nil))
	}
	return st, out
}

// beginVerbs begins a program between runs: pages are taken for rows.
func (c contexts) beginVerbs(st state) state {
	st.Pages = st.Pages.Begin()
	st.Sequences.Owners = Iota(st.Sequences.SeqLens.Graph(), st.Sequences.SeqLens.Shape(), 0)
	return st
}

// score runs tokens of one row through the model, and returns the log probabilities of the tokens that follow them.
func (c contexts) score(st state, w decoder.Weights, in scoreInput) (state, scoreOutput) {
	g := in.Row.Graph()
	t, slots := c.StepTokens(), c.Slots
	st, packed, batch, status := c.allocate(st, in.Row, in.From, in.Count, in.Tokens, min(c.Rows(), t))
	var hidden *Node
	st.Caches, hidden = c.hidden(st.Caches, w, packed, batch, false)

	// Logits are computed for a few tokens at a time, because those for all tokens may be as large as the caches.
	type scored struct{ At, Logprobs *Node }
	end := control.While(scored{integer(g, 0), Zeros(g, shapes.Make(dtypes.Float32, t))},
		func(s scored) *Node { return LessThan(s.At, in.Count) },
		func(s scored) scored {
			position := Add(Iota(g, shapes.Make(dtypes.Int32, slots), 0), s.At)
			left := Min(Sub(in.Count, s.At), integer(g, slots))
			within := Min(position, integer(g, t-1))
			logprobs := decoder.ByRows(c.Model, w, take(hidden, within), left,
				func(logits *Node, part decoder.Part) *Node {
					next := take(in.Next, part.Of(within))
					logprobs, _, _ := sampling.Logprobs(logits, next, ZerosLike(next), part.Count, 1)
					return logprobs
				})
			to := Where(LessThan(position, in.Count), position, FillScalar(g, position.Shape(), float64(t)))
			return scored{AddScalar(s.At, float64(slots)), control.ScatterSet(s.Logprobs, to, logprobs)}
		})
	return st, scoreOutput{Status: status, Logprobs: end.Logprobs, EndFree: st.Pages.NumFree(),
		Pages: pageFates(st.Pages)}
}

// PassLogits is how many tokens of a step of the pass program may have their logits returned.
const PassLogits = 8

// pass runs tokens of one row through the model, with positions and masks of the caller's.
func (c contexts) pass(st state, w decoder.Weights, in passInput) (state, passOutput) {
	st, packed, batch, status := c.allocate(st, in.Row, in.From, in.Count, in.Tokens, 1)
	x := decoder.Embed(c.Model, w, packed.Tokens, nil, packed.NumTokens)
	mask := Reshape(in.Mask, c.StepTokens(), c.MaskWords())
	var hidden *Node
	hidden, st.Caches = decoder.Hidden(c.Model, w, x, in.Positions, packed.NumTokens, st.Caches,
		c.attend(batch, false, mask), nil)
	logits := decoder.Logits(c.Model, w, take(hidden, in.Wanted), integer(in.Row.Graph(), PassLogits))
	return st, passOutput{Status: status, Logits: logits, EndFree: st.Pages.NumFree(), Pages: pageFates(st.Pages)}
}

// allocate takes pages for the next tokens of a row, between runs, and makes a batch of at most seqs sequences of them.
func (c contexts) allocate(st state, row, from, count, tokens *Node, seqs int) (state,
	tokenqueue.Packed, tokenqueue.PageBatchInfo, seqtable.Status) {
	t := c.StepTokens()
	st = c.beginVerbs(st)
	place := Iota(row.Graph(), shapes.Make(dtypes.Int32, t), 0)
	isToken := LessThan(place, BroadcastToDims(count, t))
	padding := FillScalar(row.Graph(), place.Shape(), -1)
	packed := tokenqueue.Packed{
		Tokens: Where(isToken, tokens, padding), SlotIDs: Where(isToken, BroadcastToDims(row, t), padding),
		PosIDs: Where(isToken, Add(place, from), padding), NumTokens: count,
	}
	before := st.Pages
	var batch tokenqueue.PageBatchInfo
	var status seqtable.Status
	st.Sequences, st.Pages, batch, status = st.Sequences.Allocate(st.Pages, packed, seqs)
	st.Caches = c.zeroTaken(st.Caches, before, st.Pages)
	return st, packed, batch, status
}
