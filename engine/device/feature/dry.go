package feature

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/tree"
)

// dry is the DRY parameters of S slots, and the state that DRY keeps of their tokens.
type dry struct {
	sampling.DRYOf[*Node, *Node]
	sampling.Histories
	sampling.BreakersOf
}

// dryOf is what the host gives of the DRY of A waiting entries.
type dryOf[Floats, Ints, Words any] struct {
	sampling.DRYOf[Floats, Ints]
	sampling.HistoryOf[Ints]
	Set Ints // i32[A]: which of the A breakers an entry has; -1 = none
	// The breakers, each once: u32[A * words] and i32[A * sampling.Heads * sampling.MostTail]. Those of rows that come
	// later are mostly the same, so that these arrays stay as they are.
	Classes Words `tree:"apart"`
	Tails   Ints  `tree:"apart"`
}

const tailsLen = sampling.Heads * sampling.MostTail

// dryFeature are penalties of tokens that repeat a sequence.
type dryFeature struct {
	idle
	Sizes
}

func (f dryFeature) begin(g *Graph, st *State) {
	s := f.Slots
	floats := func() *Node { return zeros(g, dtypes.Float32, s) }
	ints := func(dims ...int) *Node { return zeros(g, dtypes.Int32, append([]int{s}, dims...)...) }
	st.DRY = dry{
		sampling.DRYOf[*Node, *Node]{Multiplier: floats(), Base: floats(), Allowed: ints(), LastN: ints(),
			MostPower: ints()},
		sampling.Histories{Tokens: ints(f.History), Matches: ints(f.History), Head: ints(), Limit: ints()},
		sampling.BreakersOf{Classes: zeros(g, dtypes.Uint32, s, sampling.ClassWords(f.Vocabulary)),
			Tails: ints(sampling.Heads, sampling.MostTail)},
	}
}

func (f dryFeature) bytes() int64 {
	return 4 * int64(f.Slots) * int64(7+2*f.History+sampling.ClassWords(f.Vocabulary)+tailsLen)
}

func (f dryFeature) ask(all *Asked) {
	in, n := &all.DRY, f.WaitingLen()
	*in = tree.Make[dryOf[[]float32, []int32, []uint32]](n)
	in.Tokens, in.Matches = make([]int32, n*f.History), make([]int32, n*f.History)
	in.Classes, in.Tails = make([]uint32, n*sampling.ClassWords(f.Vocabulary)), make([]int32, n*tailsLen)
	for i := range in.Set {
		in.Set[i] = schedule.None
	}
}

func (f dryFeature) set(all *Asked, i int, row Row, e schedule.Entry) {
	in := &all.DRY
	if !row.Sampling.HasDRY() {
		return
	}
	sampling.SetDRY(in.DRYOf, i, row.Sampling, f.History)
	h := sampling.NewHistory(slices.Concat(e.Request.Tokens, e.Drawn), row.Breakers, f.History)
	copy(in.Tokens[i*f.History:], h.Tokens)
	copy(in.Matches[i*f.History:], h.Matches)
	in.Head[i], in.Limit[i] = h.Head, h.Limit
	if row.Breakers == nil {
		return
	}
	words, tails := len(row.Breakers.Classes), slices.Concat(row.Breakers.Backwards()...)
	set := int(slices.Max(in.Set)) + 1
	for k := range set {
		if slices.Equal(in.Classes[k*words:(k+1)*words], row.Breakers.Classes) &&
			slices.Equal(in.Tails[k*tailsLen:(k+1)*tailsLen], tails) {
			in.Set[i] = int32(k)
			return
		}
	}
	in.Set[i] = int32(set)
	copy(in.Classes[set*words:], row.Breakers.Classes)
	copy(in.Tails[set*tailsLen:], tails)
}

func (f dryFeature) admit(st *State, given Input, a Admission) {
	d, in := &st.DRY, given.Asked.DRY
	g := d.Head.Graph()
	entries := a.Rows.Shape().Size()
	to := a.slots(f.Slots)
	put := func(state, in *Node) *Node { return control.ScatterSet(state, to, in) }
	d.DRYOf = tree.Zip(d.DRYOf, in.DRYOf, put)
	in.Tokens, in.Matches = Reshape(in.Tokens, entries, f.History), Reshape(in.Matches, entries, f.History)
	d.Histories = tree.Zip(d.Histories, in.HistoryOf, put)

	// The breakers, an entry at a time: few are admitted together.
	which, count := scan.Positions(LogicalAnd(a.Entries, sampling.HasDRY(in.DRYOf)), entries)
	classes := Reshape(in.Classes, entries, sampling.ClassWords(f.Vocabulary))
	tails := Reshape(in.Tails, entries, sampling.Heads, sampling.MostTail)
	type filling struct {
		Breakers sampling.BreakersOf
		Done     *Node
	}
	d.BreakersOf = control.While(filling{d.BreakersOf, integer(g, 0)},
		func(now filling) *Node { return LessThan(now.Done, count) },
		func(now filling) filling {
			entry := take(which, Reshape(now.Done, 1))
			set := take(in.Set, entry)
			put := func(state, sets, none *Node) *Node {
				one := take(sets, set)
				has := Reshape(GreaterOrEqual(set, ZerosLike(set)), slices.Repeat([]int{1}, one.Rank())...)
				has = BroadcastToDims(has, one.Shape().Dimensions...)
				return control.ScatterSet(state, take(to, entry), Where(has, one, none))
			}
			return filling{sampling.BreakersOf{
				Classes: put(now.Breakers.Classes, classes, zeros(g, dtypes.Uint32, 1, classes.Shape().Dimensions[1])),
				Tails: put(now.Breakers.Tails, tails, FillScalar(g, shapes.Make(dtypes.Int32, 1, sampling.Heads,
					sampling.MostTail), -1)),
			}, AddScalar(now.Done, 1)}
		}).Breakers
}

func (f dryFeature) process(st State, _ Table, rows Samplers, to *Processors) {
	d, slots := st.DRY, Max(rows.Slots, ZerosLike(rows.Slots))
	gather := func(x *Node) *Node { return take(x, slots) }
	by := &sampling.DRY{DRYOf: tree.Map(d.DRYOf, gather), Histories: tree.Map(d.Histories, gather),
		Lens: rows.Positions, Breaks: func(tokens *Node) *Node { return d.Break(slots, tokens) }}
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	by.Multiplier = Where(valid, by.Multiplier, ZerosLike(by.Multiplier))
	to.DRY = by
}

// drew appends the tokens that rows sampled.
func (f dryFeature) drew(st *State, _ Input, rows Samplers, tokens *Node) {
	to := rows.drew(tokens, ZerosLike(tokens), f.Slots)
	next := control.ScatterSet(FillScalar(tokens.Graph(), tokens.Shape(), -1), to, tokens)
	st.DRY.Histories = st.DRY.Push(st.DRY.Histories, next)
}

func (f dryFeature) noDrafts(st State) *Node { return sampling.HasDRY(st.DRY.DRYOf) }
