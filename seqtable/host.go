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
}

// NewHost returns a table of slots unused slots.
func NewHost(slots, pagesPerSeq, pageSize int) *Host {
	h := &Host{PageSize: pageSize, PagesPerSeq: pagesPerSeq, Rows: make([]Row, slots)}
	for i := range h.Rows {
		h.Rows[i].Source = -1
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

// Release ends the sequences of mask: see [Table.Release].
func (h *Host) Release(pages *pagetable.Host, mask []bool) error {
	doubleFree, invalid := 0, 0
	for s, end := range mask {
		if !end {
			continue
		}
		if h.Rows[s].Used {
			d, i := pages.Release(h.Rows[s].Pages)
			doubleFree, invalid = doubleFree+d, invalid+i
		}
		h.Rows[s] = Row{Source: -1}
	}
	for s := range h.Rows {
		if source := h.Rows[s].Source; source >= 0 && mask[source] {
			h.Rows[s].Source = -1
		}
	}
	return releaseError(pages, doubleFree, invalid)
}

// releaseError says what went wrong where rows gave pages back.
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
	capacity, free, need, runs := h.PagesPerSeq*h.PageSize, pages.NumFree(), 0, 0
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
			need++
			if page := pages.Take(); page >= 0 {
				row.Pages = append(row.Pages, page)
			} else {
				outOfPages = pagetable.ErrOutOfPages{}
			}
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
	if outOfPages != nil {
		outOfPages = pagetable.ErrOutOfPages{Need: need, Have: free}
	}
	return b, first(fault, outOfPages)
}

// Clone begins sequences with the first tokens of others: see [Table.Clone].
func (h *Host) Clone(pages *pagetable.Host, src, dst, lens []int32) (srcPages, dstPages []int32, err error) {
	return h.Fork(pages, src, dst, lens, make([]bool, len(src)))
}

// Fork begins sequences with the first tokens of others, sharing partial pages where lazy holds: see [Table.Fork].
func (h *Host) Fork(pages *pagetable.Host, src, dst, lens []int32, lazy []bool) (srcPages, dstPages []int32,
	err error) {
	var outOfPages error
	free, need := pages.NumFree(), 0
	sources := append([]Row(nil), h.Rows...) // As they were: a clone of this call is no source in it.
	var shares []int32
	srcPages, dstPages = make([]int32, len(src)), make([]int32, len(src))
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
		claimed[to] = true
		full := n / h.PageSize
		if lazy[i] {
			full = (n + h.PageSize - 1) / h.PageSize
		}
		row := Row{Used: true, Len: n, Source: from, Pages: append([]int32(nil), sources[from].Pages[:full]...)}
		if n > full*h.PageSize {
			need++
			page := pages.Take()
			if page < 0 {
				outOfPages = pagetable.ErrOutOfPages{}
				continue
			}
			srcPages[i], dstPages[i] = sources[from].Pages[full], page
			row.Pages = append(row.Pages, page)
		}
		shares = append(shares, row.Pages[:full]...)
		h.Rows[to] = row
	}
	pages.Share(shares)
	if outOfPages != nil {
		outOfPages = pagetable.ErrOutOfPages{Need: need, Have: free}
	}
	return srcPages, dstPages, first(err, outOfPages)
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
