package seqtable

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/pagetable"
)

// Codes of [Status]. A verb that meets several faults reports the fault of the lowest slot or index, and faults of the
// whole table (out of slots, out of pages, double free) only if no sequence is at fault by itself.
const (
	CodeOK              = iota
	CodeInvalidSlot     // [ErrInvalidSlot]
	CodeOutOfSlots      // [ErrOutOfSlots]
	CodeInvalidPosition // [ErrInvalidPosition]
	CodeSequenceTooLong // [ErrSequenceTooLong]
	CodeInvalidPage     // [pagetable.ErrInvalidPage]
	CodeOutOfPages      // [pagetable.ErrOutOfPages]
	CodeDoubleFree      // [pagetable.ErrDoubleFree]
)

// Status describes the faults of a verb, as int32 scalars on the device; all zero if there were none. After a fault the
// tables still obey their rules: changes that could not be made were left out. [StatusError] turns the values, read by
// the host, into an error.
type Status struct {
	Code, Need, Have, Slot *Node
}

// NewStatus returns a status without fault, to start a loop with.
func NewStatus(g *Graph) Status {
	zero := scalar(g, 0)
	return Status{Code: zero, Need: zero, Have: zero, Slot: zero}
}

// Failed is a bool scalar.
func (s Status) Failed() *Node { return NotEqual(s.Code, scalar(s.Code.Graph(), CodeOK)) }

// Then returns s, or next if s has no fault: the first fault of a series of verbs is kept.
func (s Status) Then(next Status) Status {
	failed := s.Failed()
	return Status{
		Code: Where(failed, s.Code, next.Code), Need: Where(failed, s.Need, next.Need),
		Have: Where(failed, s.Have, next.Have), Slot: Where(failed, s.Slot, next.Slot),
	}
}

// Vector returns the status as int32 [4], for [StatusError].
func (s Status) Vector() *Node { return Stack([]*Node{s.Code, s.Need, s.Have, s.Slot}, 0) }

// InvalidPages is the status of a verb that met so many ids of no pages, of pages that there are.
func InvalidPages(invalid *Node, pages int) Status {
	g := invalid.Graph()
	return Status{Code: scalar(g, CodeInvalidPage), Need: invalid, Have: scalar(g, pages),
		Slot: scalar(g, -1)}.When(GreaterThan(invalid, scalar(g, 0)))
}

// OutOfPages is the status of a verb that needs more pages than there are. need and have are int32 scalars.
func OutOfPages(need, have *Node) Status {
	return Status{Code: scalar(need.Graph(), CodeOutOfPages), Need: need, Have: have,
		Slot: scalar(need.Graph(), -1)}.When(GreaterThan(need, have))
}

// When is s if the condition holds, else no fault.
func (s Status) When(condition *Node) Status {
	zero := scalar(condition.Graph(), 0)
	return Status{
		Code: Where(condition, s.Code, zero), Need: Where(condition, s.Need, zero),
		Have: Where(condition, s.Have, zero), Slot: Where(condition, s.Slot, zero),
	}
}

// faultCodes is one status for each of N sequences, int32 [N] each.
type faultCodes struct {
	code, need, have, slot *Node
}

// set records a fault if the mask holds and none was recorded before.
func (f faultCodes) set(mask *Node, code int, need, have *Node) faultCodes {
	mask = LogicalAnd(mask, Equal(f.code, ZerosLike(f.code)))
	f.code = where(mask, code, f.code)
	f.need = Where(mask, need, f.need)
	f.have = Where(mask, have, f.have)
	return f
}

// setAt is set, with the slot to report.
func (f faultCodes) setAt(mask *Node, code int, need, have, slot *Node) faultCodes {
	f.slot = Where(LogicalAnd(mask, Equal(f.code, ZerosLike(f.code))), slot, f.slot)
	return f.set(mask, code, need, have)
}

// firstFault is the status of the first sequence at fault.
func firstFault(f faultCodes) Status {
	n := f.code.Shape().Dimensions[0]
	places := iota32(f.code.Graph(), n)
	failed := NotEqual(f.code, ZerosLike(f.code))
	first := clip(ReduceAllMin(where(LogicalNot(failed), n, places)), n)
	pick := func(x *Node) *Node { return Reshape(gather(x, Reshape(first, 1))) }
	return Status{Code: pick(f.code), Need: pick(f.need), Have: pick(f.have),
		Slot: pick(f.slot)}.When(ReduceLogicalOr(failed))
}

// StatusError turns a status read from the device, int32 [4] as of [Status.Vector], into an error; nil if there is no
// fault.
func StatusError(values []int32) error {
	if len(values) != 4 {
		return fmt.Errorf("seqtable: a status has 4 values, got %d", len(values))
	}
	need, have, slot := int(values[1]), int(values[2]), int(values[3])
	switch values[0] {
	case CodeOK:
		return nil
	case CodeInvalidSlot:
		return ErrInvalidSlot{Slot: slot}
	case CodeOutOfSlots:
		return ErrOutOfSlots{Need: need, Have: have}
	case CodeInvalidPosition:
		return ErrInvalidPosition{Slot: slot, Position: need, Length: have}
	case CodeSequenceTooLong:
		return ErrSequenceTooLong{Slot: slot, Need: need, Have: have}
	case CodeInvalidPage:
		return pagetable.ErrInvalidPage{Slot: slot, Count: need, Pages: have}
	case CodeOutOfPages:
		return pagetable.ErrOutOfPages{Need: need, Have: have}
	case CodeDoubleFree:
		return pagetable.ErrDoubleFree{Count: need}
	}
	return fmt.Errorf("seqtable: unknown status %v", values)
}

// ErrInvalidSlot reports that a verb named a slot that does not exist, or that is in use but must be free, or free but
// must be in use. errors.Is matches any ErrInvalidSlot.
type ErrInvalidSlot struct{ Slot int }

func (e ErrInvalidSlot) Error() string {
	return fmt.Sprintf(
		"slot %d cannot be used here: it is out of range, in use where it must be free, or free where it must be in "+
			"use; please report this with the output of a run with --debug", e.Slot)
}

// Is reports whether target is an ErrInvalidSlot.
func (e ErrInvalidSlot) Is(target error) bool { _, ok := target.(ErrInvalidSlot); return ok }

// ErrOutOfSlots reports that more sequences were to run than a step has rows. errors.Is matches any ErrOutOfSlots.
type ErrOutOfSlots struct {
	Need int // Sequences.
	Have int // Rows.
}

func (e ErrOutOfSlots) Error() string {
	return fmt.Sprintf(
		"out of slots: %d sequences for the %d rows of a step; "+
			"please report this with the output of a run with --debug", e.Need, e.Have)
}

// Is reports whether target is an ErrOutOfSlots.
func (e ErrOutOfSlots) Is(target error) bool { _, ok := target.(ErrOutOfSlots); return ok }

// ErrInvalidPosition reports that a token, or the length of a clone, does not join up with its sequence: a position
// below 0, or one that would leave a hole after it. errors.Is matches any ErrInvalidPosition.
type ErrInvalidPosition struct {
	Slot     int
	Position int // Of the token, or the length asked of the clone.
	Length   int // Of the sequence before.
}

func (e ErrInvalidPosition) Error() string {
	return fmt.Sprintf(
		"position %d does not continue the sequence in slot %d, which has %d tokens; please report this with the "+
			"output of a run with --debug", e.Position, e.Slot, e.Length)
}

// Is reports whether target is an ErrInvalidPosition.
func (e ErrInvalidPosition) Is(target error) bool { _, ok := target.(ErrInvalidPosition); return ok }

// ErrSequenceTooLong reports that a sequence grew past the pages its slot can hold. errors.Is matches any
// ErrSequenceTooLong.
type ErrSequenceTooLong struct {
	Slot int
	Need int // Tokens.
	Have int // Tokens a slot can hold.
}

func (e ErrSequenceTooLong) Error() string {
	return fmt.Sprintf("the sequence in slot %d needs %d tokens, but a slot holds %d; raise the engine's maximum "+
		"length", e.Slot, e.Need, e.Have)
}

// Is reports whether target is an ErrSequenceTooLong.
func (e ErrSequenceTooLong) Is(target error) bool { _, ok := target.(ErrSequenceTooLong); return ok }
