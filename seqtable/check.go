package seqtable

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/tokenqueue"
)

// Rules are what holds between two steps, in the order of the counts of [Table.Check].
var Rules = []string{
	"no reference count is below 0",
	"a page's count is the number of its references by sequences and pins",
	"a free page is referenced by nobody",
	"page ids in a row are those of pages",
	"a used slot's pages cover its length",
	"the pages of a row stand first in it, each once",
	"a page that is not full is held by one sequence alone, but for those that may share it",
	"a slot that is not used is all clear",
	"the source of a clone is a used slot",
	"the queue is clear after its tokens",
	"queued tokens belong to used, unfinished slots",
	"free pages and held pages are all pages",
}

// ruleOfPartialPages is the place in [Rules] of the rule that partial pages are not shared.
const ruleOfPartialPages = 6

// CheckInput is the state that [Table.Check] compares the table with.
type CheckInput struct {
	Pages    pagetable.Table
	Queue    tokenqueue.Queue // Its zero value stands for no queue.
	Finished *Node            // bool [R]: sequences that are to get no more tokens; nil = none.
	Lazy     *Node            // bool [R]: sequences that may share a page that is not full; nil = none.
	Pins     *Node            // int32 [P]: references to pages other than by sequences; nil = none.
}

// Check counts the violations of each of [Rules], as int32 [len(Rules)]. It is for debug builds and tests: it sorts the
// table.
func (t Table) Check(in CheckInput) *Node {
	g := t.SeqLens.Graph()
	slots, pp, numPages := t.NumSlots(), t.PagesPerSeq(), in.Pages.NumPages()
	refs := in.Pages.RefCounts
	rows := t.PageIndices
	none := full(g, -1, slots, pp)
	set := NotEqual(rows, none)
	outOfRange := LogicalOr(LessThan(rows, none), GreaterOrEqual(rows, fillLike(rows, numPages)))

	held := in.Pages.NewTally().Add(Reshape(rows, slots*pp)).Counts
	if in.Pins != nil {
		held = Add(held, in.Pins)
	}
	noRefs := Equal(refs, ZerosLike(refs))
	referenced := GreaterThan(held, ZerosLike(held))

	// Rows.
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	needed := LessThan(place, column(t.pagesFor(t.SeqLens), pp))
	uncovered := LogicalOr(
		ReduceLogicalOr(LogicalAnd(needed, LogicalNot(set)), 1),
		LogicalOr(LessThan(t.SeqLens, ZerosLike(t.SeqLens)), GreaterThan(t.SeqLens, fillLike(t.SeqLens, t.Capacity()))))
	sorted := Sort(rows, 1, true)
	misplaced := ReduceLogicalOr(LogicalAnd(set, GreaterOrEqual(place, column(scan.CountRows(set), pp))), 1)
	if pp > 1 {
		left, right := SliceAxis(sorted, 1, AxisRangeFromStart(pp-1)), SliceAxis(sorted, 1, AxisRangeToEnd(1))
		twice := LogicalAnd(Equal(left, right), NotEqual(left, full(g, -1, slots, pp-1)))
		misplaced = LogicalOr(misplaced, ReduceLogicalOr(twice, 1))
	}
	fullPages := DivScalar(MaxScalar(t.SeqLens, 0), t.PageSize)
	filling := LogicalAnd(t.Used, NotEqual(MulScalar(fullPages, t.PageSize), t.SeqLens))
	last := ReduceMax(Where(Equal(place, column(fullPages, pp)), rows, none), 1)
	sharedLast := LogicalAnd(filling, GreaterThan(gather(refs, last), fillLike(last, 1)))
	if in.Lazy != nil {
		sharedLast = LogicalAnd(sharedLast, LogicalNot(in.Lazy))
	}
	clear := LogicalAnd(
		LogicalAnd(Equal(t.SeqLens, ZerosLike(t.SeqLens)), Equal(t.CloneSources, full(g, -1, slots))),
		LogicalNot(ReduceLogicalOr(set, 1)))
	isClone := NotEqual(t.CloneSources, full(g, -1, slots))
	sourceUsed := LogicalAnd(t.inRange(t.CloneSources), gatherMask(t.Used, t.CloneSources))

	zero := scalar(g, 0)
	behind, strays := zero, zero
	if q := in.Queue; q.NumQueued != nil {
		capacity := q.Capacity()
		places := iota32(g, capacity)
		queued := LessThan(places, broadcast(q.NumQueued, capacity))
		isClear := LogicalAnd(LogicalAnd(Equal(q.Tokens, full(g, -1, capacity)),
			Equal(q.SlotIDs, full(g, -1, capacity))), Equal(q.PosIDs, full(g, -1, capacity)))
		behind = scan.Count(LogicalAnd(LogicalNot(queued), LogicalNot(isClear)))
		behind = Add(behind, ConvertDType(LogicalOr(LessThan(q.NumQueued, zero),
			GreaterThan(q.NumQueued, scalar(g, capacity))), dtypes.Int32))
		live := t.Used
		if in.Finished != nil {
			live = LogicalAnd(live, LogicalNot(in.Finished))
		}
		belongs := LogicalAnd(t.inRange(q.SlotIDs), gatherMask(live, q.SlotIDs))
		strays = scan.Count(LogicalAnd(queued, LogicalNot(belongs)))
	}
	return Stack([]*Node{
		scan.Count(LessThan(refs, ZerosLike(refs))),
		scan.Count(NotEqual(refs, held)),
		scan.Count(LogicalAnd(noRefs, referenced)),
		scan.Count(outOfRange),
		scan.Count(LogicalAnd(t.Used, uncovered)),
		scan.Count(misplaced),
		scan.Count(sharedLast),
		scan.Count(LogicalAnd(LogicalNot(t.Used), LogicalNot(clear))),
		scan.Count(LogicalAnd(isClone, LogicalNot(sourceUsed))),
		behind,
		strays,
		Abs(Sub(Add(scan.Count(noRefs), scan.Count(referenced)), scalar(g, numPages))),
	}, 0)
}

// ErrRuleBroken reports that the device tables contradict each other. errors.Is matches any ErrRuleBroken.
type ErrRuleBroken struct {
	Rule  string // One of [Rules].
	Count int    // Pages, rows or tokens that break it.
}

func (e ErrRuleBroken) Error() string {
	return fmt.Sprintf("the device tables are corrupt: rule %q is broken %d times; please report this", e.Rule, e.Count)
}

// Is reports whether target is an ErrRuleBroken.
func (e ErrRuleBroken) Is(target error) bool { _, ok := target.(ErrRuleBroken); return ok }

// ErrPageFinalized is the [ErrRuleBroken] of the rule that a page is held by one sequence alone until it is full: the
// next token of a sequence would change a page that others hold too. errors.Is matches any ErrPageFinalized.
type ErrPageFinalized struct{ ErrRuleBroken }

// Is reports whether target is an ErrPageFinalized.
func (e ErrPageFinalized) Is(target error) bool { _, ok := target.(ErrPageFinalized); return ok }

// Unwrap returns the broken rule.
func (e ErrPageFinalized) Unwrap() error { return e.ErrRuleBroken }

// CheckError turns the counts of [Table.Check], read from the device, into an error that joins an [ErrRuleBroken] for
// each rule that is broken; nil if none is.
func CheckError(counts []int32) error {
	if len(counts) != len(Rules) {
		return fmt.Errorf("seqtable: %d counts for %d rules", len(counts), len(Rules))
	}
	var broken []error
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if rule := (ErrRuleBroken{Rule: Rules[i], Count: int(n)}); i == ruleOfPartialPages {
			broken = append(broken, ErrPageFinalized{rule})
		} else {
			broken = append(broken, rule)
		}
	}
	return errors.Join(broken...)
}
