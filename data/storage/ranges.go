package storage

import (
	"cmp"
	"slices"
)

// Range is the bytes [From, To) of a file.
type Range struct{ From, To int64 }

// Len returns the number of bytes.
func (r Range) Len() int64 { return r.To - r.From }

// ranges is a set of bytes: sorted, disjoint, not adjacent, and none empty.
type ranges []Range

// union returns the set of ranges in any order.
func union(list []Range) ranges {
	sorted := slices.DeleteFunc(slices.Clone(list), func(r Range) bool { return r.Len() <= 0 })
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	return ranges(sorted).joined(0)
}

// joined merges ranges that are at most gap bytes apart.
func (s ranges) joined(gap int64) ranges {
	var out ranges
	for _, r := range s {
		if n := len(out); n > 0 && r.From-out[n-1].To <= gap {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// without returns what is in s but not in other.
func (s ranges) without(other ranges) ranges {
	var out ranges
	index := 0
	for _, r := range s {
		// Ranges before r are also before everything that follows.
		for index < len(other) && other[index].To <= r.From {
			index++
		}
		for i := index; i < len(other) && other[i].From < r.To; i++ {
			if other[i].From > r.From {
				out = append(out, Range{r.From, other[i].From})
			}
			r.From = other[i].To
		}
		if r.Len() > 0 {
			out = append(out, r)
		}
	}
	return out
}

// cut splits ranges into pieces of at most size bytes.
func (s ranges) cut(size int64) ranges {
	var out ranges
	for _, r := range s {
		for ; r.Len() > size; r.From += size {
			out = append(out, Range{r.From, r.From + size})
		}
		out = append(out, r)
	}
	return out
}

func (s ranges) bytes() (n int64) {
	for _, r := range s {
		n += r.Len()
	}
	return n
}
