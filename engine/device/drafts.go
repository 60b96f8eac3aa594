package device

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/tokenqueue"
)

// longestMatch is how many tokens of a sequence's end are looked for, shortestMatch how many must be found.
const (
	longestMatch  = 8
	shortestMatch = 2
)

// speculation drafts tokens of sequences. Where nothing is drafted it has nothing to do.
type speculation struct {
	network
	// Drafter is the model that drafts; nil if drafts are found in texts.
	Drafter *network
}

// drafting is what the device knows of sequences to find drafts. A wrong draft costs a row of a step and no more.
type drafting struct {
	// Tokens is the token of each place of the cache, i32[P, page_size]. It is shared with pages, and a page that came
	// from the host has what it had before.
	Tokens *Node
	Log    draftLog
	Trust  draftTrust // empty unless drafts adapt
}

func (sp speculation) newDrafting(g *Graph) (d drafting) {
	if !sp.Drafts.On() || sp.Drafts.ByModel {
		return d
	}
	d.Tokens, d.Log = zeros(g, dtypes.Int32, sp.Pages, sp.PageSize), sp.newDraftLog(g)
	if sp.Drafts.Adapts {
		d.Trust = newDraftTrust(g)
	}
	return d
}

func (p Sizes) draftingBytes() int64 {
	if !p.Drafts.On() || p.Drafts.ByModel {
		return 0
	}
	n := 4*int64(p.Pages)*int64(p.PageSize) + p.Drafts.logBytes(p.Slots)
	if p.Drafts.Adapts {
		n += draftTrustBytes
	}
	return n
}

// note writes down the tokens of a step, which go to places of the cache.
func (d drafting) note(packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo) drafting {
	if d.Tokens != nil {
		shape := d.Tokens.Shape().Dimensions
		flat := Reshape(d.Tokens, shape[0]*shape[1])
		d.Tokens = Reshape(control.ScatterSet(flat, batch.NewTokenDests, packed.Tokens), shape...)
	}
	return d
}

// copied is d after pages from[i] were copied to to[i], -1 in either for none.
func (d drafting) copied(from, to *Node) drafting {
	if d.Tokens != nil {
		g := from.Graph()
		isCopy := LogicalAnd(GreaterOrEqual(from, ZerosLike(from)), GreaterOrEqual(to, ZerosLike(to)))
		nowhere := FillScalar(g, to.Shape(), float64(d.Tokens.Shape().Dimensions[0]))
		d.Tokens = control.ScatterSet(d.Tokens, Where(isCopy, to, nowhere), take(d.Tokens, from))
	}
	return d
}

// draft finds drafts that follow the tokens to decode, next i32[R], see tokenqueue.Queue: the tokens that followed an
// earlier occurrence of the sequence's end, in the sequence itself or in the log, or tokens that the drafter samples.
// There are no drafts in prompt steps, if so many sequences run that a step is no longer bound by reading the weights,
// or if drafts adapt and none is worth it.
func (sp speculation) draft(l *loop, w weights, in input, next, prefill *Node) drafts {
	g := next.Graph()
	n := sp.Drafts.Rows()
	live := scan.Count(GreaterOrEqual(next, ZerosLike(next)))
	room := Sub(integer(g, sp.Columns()-1), l.Out.Columns) // columns in addition to the one that is sampled anyway
	able := LogicalAnd(LogicalNot(prefill), LogicalAnd(LessOrEqual(live, integer(g, n)),
		GreaterThan(Min(live, room), integer(g, 0))))
	// The rows left by the live sequences are shared out evenly.
	share := func(counts *Node) *Node {
		rows := Max(scan.Count(GreaterThan(counts, ZerosLike(counts))), integer(g, 1))
		share := Div(Sub(integer(g, sp.Drafts.Width), live), rows)
		return Min(counts, BroadcastToDims(share, n))
	}
	type drafted struct {
		Caches []*Node // of the drafter
		Drafts drafts
	}
	own, caches := sp.split(l.State.Caches)
	none := sp.noDrafts(g)
	var worth *Node
	if sp.Drafts.Adapts {
		trust := &l.State.Extras.Drafts.Trust
		worth = trust.worth(live, sp.Drafts.Most, sp.Drafts.CostRows)
		*trust = trust.stepped(able)
		if !sp.features().WalksDrafts() {
			able = LogicalAnd(able, anyTrue(GreaterThan(worth, ZerosLike(worth))))
		}
	}
	end := control.Once(able, drafted{caches, none}, func(now control.Now, o drafted) drafted {
		next := control.Hold(now, next)
		runs := GreaterOrEqual(SliceAxis(next, 0, AxisRangeFromStart(sp.Slots)), integer(g, 0))
		slots, rows := scan.Positions(runs, n)
		isRow := LessThan(slots, integer(g, sp.Slots))
		clamped := Min(slots, integer(g, sp.Slots-1))
		to := Where(isRow, slots, FillScalar(g, slots.Shape(), float64(sp.Rows())))
		lens := take(l.State.Sequences.SeqLens, clamped)
		limits := sp.mostDrafts(*l, clamped, lens, room)
		limits = Where(isRow, limits, ZerosLike(limits))
		limits = sp.inPages(l.State, clamped, lens, limits)

		d := o.Drafts
		var found tokenqueue.Drafts
		if sp.Drafts.ByModel {
			found, o.Caches = sp.guess(*l, w.Drafter, in, next, to, share(limits), o.Caches)
		} else {
			var classes *Node
			found, classes = sp.lookUp(l.State, clamped, lens, take(next, clamped), worth, rows)
			if sp.Drafts.Adapts {
				d.Classes = control.ScatterSet(d.Classes, to, classes)
			}
		}
		if sp.features().WalksDrafts() {
			found, d.Behind = sp.walkDrafts(*l, in, clamped, found, limits)
			d.Ranks = control.ScatterSet(d.Ranks, slots, Iota(g, slots.Shape(), 0))
		}
		d.Tokens = control.ScatterSet(d.Tokens, to, found.Tokens)
		d.Counts = control.ScatterSet(d.Counts, to, share(Min(found.Counts, limits)))
		return drafted{o.Caches, d}
	})
	l.State.Caches = slices.Concat(own, end.Caches)
	return end.Drafts
}

// mostDrafts returns the most drafts that slots, i32[D], may have after lens tokens, i32[D], and the token to decode.
func (sp speculation) mostDrafts(l loop, slots, lens, room *Node) *Node {
	g := lens.Graph()
	limits := Min(BroadcastToDims(room, lens.Shape().Size()),
		SubScalar(Sub(take(l.State.Rows.MaxLens, slots), lens), 2))
	limits = Min(limits, FillScalar(g, limits.Shape(), float64(sp.Drafts.Most)))
	if sp.Drafts.ByModel { // the last draft is not run
		positions := FillScalar(g, limits.Shape(), float64(sp.Drafter.Model.MaxPositions))
		limits = Min(limits, Sub(positions, lens))
	}
	limits = Max(limits, ZerosLike(limits))
	return Where(sp.features().MayDraft(l.State.Extras.State, slots), limits, ZerosLike(limits))
}

// texts returns the tokens of slots, i32[D], as i32[D, capacity]: lens tokens, i32[D], in the cache, followed by the
// token to decode, waiting i32[D]. The rest is arbitrary.
func (sp speculation) texts(st state, slots, lens, waiting *Node) *Node {
	d, pp := slots.Shape().Dimensions[0], sp.PagesPerSeq
	pages := Reshape(take(st.Sequences.PageIndices, slots), d*pp)
	texts := Reshape(take(st.Extras.Drafts.Tokens, pages), d, pp*sp.PageSize)
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), texts.Shape().Dimensions...) }
	return Where(Equal(Iota(texts.Graph(), texts.Shape(), 1), wide(lens)), wide(waiting), texts)
}

// lookUp finds drafts for slots, i32[D], and their classes. The tokens to decode, waiting i32[D], are at places lens,
// i32[D]. worth is how many drafts of each class are worth it; nil for no limit. Only the first rows, i32[], of the
// slots are searched.
func (sp speculation) lookUp(st state, slots, lens, waiting, worth, rows *Node) (tokenqueue.Drafts, *Node) {
	tokens, matches := sp.findDrafts(sp.texts(st, slots, lens, waiting), lens, rows)
	f := st.Extras.Drafts.Log.orLogged(sp.keysOf(st, slots, lens, waiting), tokens, matches, rows)
	if worth != nil {
		f.Counts = Min(f.Counts, Where(GreaterOrEqual(f.Classes, ZerosLike(f.Classes)), take(worth, f.Classes),
			ZerosLike(f.Counts)))
	}
	return tokenqueue.Drafts{Tokens: f.Tokens, Counts: f.Counts}, f.Classes
}

// findDrafts finds drafts that follow the tokens at places lens, i32[D], of texts, i32[D, H]: the tokens after the
// earlier place at which the longest suffix matches, the last one if there are several. matches, i32[D], is the length
// of the match, 0 if it is too short. Only the first rows, i32[], are searched.
func (sp speculation) findDrafts(texts, lens, rows *Node) (tokens, matches *Node) {
	attrs := map[string]any{"longest": longestMatch, "shortest": shortestMatch}
	results := []shapes.Shape{shapes.Make(dtypes.Int32, lens.Shape().Size(), sp.Drafts.Most), lens.Shape()}
	out := control.Composite("draft_text", attrs, []*Node{texts, lens, rows}, results, func(in []*Node) []*Node {
		tokens, matches := sp.findPlain(in[0], in[1])
		return []*Node{tokens, matches}
	})
	return out[0], out[1]
}

// findPlain is findDrafts by ordinary operations.
func (sp speculation) findPlain(texts, lens *Node) (tokens, matches *Node) {
	g := texts.Graph()
	d, h := texts.Shape().Dimensions[0], texts.Shape().Dimensions[1]
	most := sp.Drafts.Most
	flat := Reshape(texts, d*h)
	row := MulScalar(Iota(g, lens.Shape(), 0), float64(h))
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), d, h) }
	place := Iota(g, texts.Shape(), 1)

	zero := ZerosLike(texts)
	equal, same := zero, LessThan(place, wide(lens))
	for back := range min(longestMatch, h) {
		before := texts
		if back > 0 { // the token so far back, from each place
			before = Pad(SliceAxis(texts, 1, AxisRange(0, h-back)), integer(g, -1), compute.PadAxis{},
				compute.PadAxis{Start: back})
		}
		position := SubScalar(lens, float64(back))
		last := Where(GreaterOrEqual(position, ZerosLike(position)), take(flat, Add(row, position)),
			FillScalar(g, position.Shape(), -2))
		same = LogicalAnd(same, Equal(before, wide(last)))
		equal = Add(equal, ConvertDType(same, dtypes.Int32))
	}
	enough := GreaterOrEqual(equal, FillScalar(g, equal.Shape(), shortestMatch))
	best := ReduceMax(Where(enough, Add(MulScalar(equal, float64(h)), place), zero), 1)
	matches = DivScalar(best, float64(h))
	from := Sub(best, MulScalar(matches, float64(h)))

	// If the drafts reach the end of the text, they repeat the period.
	nth := Iota(g, shapes.Make(dtypes.Int32, d, most), 1)
	few := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), d, most) }
	period := few(Max(Sub(lens, from), OnesLike(lens)))
	nth = Sub(nth, Mul(Div(nth, period), period))
	return take(flat, Add(few(AddScalar(Add(row, from), 1)), nth)), matches
}

// inPages leaves as many of counts, i32[D], of drafts of slots as there are pages for that nobody else has a right to.
func (sp speculation) inPages(st state, slots, lens, counts *Node) *Node {
	size := sp.PageSize
	has := Max(pagesOf(AddScalar(lens, 1), size), take(st.Rows.MaxPages, slots))
	wanted := Max(Sub(pagesOf(AddScalar(Add(lens, counts), 1), size), has), ZerosLike(has))
	// The tokens that wait may take a page each that is not reserved.
	spare := Sub(st.unreserved(sp.PageSize), integer(lens.Graph(), sp.Drafts.Rows()))
	enough := LessOrEqual(ReduceAllSum(wanted), spare)
	within := Max(SubScalar(Sub(MulScalar(has, float64(size)), lens), 1), ZerosLike(has))
	return Where(enough, counts, Min(counts, within))
}
