package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/seqtable"
)

// admitter gives rows and pages to what waits.
type admitter struct{ network }

// admission is what may be admitted now.
type admission struct {
	Entries *Node // bool[A]: waiting entries
	Rows    *Node // i32[A]: the slots they get
	Ahead   *Node // bool[H]: prompts to run ahead
	Any     *Node // bool[]
}

// noAdmission admits nothing.
func noAdmission(in input) admission {
	none := func(like *Node) *Node { return LessThan(ZerosLike(like), ZerosLike(like)) }
	return admission{
		Entries: none(in.Waiting.Sources), Rows: FillScalar(in.Columns.Graph(), in.Waiting.Sources.Shape(), -1),
		Ahead: none(in.Ahead.Rows), Any: none(in.Columns),
	}
}

// admissible finds which waiting entries and prompts ahead have a row and pages now.
//
// A row's pages are reserved when it is admitted, up to its maximum, so that the pool never runs out in the middle of a
// row. Entries are admitted in order: an entry is admitted if the unreserved pages cover it and all earlier entries
// that could start, so that small entries can't overtake a large one forever. A clone can start once its prompt has
// run; entries may overtake clones that wait for their prompts. If nothing runs and the first entry is too large, the
// first entry that fits is admitted: the other pages are held by prompts that wait for their clones, and such prompts
// end only when their clones run.
func (ad admitter) admissible(l loop, in input) admission {
	g := l.Out.Columns.Graph()
	st := l.State
	lens, used := st.Sequences.SeqLens, st.Sequences.Used
	slots, pageSize := ad.Slots, ad.PageSize
	zero := integer(g, 0)

	avail := st.unreserved(ad.PageSize)
	isSlot := LessThan(Iota(g, lens.Shape(), 0), integer(g, ad.MaxSeqs))
	free := LogicalAnd(LogicalNot(used), isSlot)
	freeRows, numFree := scan.Positions(free, slots)
	idle := Equal(numFree, integer(g, ad.MaxSeqs))

	index := Iota(g, in.Waiting.Sources.Shape(), 0)
	pending := LogicalAnd(LessThan(index, in.Waiting.Count), LessThan(l.Out.Placed, zero))
	isClone := GreaterOrEqual(in.Waiting.Sources, zero)
	// The source has run all that a clone takes over; a row not opened yet has run nothing.
	ready := func(sources, held *Node) *Node {
		ran := LogicalAnd(GreaterThan(takeMask(used, sources), zero), GreaterOrEqual(take(lens, sources), held))
		return LogicalOr(LessThan(sources, zero), ran)
	}
	needed := func(maxPages, held *Node) *Node { return Sub(maxPages, DivScalar(held, float64(pageSize))) }
	eligible := LogicalAnd(pending, ready(in.Waiting.Sources, in.Waiting.Held))
	need := Where(Equal(in.Waiting.First, integer(g, 1)), ZerosLike(index),
		needed(in.Waiting.Rows.MaxPages, in.Waiting.Held))
	wanted := Where(eligible, need, ZerosLike(need))
	sums := scan.Sum(wanted)
	fits := LogicalAnd(eligible, LogicalOr(LessOrEqual(sums, avail), Equal(need, zero)))
	firstFitting := ReduceAllMin(Where(LogicalAnd(eligible, LessOrEqual(need, avail)), index,
		FillScalar(g, index.Shape(), float64(index.Shape().Size()))))
	stuck := LogicalAnd(idle, LogicalNot(anyTrue(fits)))
	fits = LogicalOr(fits, LogicalAnd(stuck, Equal(index, firstFitting)))
	rank := SubScalar(scan.Sum(ConvertDType(fits, dtypes.Int32)), 1)
	entries := LogicalAnd(LogicalAnd(fits, LessThan(rank, numFree)), GreaterOrEqual(numFree, ad.fillAt(l, in)))
	rows := Where(entries, take(freeRows, Min(rank, integer(g, slots-1))), FillScalar(g, index.Shape(), -1))

	// A prompt runs ahead once the entries before it that are not clones are admitted, if it leaves enough pages for
	// everything that could start.
	h := Iota(g, in.Ahead.Rows.Shape(), 0)
	alone := scan.Sum(ConvertDType(LogicalAnd(pending, LogicalNot(isClone)), dtypes.Int32))
	before := Where(GreaterThan(in.Ahead.Behind, zero), take(alone, SubScalar(in.Ahead.Behind, 1)), ZerosLike(h))
	waits := LogicalAnd(LogicalAnd(LessThan(h, in.Ahead.Count), Equal(l.Out.Opened, zero)), Equal(before, zero))
	waits = LogicalAnd(waits, ready(in.Ahead.Sources, in.Ahead.Held))
	total := scan.Sum(Where(waits, needed(in.Ahead.MaxPages, in.Ahead.Held), ZerosLike(h)))
	aheadFits := LogicalAnd(waits, LessOrEqual(Add(total, ReduceAllSum(wanted)), avail))
	return admission{Entries: entries, Rows: rows, Ahead: aheadFits,
		Any: LogicalOr(anyTrue(entries), anyTrue(aheadFits))}
}

// fillAt is at how many free slots waiting sequences get them, i32[]. A prompt step reads all weights for however few
// tokens, so slots are filled several at a time, or all that wait at once.
func (ad admitter) fillAt(l loop, in input) *Node {
	g := l.Out.Columns.Graph()
	placed := scan.Count(GreaterOrEqual(l.Out.Placed, integer(g, 0)))
	return Min(integer(g, ad.fillTogether()), Max(Sub(in.Waiting.Count, placed), integer(g, 1)))
}

// admit gives rows to the admissible entries: empty rows, clones of a prefix row, or rows that start with named pages.
func (ad admitter) admit(l loop, in input) loop {
	g := l.Out.Columns.Graph()
	a := l.Admit
	rows, zero := ad.Rows(), integer(g, 0)
	ids := func(n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }
	none := FillScalar(g, shapes.Make(dtypes.Int32, rows), -1)
	nowhere := func(n int) *Node { return FillScalar(g, shapes.Make(dtypes.Int32, n), float64(rows)) }
	numWaiting, numAhead := in.Waiting.Sources.Shape().Size(), in.Ahead.Rows.Shape().Size()
	// For each row, the entry and the prompt that it is given to.
	entry := control.ScatterSet(none, Where(a.Entries, a.Rows, nowhere(numWaiting)), ids(numWaiting))
	prompt := control.ScatterSet(none, Where(a.Ahead, in.Ahead.Rows, nowhere(numAhead)), ids(numAhead))
	isEntry, isPrompt := GreaterOrEqual(entry, zero), GreaterOrEqual(prompt, zero)
	pick := func(ofEntry, old *Node) *Node {
		mask := isEntry
		for mask.Rank() < old.Rank() {
			mask = InsertAxes(mask, -1)
		}
		return Where(BroadcastToDims(mask, old.Shape().Dimensions...), take(ofEntry, entry), old)
	}
	st, r := l.State, l.State.Rows
	st.Turns = l.admitted(in, SliceAxis(isEntry, 0, AxisRangeFromStart(ad.Slots)))
	st.Rows = tree.Zip(in.Waiting.Rows, r, pick)
	st.Extras.State = ad.features().Admit(st.Extras.State, forFeatures(in),
		feature.Admission{Entries: a.Entries, Rows: a.Rows, Ahead: a.Ahead, AheadRows: in.Ahead.Rows})
	st.Extras.Drafts.Log = st.Extras.Drafts.Log.admit(a)
	st.Rows.PromptLens = Where(isPrompt, take(in.Ahead.PromptLens, prompt), st.Rows.PromptLens)
	st.Rows.MaxPages = Where(isPrompt, take(in.Ahead.MaxPages, prompt), st.Rows.MaxPages)
	if st.Rows.Short != nil {
		st.Rows.Short = Where(isPrompt, take(in.Ahead.Short, prompt), st.Rows.Short)
	}
	if st.Rows.Adapters != nil {
		st.Rows.Adapters = Where(isPrompt, take(in.Ahead.Adapters, prompt), st.Rows.Adapters)
	}
	l.Starts = Where(isPrompt, take(in.Ahead.Starts, prompt), pick(in.Waiting.Starts, l.Starts))
	st.Sequences.Owners = Where(isEntry, entry, st.Sequences.Owners)
	l.Out.Placed = Max(l.Out.Placed, a.Rows)
	l.Out.Opened = Max(l.Out.Opened, ConvertDType(a.Ahead, dtypes.Int32))

	source := Where(isPrompt, take(in.Ahead.Sources, prompt), Where(isEntry, take(in.Waiting.Sources, entry), none))
	held := Where(isPrompt, take(in.Ahead.Held, prompt), take(in.Waiting.Held, entry))
	isClone := GreaterOrEqual(source, zero)
	var opened seqtable.Status
	st.Sequences, opened = st.Sequences.Open(LogicalAnd(LogicalOr(isPrompt, isEntry), LogicalNot(isClone)))
	l.Out.Status = l.Out.Status.Then(opened)
	if ad.Paged {
		// With its first clone the prefix row's reservation for it goes: the row holds its prompt and no more.
		first := LogicalAnd(a.Entries, Equal(in.Waiting.First, integer(g, 1)))
		st.Rows.MaxPages = control.ScatterSet(st.Rows.MaxPages, Where(first, in.Waiting.Sources, nowhere(numWaiting)),
			pagesOf(in.Waiting.Held, ad.PageSize))

		var from, to *Node
		var cloned seqtable.Status
		st.Sequences, st.Pages, from, to, cloned = st.Sequences.Clone(st.Pages, source, Where(isClone, ids(rows), none),
			Where(isClone, held, ZerosLike(held)))
		l.Out.Status = l.Out.Status.Then(cloned)
		st.Caches = ad.copyPages(st.Caches, from, to)
		st.Extras.Drafts = st.Extras.Drafts.copied(from, to)
	}
	if ad.PrefixCache {
		named := Where(isPrompt, take(in.Ahead.Named, prompt), take(in.Waiting.Named, entry))
		opens := LogicalAnd(LogicalOr(isPrompt, isEntry), LogicalNot(isClone))
		pages := Where(opens, DivScalar(held, float64(ad.PageSize)), ZerosLike(held))
		var joined seqtable.Status
		st.Sequences, st.Pages, joined = st.Sequences.Join(st.Pages, in.Named, named, pages)
		l.Out.Status = l.Out.Status.Then(joined)
	}
	// A sequence that was swapped out continues with the token that it sampled last.
	resumes := LogicalAnd(a.Entries, Equal(in.Waiting.Resume, integer(g, 1)))
	last := take(in.Tokens, Add(in.Waiting.Starts, in.Waiting.Held))
	st.Queue = st.Queue.Enqueue(last, a.Rows, in.Waiting.Held, resumes)
	l.State = st
	return l
}
