package seqtable

import (
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/tokenqueue"
)

// Host is the plain-Go twin of [Table]: the same verbs with the same results and the same errors, one sequence at a
// time.
type Host struct {
	PageSize    int
	PagesPerSeq int
	Rows        []Row
}

// Row is one slot of a [Host].
type Row struct {
	Used   bool
	Len    int
	Pages  []int32
	Source int32 // The slot it was cloned from, or -1.
	Owner  int32 // For whom the slot takes pages.
}

// NewHost returns a table of slots unused slots.
func NewHost(slots, pagesPerSeq, pageSize int) *Host {
	h := &Host{PageSize: pageSize, PagesPerSeq: pagesPerSeq, Rows: make([]Row, slots)}
	for i := range h.Rows {
		h.Rows[i].Source, h.Rows[i].Owner = -1, int32(i)
	}
	return h
}

// Batch is the twin of [tokenqueue.PageBatchInfo], without padding.
type Batch struct {
	SlotIDs       []int32
	PageIndices   [][]int32
	SeqLens       []int32
	CuQLens       []int32 // One more than rows.
	NewTokenDests []int32
	TokenSeqs     []int32
}

func (h *Host) used(slot int32) bool {
	return slot >= 0 && int(slot) < len(h.Rows) && h.Rows[slot].Used
}

// Open begins an empty sequence in each slot of mask: see [Table.Open].
func (h *Host) Open(mask []bool) error {
	var err error
	for s, open := range mask {
		if open && h.Rows[s].Used && err == nil {
			err = ErrInvalidSlot{Slot: s}
		}
		h.Rows[s].Used = h.Rows[s].Used || open
	}
	return err
}

// ages returns the ages of a row's pages from place from to place to, when the first length tokens of the row are kept.
func (h *Host) ages(pages *pagetable.Host, length, from, to int) []int32 {
	ages := make([]int32, to-from)
	for i := range ages {
		if (from+i+1)*h.PageSize <= length {
			ages[i] = pages.Age(from+i, h.PagesPerSeq)
		}
	}
	return ages
}

// markOf is what a page is marked with that a slot takes for a place in its sequence.
func (h *Host) markOf(slot, place int) int32 {
	return h.Rows[slot].Owner*int32(h.PagesPerSeq) + int32(place)
}

// Release ends the sequences of mask, and keeps the pages of the first keep tokens of each, nil for all: see
// [Table.Release].
func (h *Host) Release(pages *pagetable.Host, mask []bool, keep []int32) error {
	doubleFree, invalid := 0, 0
	for s, end := range mask {
		if !end {
			continue
		}
		if row := h.Rows[s]; row.Used {
			length := row.Len
			if keep != nil {
				length = min(length, int(keep[s]))
			}
			d, i := pages.ReleaseOld(row.Pages, h.ages(pages, length, 0, len(row.Pages)))
			doubleFree, invalid = doubleFree+d, invalid+i
		}
		h.Rows[s] = Row{Source: -1, Owner: h.Rows[s].Owner}
	}
	for s := range h.Rows {
		if source := h.Rows[s].Source; source >= 0 && mask[source] {
			h.Rows[s].Source = -1
		}
	}
	return releaseError(pages, doubleFree, invalid)
}

// releaseError returns what went wrong when rows gave pages back.
func releaseError(pages *pagetable.Host, doubleFree, invalid int) error {
	switch {
	case doubleFree > 0:
		return pagetable.ErrDoubleFree{Count: doubleFree}
	case invalid > 0:
		return pagetable.ErrInvalidPage{Slot: -1, Count: invalid, Pages: len(pages.RefCounts)}
	}
	return nil
}

// Allocate makes room for packed, sorted by slot, then position: see [Table.Allocate].
func (h *Host) Allocate(pages *pagetable.Host, packed []tokenqueue.Entry, maxSeqs int) (Batch, error) {
	var b Batch
	var fault, outOfPages error
	capacity, free, need, runs := h.PagesPerSeq*h.PageSize, pages.NumFree(), h.need(packed, maxSeqs), 0
	taken := pages.Take(need)
	nowhere := int32(len(pages.RefCounts) * h.PageSize)
	b.CuQLens = []int32{0}
	for begin := 0; begin < len(packed); {
		end := begin + 1
		for end < len(packed) && packed[end].Slot == packed[begin].Slot {
			end++
		}
		tokens := packed[begin:end]
		begin = end
		runs++
		slot := tokens[0].Slot
		if runs > maxSeqs || !h.used(slot) {
			if runs <= maxSeqs {
				fault = first(fault, ErrInvalidSlot{Slot: int(slot)})
				b.SlotIDs, b.PageIndices, b.SeqLens = append(b.SlotIDs, -1), append(b.PageIndices, nil),
					append(b.SeqLens, 0)
				b.CuQLens = append(b.CuQLens, int32(end))
			}
			for range tokens {
				b.NewTokenDests, b.TokenSeqs = append(b.NewTokenDests, nowhere), append(b.TokenSeqs, -1)
			}
			continue
		}
		row := &h.Rows[slot]
		reach, joined := int(tokens[len(tokens)-1].Pos)+1, row.Len+len(tokens)
		switch {
		case reach > capacity:
			fault = first(fault, ErrSequenceTooLong{Slot: int(slot), Need: reach, Have: capacity})
		case tokens[0].Pos < 0:
			fault = first(fault, ErrInvalidPosition{Slot: int(slot), Position: int(tokens[0].Pos), Length: row.Len})
		case reach > joined:
			fault = first(fault, ErrInvalidPosition{Slot: int(slot), Position: reach - 1, Length: row.Len})
		}
		wanted := max(row.Len, min(reach, joined, capacity))
		for more := (wanted+h.PageSize-1)/h.PageSize - len(row.Pages); more > 0; more-- {
			if len(taken) == 0 {
				outOfPages = pagetable.ErrOutOfPages{Need: need, Have: free}
				break
			}
			pages.Mark(taken[0], h.markOf(int(slot), len(row.Pages)))
			row.Pages, taken = append(row.Pages, taken[0]), taken[1:]
		}
		row.Len = max(row.Len, min(wanted, len(row.Pages)*h.PageSize))
		for _, t := range tokens {
			dest := nowhere
			if t.Pos >= 0 && int(t.Pos) < row.Len {
				dest = row.Pages[int(t.Pos)/h.PageSize]*int32(h.PageSize) + t.Pos%int32(h.PageSize)
			}
			b.NewTokenDests, b.TokenSeqs = append(b.NewTokenDests, dest), append(b.TokenSeqs, int32(runs-1))
		}
		b.SlotIDs, b.SeqLens = append(b.SlotIDs, slot), append(b.SeqLens, int32(row.Len))
		b.PageIndices = append(b.PageIndices, append([]int32(nil), row.Pages...))
		b.CuQLens = append(b.CuQLens, int32(end))
	}
	if runs > maxSeqs {
		fault = first(fault, ErrOutOfSlots{Need: runs, Have: maxSeqs})
	}
	return b, first(fault, outOfPages)
}

// need is how many pages the tokens of a step take.
func (h *Host) need(packed []tokenqueue.Entry, maxSeqs int) (need int) {
	for begin, runs := 0, 0; begin < len(packed) && runs < maxSeqs; runs++ {
		end := begin + 1
		for end < len(packed) && packed[end].Slot == packed[begin].Slot {
			end++
		}
		if slot := packed[begin].Slot; h.used(slot) {
			row := h.Rows[slot]
			wanted := max(row.Len, min(int(packed[end-1].Pos)+1, row.Len+end-begin, h.PagesPerSeq*h.PageSize))
			need += max(0, (wanted+h.PageSize-1)/h.PageSize-len(row.Pages))
		}
		begin = end
	}
	return need
}

// Clone begins sequences with the first tokens of others: see [Table.Clone].
func (h *Host) Clone(pages *pagetable.Host, src, dst, lens []int32) (srcPages, dstPages []int32, err error) {
	return h.Fork(pages, src, dst, lens, make([]bool, len(src)))
}

// Fork begins sequences with the first tokens of others, sharing partial pages if lazy is set: see [Table.Fork].
func (h *Host) Fork(pages *pagetable.Host, src, dst, lens []int32, lazy []bool) (srcPages, dstPages []int32,
	err error) {
	var outOfPages error
	free, need := pages.NumFree(), 0
	sources := append([]Row(nil), h.Rows...) // As they were: a clone of this call is no source in it.
	var shares []int32
	srcPages, dstPages = make([]int32, len(src)), make([]int32, len(src))
	valid, partial := make([]bool, len(src)), make([]bool, len(src))
	claimed := map[int32]bool{}
	for i := range src {
		srcPages[i], dstPages[i] = -1, -1
		from, to, n := src[i], dst[i], int(lens[i])
		switch {
		case to == -1:
			continue
		case from < 0 || int(from) >= len(sources) || !sources[from].Used:
			err = first(err, ErrInvalidSlot{Slot: int(from)})
			continue
		case to < 0 || int(to) >= len(sources) || sources[to].Used:
			err = first(err, ErrInvalidSlot{Slot: int(to)})
			continue
		case n < 0 || n > sources[from].Len:
			err = first(err, ErrInvalidPosition{Slot: int(from), Position: n, Length: sources[from].Len})
			continue
		case claimed[to]:
			err = first(err, ErrInvalidSlot{Slot: int(to)})
			continue
		}
		claimed[to], valid[i] = true, true
		if partial[i] = !lazy[i] && n%h.PageSize != 0; partial[i] {
			need++
		}
	}
	fresh, short := pages.Allocate(partial)
	if short > 0 {
		outOfPages = pagetable.ErrOutOfPages{Need: need, Have: free}
	}
	for i, from := range src {
		if !valid[i] || partial[i] && fresh[i] < 0 {
			continue
		}
		to, n := dst[i], int(lens[i])
		full := n / h.PageSize
		if lazy[i] {
			full = (n + h.PageSize - 1) / h.PageSize
		}
		row := Row{Used: true, Len: n, Source: from, Owner: h.Rows[to].Owner,
			Pages: append([]int32(nil), sources[from].Pages[:full]...)}
		if partial[i] {
			srcPages[i], dstPages[i] = sources[from].Pages[full], fresh[i]
			pages.Mark(fresh[i], h.markOf(int(to), full))
			row.Pages = append(row.Pages, fresh[i])
		}
		shares = append(shares, row.Pages[:full]...)
		h.Rows[to] = row
	}
	pages.Share(shares)
	return srcPages, dstPages, first(err, outOfPages)
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
