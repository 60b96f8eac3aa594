package pretoken

import "unicode"

// whitespaceOnly splits at white space, and drops it.
func whitespaceOnly(out []Piece, p Piece) ([]Piece, error) {
	return removed.apply(out, p, spansOf(p.Text, unicode.IsSpace), false), nil
}

// bertWords splits at white space, and makes each punctuation character a piece.
func bertWords(out []Piece, p Piece) ([]Piece, error) {
	words, err := whitespaceOnly(nil, p)
	for _, w := range words {
		out = isolated.apply(out, w, spansOf(w.Text, isBertPunctuation), false)
	}
	return out, err
}

// wordsAndSigns is the pre-tokenizer Whitespace: the matches of \w+|[^\w\s]+.
func wordsAndSigns(out []Piece, p Piece) ([]Piece, error) {
	kind := func(r rune) int {
		switch {
		case IsWordChar(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	start, last := 0, 0
	add := func(end int) {
		if last != 0 {
			out = append(out, Piece{p.Text[start:end], p.atStart && start == 0})
		}
	}
	for i, r := range p.Text {
		if k := kind(r); k != last {
			add(i)
			start, last = i, k
		}
	}
	add(len(p.Text))
	return out, nil
}
