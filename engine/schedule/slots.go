package schedule

import (
	"cmp"
	"slices"
)

// slots is the host's account of the rows that decode. The run's goroutine owns it.
type slots struct {
	Sizes
	rows []*sequence // rows by slot; nil if no sequence continues there
	// release marks the rows, of slots and prefixes, that the next call frees before it does anything else. Until then
	// the device still has them, so nothing may be loaded into them. A call clears it. The prefix rows share it, and
	// the input of a call.
	release []bool
	active  int // sequences in slots
	// admissions counts the sequences that got a slot for the first time, and so gives them their order of age.
	admissions int
}

func newSlots(s Sizes) *slots {
	return &slots{Sizes: s, rows: make([]*sequence, s.Slots), release: make([]bool, s.Rows())}
}

// releasing reports whether the next call has rows to free.
func (t *slots) releasing() bool { return slices.Contains(t.release, true) }

// releaseCancelled takes sequences that met a stop string out of their slots, and passes them to ended.
func (t *slots) releaseCancelled(ended func(*sequence)) {
	for _, seq := range t.rows {
		if seq != nil && seq.cancelled.Load() {
			t.vacate(seq)
			ended(seq)
		}
	}
}

// releaseAll takes all sequences out of their slots.
func (t *slots) releaseAll() {
	for row, seq := range t.rows {
		t.release[row] = t.release[row] || seq != nil
	}
	clear(t.rows)
	t.active = 0
}

// vacate takes a sequence out of its slot.
func (t *slots) vacate(seq *sequence) {
	t.release[seq.row] = true
	t.rows[seq.row] = nil
	t.active--
}

// admit records that a sequence got a slot for the first time.
func (t *slots) admit(seq *sequence, row int) {
	t.active++
	t.admissions++
	seq.row, seq.admission = row, t.admissions
}

// resume records that a sequence that was swapped out got a slot again.
func (t *slots) resume(seq *sequence, row int) {
	t.active++
	seq.row = row
}

// settle records which sequences are in which slots after a call, and how long they are. The device has already freed
// the rows of sequences that ended.
func (t *slots) settle(owners []*sequence, ended map[*sequence]bool, output *Output) {
	t.active -= len(ended)
	clear(t.rows)
	for _, seq := range owners {
		if seq != nil && !ended[seq] {
			t.rows[seq.row] = seq
			seq.done = int(output.SeqLens[seq.row])
		}
	}
}

// decoding returns the sequences whose prompts have run, those admitted last first.
func (t *slots) decoding() []*sequence {
	decoding := slices.DeleteFunc(slices.Clone(t.rows), func(seq *sequence) bool {
		return seq == nil || seq.done < len(seq.group.Tokens)
	})
	slices.SortFunc(decoding, func(a, b *sequence) int { return cmp.Compare(b.admission, a.admission) })
	return decoding
}

// promptLeft returns how many prompt tokens the sequences must still run.
func (t *slots) promptLeft() (tokens int) {
	for _, seq := range t.rows {
		if seq != nil {
			tokens += max(0, len(seq.group.Tokens)-seq.done)
		}
	}
	return tokens
}

// reserved returns how many free pages belong to sequences that have not taken them yet.
func (t *slots) reserved() (pages int) {
	for _, seq := range t.rows {
		if seq != nil {
			pages += max(0, t.surePages(seq.group.Request)-t.pages(seq.done))
		}
	}
	return pages
}

// pagePool is the pages of the device that a run may give out. The run's goroutine owns it.
type pagePool struct {
	// size is what the run may use of the device's pages: contexts hold the others, or have them reserved. No request
	// that needs more is taken in.
	size int
	// idle is how many pages of the device are free when nothing runs. At the end of a run as many must be free again.
	idle     int
	free     int // free slots after the last call, less what was loaded since
	slots    *slots
	prefixes *prefixRows
}

// unreserved returns how many pages are free and reserved for no row.
func (p *pagePool) unreserved() int { return p.free - p.slots.reserved() - p.prefixes.reserved() }
