package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/tokenqueue"
)

// Allocate makes room for the tokens of a step and returns the position of each. packed is sorted by slot, then
// position, as [tokenqueue.Prompts.PackNext] leaves it; maxSeqs is the number of rows, B, of the result.
//
// Each sequence becomes as long as its last token's position + 1, unless it was longer, and gets the pages for that: in
// order of slot the k-th page needed is the k-th free page. Its tokens must join up with it: at most as many new
// positions as tokens.
//
// Faults, each of which leaves the tables in order and the tokens concerned without destination: [CodeInvalidSlot] for
// tokens of a slot that is not used (their row stays, with slot -1 and length 0), [CodeInvalidPosition],
// [CodeSequenceTooLong], [CodeInvalidPage] for a page id in the table that names no page, [CodeOutOfSlots] for more
// than maxSeqs sequences (the last ones are left out), [CodeOutOfPages] (sequences keep the pages they could get, and
// are no longer than these pages hold).
func (t Table) Allocate(pages pagetable.Table, packed tokenqueue.Packed, maxSeqs int) (Table, pagetable.Table,
	tokenqueue.PageBatchInfo, Status) {
	t.checkSizes(pages)
	g := packed.SlotIDs.Graph()
	tokens := packed.SlotIDs.Shape().Dimensions[0]
	pp, pageSize, numPages := t.PagesPerSeq(), t.PageSize, pages.NumPages()

	b := stepRowsOf(packed, maxSeqs)

	// Each row's sequence as it was.
	slots := gather(packed.SlotIDs, b.begin)
	known := LogicalAnd(b.isRow, LogicalAnd(t.inRange(slots), gatherMask(t.Used, slots)))
	none := full(g, -1, maxSeqs)
	slots = Where(b.isRow, slots, none)
	oldLens := Where(known, gather(t.SeqLens, slots), ZerosLike(slots))
	oldRows := Where(column(known, pp), gather(t.PageIndices, slots), full(g, -1, maxSeqs, pp))
	held := scan.CountRows(GreaterOrEqual(oldRows, ZerosLike(oldRows)))

	// Its length with the tokens of this step.
	firstPos, lastPos := gather(packed.PosIDs, b.begin), gather(packed.PosIDs, SubScalar(b.end, 1))
	reach := AddScalar(lastPos, 1)
	joined := Add(oldLens, Sub(b.end, b.begin))
	wanted := Max(oldLens, Min(reach, MinScalar(joined, t.Capacity())))
	wanted = Where(known, wanted, ZerosLike(wanted))

	// The k-th need takes the k-th free page. A sequence needs at most a page for each page_size tokens, rounded up.
	needs := Max(Sub(t.pagesFor(wanted), held), ZerosLike(held))
	offsets := scan.Before(needs)
	need := ReduceAllSum(needs)
	limit := min(numPages, tokens, tokens/pageSize+maxSeqs)
	pages, taken, free := pages.Take(need, limit)
	given := Min(need, MinScalar(free, limit))
	grants := Min(Max(Sub(broadcast(given, maxSeqs), offsets), ZerosLike(needs)), needs)
	lens := Max(oldLens, Min(wanted, MulScalar(Add(held, grants), pageSize)))
	rows, row, place := t.withNewPages(oldRows, held, grants, offsets, taken, given)
	pages = t.mark(pages, taken, gather(slots, row), place)

	dst := Where(known, slots, none)
	t.SeqLens = control.ScatterSet(t.SeqLens, dst, lens)
	t.PageIndices = control.ScatterSet(t.PageIndices, dst, rows)

	// Where each token goes.
	seqs := SubScalar(scan.Sum(ConvertDType(b.isFirst, dtypes.Int32)), 1)
	runs1 := LessThan(seqs, fillLike(seqs, maxSeqs))
	canRun := LogicalAnd(LogicalAnd(b.isToken, runs1), gatherMask(known, seqs))
	dests := t.destinations(rows, lens, seqs, packed.PosIDs, canRun, numPages)

	zero := ZerosLike(slots)
	faults := faultCodes{code: zero, need: zero, have: zero, slot: slots}.
		set(LogicalAnd(b.isRow, LogicalNot(known)), CodeInvalidSlot, zero, zero).
		set(LogicalAnd(known, GreaterThan(reach, fillLike(reach, t.Capacity()))), CodeSequenceTooLong, reach,
			fillLike(reach, t.Capacity())).
		set(LogicalAnd(known, LessThan(firstPos, zero)), CodeInvalidPosition, firstPos, oldLens).
		set(LogicalAnd(known, GreaterThan(reach, joined)), CodeInvalidPosition, lastPos, oldLens)
	badPages := scan.CountRows(GreaterOrEqual(oldRows, fillLike(oldRows, numPages)))
	faults = faults.set(GreaterThan(badPages, zero), CodeInvalidPage, badPages, fillLike(badPages, numPages))
	status := firstFault(faults).
		Then(Status{Code: scalar(g, CodeOutOfSlots), Need: b.runs, Have: scalar(g, maxSeqs),
			Slot: scalar(g, -1)}.When(GreaterThan(b.runs, b.numSeqs))).
		Then(Status{Code: scalar(g, CodeOutOfPages), Need: need, Have: free,
			Slot: scalar(g, -1)}.When(GreaterThan(need, given)))

	return t, pages, tokenqueue.PageBatchInfo{
		SlotIDs:       dst,
		PageIndices:   rows,
		SeqLens:       lens,
		CuQLens:       b.cuQLens,
		NumSeqs:       b.numSeqs,
		NewTokenDests: dests,
		TokenSeqs:     Where(canRun, seqs, full(g, -1, tokens)),
		PosIDs:        packed.PosIDs,
		PageSize:      pageSize,
	}, status
}

// stepRows is the tokens of a step as rows: a row is a run of tokens of the same slot.
type stepRows struct {
	isToken, isFirst *Node // bool [T]: a token, the first of its run
	runs, numSeqs    *Node // int32 []: runs, and rows, which are the first maxSeqs of them
	cuQLens          *Node // int32 [B+1]: the start of each row
	begin, end       *Node // int32 [B]
	isRow            *Node // bool [B]
}

func stepRowsOf(packed tokenqueue.Packed, maxSeqs int) stepRows {
	g := packed.SlotIDs.Graph()
	tokens := packed.SlotIDs.Shape().Dimensions[0]
	var b stepRows
	b.isToken = LessThan(iota32(g, tokens), broadcast(packed.NumTokens, tokens))
	b.isFirst = LogicalAnd(b.isToken, startsRun(packed.SlotIDs))
	starts, runs := scan.Positions(b.isFirst, maxSeqs+1)
	b.runs = runs
	b.cuQLens = Min(starts, broadcast(packed.NumTokens, maxSeqs+1))
	b.begin = SliceAxis(b.cuQLens, 0, AxisRangeFromStart(maxSeqs))
	b.end = SliceAxis(b.cuQLens, 0, AxisRangeToEnd(1))
	b.numSeqs = Min(runs, scalar(g, maxSeqs))
	b.isRow = LessThan(iota32(g, maxSeqs), broadcast(b.numSeqs, maxSeqs))
	return b
}

// startsRun is true for each element that differs from the previous one.
func startsRun(ids *Node) *Node {
	n := ids.Shape().Dimensions[0]
	first := Equal(iota32(ids.Graph(), n), ZerosLike(ids))
	if n == 1 {
		return first
	}
	before := Concatenate([]*Node{SliceAxis(ids, 0, AxisElem(0)), SliceAxis(ids, 0, AxisRangeFromStart(n-1))}, 0)
	return LogicalOr(first, NotEqual(ids, before))
}

// pagesFor is the number of pages that lens tokens take.
func (t Table) pagesFor(lens *Node) *Node {
	return DivScalar(AddScalar(lens, t.PageSize-1), t.PageSize)
}

// withNewPages appends grants pages to the held ones of each row, int32 [B, PP]: the elements of taken, int32 [K], from
// place offsets on. Only the first given elements of taken are assigned: to rows, int32 [K], at places.
func (t Table) withNewPages(rows, held, grants, offsets, taken, given *Node) (after, row, place *Node) {
	g := rows.Graph()
	batch, pp := rows.Shape().Dimensions[0], rows.Shape().Dimensions[1]
	limit := taken.Shape().Dimensions[0]
	rank := iota32(g, limit)
	row = clip(scan.Owners(Add(offsets, grants), limit), batch)
	place = Add(gather(held, row), Sub(rank, gather(offsets, row)))
	isGiven := LogicalAnd(LessThan(rank, broadcast(given, limit)), LessThan(place, fillLike(place, pp)))
	to := Add(MulScalar(row, pp), clip(place, pp))
	// Entries of these positions are -1.
	change := Where(isGiven, AddScalar(taken, 1), ZerosLike(taken))
	after = Reshape(ScatterSum(Reshape(rows, batch*pp), InsertAxes(to, -1), change, false, false), batch, pp)
	return after, row, place
}

// destinations is page*PageSize + place in page for each token, int32 [T], or P*PageSize if it has none.
func (t Table) destinations(rows, lens, seqs, pos, canRun *Node, numPages int) *Node {
	pp := t.PagesPerSeq()
	pageOf := DivScalar(MaxScalar(pos, 0), t.PageSize)
	row := clip(seqs, rows.Shape().Dimensions[0])
	page := gather(Reshape(rows, rows.Shape().Size()), Add(MulScalar(row, pp), clip(pageOf, pp)))
	inSeq := LogicalAnd(GreaterOrEqual(pos, ZerosLike(pos)), LessThan(pos, gather(lens, row)))
	isPage := LogicalAnd(GreaterOrEqual(page, ZerosLike(page)), LessThan(page, fillLike(page, numPages)))
	ok := LogicalAnd(LogicalAnd(canRun, inSeq), isPage)
	place := Sub(pos, MulScalar(pageOf, t.PageSize))
	return Where(ok, Add(MulScalar(page, t.PageSize), place), fillLike(pos, numPages*t.PageSize))
}
