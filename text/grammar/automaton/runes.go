package automaton

import (
	"slices"
	"unicode/utf8"
)

// span is a range of bytes.
type span struct{ lo, hi byte }

// Runes is any one character of the ranges, as UTF-8. Ranges are pairs of a first and a last character. Surrogates are
// not characters.
func (b *Builder) Runes(ranges ...rune) Expr {
	var all [][]span
	for i := 0; i+1 < len(ranges); i += 2 {
		all = appendRange(all, ranges[i], ranges[i+1])
	}
	return b.sequences(all)
}

// appendRange appends the sequences of bytes that UTF-8 has for a range.
func appendRange(to [][]span, lo, hi rune) [][]span {
	if lo > hi || lo > utf8.MaxRune {
		return to
	}
	hi = min(hi, utf8.MaxRune)
	if lo <= 0xDFFF && hi >= 0xD800 {
		to = appendRange(to, lo, min(hi, 0xD7FF))
		return appendRange(to, max(lo, 0xE000), hi)
	}
	for _, end := range []rune{0x7F, 0x7FF, 0xFFFF} { // of the same length
		if lo <= end && hi > end {
			return appendRange(appendRange(to, lo, end), end+1, hi)
		}
	}
	if hi < 0x80 {
		return append(to, []span{{byte(lo), byte(hi)}})
	}
	for i := 1; i < 4; i++ { // whole blocks of the bytes that follow
		m := rune(1)<<(6*i) - 1
		if lo&^m == hi&^m {
			break
		}
		if lo&m != 0 {
			return appendRange(appendRange(to, lo, lo|m), (lo|m)+1, hi)
		}
		if hi&m != m {
			return appendRange(appendRange(to, lo, (hi&^m)-1), hi&^m, hi)
		}
	}
	var x, y [4]byte
	n := utf8.EncodeRune(x[:], lo)
	utf8.EncodeRune(y[:], hi)
	seq := make([]span, n)
	for i := range seq {
		seq[i] = span{x[i], y[i]}
	}
	return append(to, seq)
}

// sequences is any one of some sequences of bytes. Common prefixes are shared, and common rests are one expression.
func (b *Builder) sequences(all [][]span) Expr {
	groups := map[span][][]span{}
	var order []span
	for _, s := range all {
		if len(s) == 0 {
			return Empty // in UTF-8 no sequence is a prefix of another
		}
		if _, ok := groups[s[0]]; !ok {
			order = append(order, s[0])
		}
		groups[s[0]] = append(groups[s[0]], s[1:])
	}
	first := map[Expr]*byteSet{}
	var tails []Expr
	for _, s := range order {
		tail := b.sequences(groups[s])
		if first[tail] == nil {
			first[tail] = &byteSet{}
			tails = append(tails, tail)
		}
		first[tail].add(s.lo, s.hi)
	}
	slices.Sort(tails)
	var alts []Expr
	for _, t := range tails {
		alts = append(alts, b.seq(b.sets.expr(*first[t]), t))
	}
	return b.Alt(alts...)
}
