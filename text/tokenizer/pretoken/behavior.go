package pretoken

import (
	"strings"
	"unicode/utf8"
)

// span is a match, [start, end) in bytes.
type span struct{ start, end int }

func findAll(s, pattern string) []span {
	if pattern == "" {
		return nil
	}
	var spans []span
	for offset := 0; ; {
		i := strings.Index(s[offset:], pattern)
		if i < 0 {
			return spans
		}
		spans = append(spans, span{offset + i, offset + i + len(pattern)})
		offset += i + len(pattern)
	}
}

// spansOf returns a span for each character for which matches reports true.
func spansOf(s string, matches func(rune) bool) []span {
	var spans []span
	for i, r := range s {
		if matches(r) {
			spans = append(spans, span{i, i + utf8.RuneLen(r)})
		}
	}
	return spans
}

// behavior is what happens to the matches of a split (SplitDelimiterBehavior).
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// apply splits p at the matches (in order, not overlapping).
func (b behavior) apply(out []Piece, p Piece, matches []span, invert bool) []Piece {
	type part struct {
		span
		match bool
	}
	parts := make([]part, 0, 2*len(matches)+1)
	offset := 0
	for _, m := range matches {
		if offset < m.start {
			parts = append(parts, part{span{offset, m.start}, invert})
		}
		parts = append(parts, part{m, !invert})
		offset = m.end
	}
	if offset < len(p.Text) {
		parts = append(parts, part{span{offset, len(p.Text)}, invert})
	}

	var kept []part
	switch b {
	case isolated:
		kept = parts
	case removed:
		for _, q := range parts {
			if !q.match {
				kept = append(kept, q)
			}
		}
	case contiguous, mergedWithPrevious:
		for i, q := range parts {
			join := i > 0 && (b == contiguous && q.match == parts[i-1].match ||
				b == mergedWithPrevious && q.match && !parts[i-1].match)
			if join {
				kept[len(kept)-1].end = q.end
			} else {
				kept = append(kept, q)
			}
		}
	case mergedWithNext:
		for i, q := range parts {
			if i > 0 && !q.match && parts[i-1].match {
				kept[len(kept)-1].end = q.end
			} else {
				kept = append(kept, q)
			}
		}
	}
	for _, q := range kept {
		if q.start < q.end {
			out = append(out, Piece{p.Text[q.start:q.end], p.atStart && q.start == 0})
		}
	}
	return out
}
