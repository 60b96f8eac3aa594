package tokenqueue

import "slices"

// Entry is one token of a [Host] queue.
type Entry struct {
	Token, Slot, Pos int32
}

// Host is the plain-Go twin of [Queue]: the same verbs with the same results.
type Host struct {
	Capacity int
	Entries  []Entry // Oldest first.
}

// Enqueue appends entries while there is room.
func (h *Host) Enqueue(entries ...Entry) {
	h.Entries = append(h.Entries, entries[:min(len(entries), h.Capacity-len(h.Entries))]...)
}

// PurgeSlots removes the entries of the slots whose mask is set.
func (h *Host) PurgeSlots(mask []bool) {
	h.Entries = slices.DeleteFunc(h.Entries, func(e Entry) bool {
		return e.Slot >= 0 && int(e.Slot) < len(mask) && mask[e.Slot]
	})
}
