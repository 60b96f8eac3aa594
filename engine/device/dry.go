package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/tree"
)

// dry is that of S slots, and what it knows of their tokens.
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

func (gr *Graphs) newDRY(g *Graph) dry {
	s := gr.Slots
	floats := func() *Node { return zeros(g, dtypes.Float32, s) }
	ints := func(dims ...int) *Node { return zeros(g, dtypes.Int32, append([]int{s}, dims...)...) }
	return dry{
		sampling.DRYOf[*Node, *Node]{Multiplier: floats(), Base: floats(), Allowed: ints(), LastN: ints(),
			MostPower: ints()},
		sampling.Histories{Tokens: ints(gr.History), Matches: ints(gr.History), Head: ints(), Limit: ints()},
		sampling.BreakersOf{Classes: zeros(g, dtypes.Uint32, s, sampling.ClassWords(gr.Vocabulary)),
			Tails: ints(sampling.Heads, sampling.MostTail)},
	}
}

func (p Sizes) dryBytes() int64 {
	return 4 * int64(p.Slots) * int64(7+2*p.History+sampling.ClassWords(p.Vocabulary)+tailsLen)
}

func (p Sizes) newAskedDRY() (in dryOf[[]float32, []int32, []uint32]) {
	n := p.WaitingLen()
	in = tree.Make[dryOf[[]float32, []int32, []uint32]](n)
	in.Tokens, in.Matches = make([]int32, n*p.History), make([]int32, n*p.History)
	in.Classes, in.Tails = make([]uint32, n*sampling.ClassWords(p.Vocabulary)), make([]int32, n*tailsLen)
	for i := range in.Set {
		in.Set[i] = schedule.None
	}
	return in
}

// setDRY fills in that of entry i.
func (p Sizes) setDRY(in *dryOf[[]float32, []int32, []uint32], i int, row Row, e schedule.Entry) {
	if !row.Sampling.HasDRY() {
		return
	}
	sampling.SetDRY(in.DRYOf, i, row.Sampling, p.History)
	h := sampling.NewHistory(slices.Concat(row.Prompt, e.Drawn), row.Breakers, p.History)
	copy(in.Tokens[i*p.History:], h.Tokens)
	copy(in.Matches[i*p.History:], h.Matches)
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

// admitDRY makes that of the slots that entries get.
func (gr *Graphs) admitDRY(d dry, in dryOf[*Node, *Node, *Node], a admission) dry {
	g := d.Head.Graph()
	entries := a.Rows.Shape().Size()
	to := Where(a.Entries, a.Rows, FillScalar(g, a.Rows.Shape(), float64(gr.Slots)))
	put := func(of, in *Node) *Node { return control.ScatterSet(of, to, in) }
	d.DRYOf = tree.Zip(d.DRYOf, in.DRYOf, put)
	in.Tokens, in.Matches = Reshape(in.Tokens, entries, gr.History), Reshape(in.Matches, entries, gr.History)
	d.Histories = tree.Zip(d.Histories, in.HistoryOf, put)

	// The breakers, an entry at a time: few are admitted together.
	which, count := scan.Positions(LogicalAnd(a.Entries, sampling.HasDRY(in.DRYOf)), entries)
	classes := Reshape(in.Classes, entries, sampling.ClassWords(gr.Vocabulary))
	tails := Reshape(in.Tails, entries, sampling.Heads, sampling.MostTail)
	type filling struct {
		Breakers sampling.BreakersOf
		Done     *Node
	}
	d.BreakersOf = control.While(filling{d.BreakersOf, integer(g, 0)},
		func(f filling) *Node { return LessThan(f.Done, count) },
		func(f filling) filling {
			entry := take(which, Reshape(f.Done, 1))
			set := take(in.Set, entry)
			put := func(of, sets, none *Node) *Node {
				one := take(sets, set)
				has := Reshape(GreaterOrEqual(set, ZerosLike(set)), slices.Repeat([]int{1}, one.Rank())...)
				has = BroadcastToDims(has, one.Shape().Dimensions...)
				return control.ScatterSet(of, take(to, entry), Where(has, one, none))
			}
			return filling{sampling.BreakersOf{
				Classes: put(f.Breakers.Classes, classes, zeros(g, dtypes.Uint32, 1, classes.Shape().Dimensions[1])),
				Tails: put(f.Breakers.Tails, tails, FillScalar(g, shapes.Make(dtypes.Int32, 1, sampling.Heads,
					sampling.MostTail), -1)),
			}, AddScalar(f.Done, 1)}
		}).Breakers
	return d
}

// dryBy is that of rows which draw.
func (gr *Graphs) dryBy(d dry, rows samplers) *sampling.DRY {
	slots := Max(rows.Slots, ZerosLike(rows.Slots))
	of := func(of *Node) *Node { return take(of, slots) }
	by := &sampling.DRY{DRYOf: tree.Map(d.DRYOf, of), Histories: tree.Map(d.Histories, of), Lens: rows.Positions,
		Breaks: func(tokens *Node) *Node { return d.Break(slots, tokens) }}
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	by.Multiplier = Where(valid, by.Multiplier, ZerosLike(by.Multiplier))
	return by
}

// pushDrawn appends the tokens that rows drew to what DRY knows.
func (gr *Graphs) pushDrawn(d dry, rows samplers, tokens *Node) dry {
	g := tokens.Graph()
	zero := ZerosLike(tokens)
	valid := LogicalAnd(GreaterOrEqual(rows.Slots, zero), GreaterOrEqual(tokens, zero))
	to := Where(valid, rows.Slots, FillScalar(g, tokens.Shape(), float64(gr.Slots)))
	next := control.ScatterSet(FillScalar(g, tokens.Shape(), -1), to, tokens)
	d.Histories = d.Push(d.Histories, next)
	return d
}
