package seqtable

import "github.com/quire/quire/pagetable"

// Truncate shortens sequences: see [Table.Truncate].
func (h *Host) Truncate(pages *pagetable.Host, lens []int32) error {
	doubleFree, invalid := 0, 0
	for s := range h.Rows {
		row := &h.Rows[s]
		if n := int(lens[s]); row.Used && n >= 0 && n < row.Len {
			keep := (n + h.PageSize - 1) / h.PageSize
			d, i := pages.ReleaseOld(row.Pages[keep:], h.ages(pages, row.Len, keep, len(row.Pages)))
			doubleFree, invalid = doubleFree+d, invalid+i
			row.Pages, row.Len = row.Pages[:keep:keep], n
		}
	}
	return releaseError(pages, doubleFree, invalid)
}

// Retract takes back the last tokens of sequences: see [Table.Retract].
func (h *Host) Retract(pages *pagetable.Host, lens []int32, by int32) error {
	doubleFree, invalid := 0, 0
	for s := range h.Rows {
		row := &h.Rows[s]
		n := int(lens[s])
		if !row.Used || n < 0 || n >= row.Len {
			continue
		}
		if keep := (n + h.PageSize - 1) / h.PageSize; keep < (row.Len+h.PageSize-1)/h.PageSize {
			for _, page := range row.Pages[keep:] {
				pages.Mark(page, by)
			}
			d, i := pages.Release(row.Pages[keep:])
			doubleFree, invalid = doubleFree+d, invalid+i
			row.Pages = row.Pages[:keep:keep]
		}
		row.Len = n
	}
	return releaseError(pages, doubleFree, invalid)
}

// Own gives sequences pages of their own: see [Table.Own].
func (h *Host) Own(pages *pagetable.Host, mask []bool) (srcPages, dstPages []int32, err error) {
	srcPages, dstPages = make([]int32, len(h.Rows)), make([]int32, len(h.Rows))
	shared := make([]bool, len(h.Rows))
	need, have := 0, pages.NumFree()
	for s, row := range h.Rows {
		srcPages[s], dstPages[s] = -1, -1
		if mask[s] && row.Len%h.PageSize != 0 && pages.RefCounts[row.Pages[len(row.Pages)-1]] > 1 {
			shared[s] = true
			need++
		}
	}
	fresh, short := pages.Allocate(shared)
	var old []int32
	for s := range h.Rows {
		if row := &h.Rows[s]; shared[s] && fresh[s] >= 0 {
			last := len(row.Pages) - 1
			pages.Mark(fresh[s], h.markOf(s, last))
			srcPages[s], dstPages[s] = row.Pages[last], fresh[s]
			old = append(old, row.Pages[last])
			row.Pages[last] = fresh[s]
		}
	}
	pages.Release(old)
	if short > 0 {
		err = pagetable.ErrOutOfPages{Need: need, Have: have}
	}
	return srcPages, dstPages, err
}

// Grow makes a sequence longer: see [Table.Grow].
func (h *Host) Grow(pages *pagetable.Host, slot int32, length, limit int) (taken []int32, err error) {
	if !h.used(slot) {
		return nil, ErrInvalidSlot{Slot: int(slot)}
	}
	row := &h.Rows[slot]
	if reach := min(h.PagesPerSeq, len(row.Pages)+limit) * h.PageSize; length > reach {
		return nil, ErrSequenceTooLong{Slot: int(slot), Need: length, Have: reach}
	}
	need := max(0, (length+h.PageSize-1)/h.PageSize-len(row.Pages))
	if have := pages.NumFree(); need > have {
		return nil, pagetable.ErrOutOfPages{Need: need, Have: have}
	}
	taken = pages.Take(need)
	for i, page := range taken {
		pages.Mark(page, h.markOf(int(slot), len(row.Pages)+i))
	}
	row.Pages, row.Len = append(row.Pages, taken...), max(row.Len, length)
	return taken, nil
}
