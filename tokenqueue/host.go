package tokenqueue

import (
	"cmp"
	"slices"
)

// Entry is one token of a [Host] queue.
type Entry struct {
	Token, Slot, Pos int32
}

// Host is the plain-Go twin of [Queue]: the same verbs with the same results.
type Host struct {
	Capacity int
	Entries  []Entry // Oldest first.
}

// Enqueue appends entries as far as there is room and returns how many it left out.
func (h *Host) Enqueue(entries ...Entry) (dropped int) {
	room := min(len(entries), h.Capacity-len(h.Entries))
	h.Entries = append(h.Entries, entries[:room]...)
	return len(entries) - room
}

// PackNext takes up to limit entries, sorted by slot and then position.
func (h *Host) PackNext(limit int) []Entry {
	n := min(limit, len(h.Entries))
	packed := slices.Clone(h.Entries[:n])
	h.Entries = slices.Delete(h.Entries, 0, n)
	slices.SortStableFunc(packed, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Pos, b.Pos))
	})
	return packed
}

// PurgeSlots removes the entries of the slots for which mask holds.
func (h *Host) PurgeSlots(mask []bool) {
	h.Entries = slices.DeleteFunc(h.Entries, func(e Entry) bool {
		return e.Slot >= 0 && int(e.Slot) < len(mask) && mask[e.Slot]
	})
}
