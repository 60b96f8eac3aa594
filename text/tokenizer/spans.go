package tokenizer

import (
	"cmp"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/quire/quire/text/tokenizer/pretoken"
)

// Span is the part of a text that a token stands for: the characters from Start to before End, as Hugging Face's
// tokenizers count them. The special tokens around a text stand for nothing.
type Span struct {
	Start, End int
	IsSpecial  bool
}

// ErrNoSpans means that it is not known which characters of a text the tokens stand for.
var ErrNoSpans = errors.New("which characters tokens stand for is known for WordPiece, byte-level BPE and " +
	"XLM-R's Unigram alone")

// errControls is of texts whose control characters XLM-R's normalizer removes together with their neighbors.
var errControls = errors.New("which characters tokens stand for is not known for texts with control characters " +
	"other than tabs and line ends: remove them")

// EncodeSpans is Encode, with special tokens, and the span of each token. The text is valid UTF-8.
func (t *Tokenizer) EncodeSpans(text string) (ids []int32, spans []Span, err error) {
	add := func(id int32, s Span) { ids, spans = append(ids, id), append(spans, s) }
	addBytes := func(id int32, s Span) { add(id, t.trimmed(id, s, len(ids) == len(t.frame.before))) }
	for _, id := range t.frame.before {
		add(id, Span{IsSpecial: true})
	}
	marked := t.words.Marked()
	if marked && strings.ContainsFunc(text, isControl) {
		return nil, nil, errControls
	}
	for _, outer := range t.raw.split(nil, text, true) {
		first := utf8.RuneCountInString(text[:outer.start])
		if outer.token >= 0 {
			add(outer.token, Span{Start: first, End: first + utf8.RuneCountInString(text[outer.start:outer.end])})
			continue
		}
		normalized, origins := t.followed(outer.text)
		if normalized != t.normalized(outer.text) {
			return nil, nil, ErrNoSpans
		}
		// span is of bytes of the normalized text.
		span := func(from, to int) Span { return Span{Start: first + origins[from], End: first + origins[to-1] + 1} }
		for _, inner := range t.norm.split(nil, normalized, outer.atStart) {
			if inner.token >= 0 {
				add(inner.token, span(inner.start, inner.end))
				continue
			}
			pieces, err := pretoken.Split(t.pre, nil, inner.text, inner.atStart)
			if err != nil {
				return nil, nil, err
			}
			end := inner.start
			if marked {
				if err := t.addMarked(pieces, normalized[:inner.end], end, span, add); err != nil {
					return nil, nil, err
				}
				continue
			}
			for _, p := range pieces {
				own, added := p.Text, 0
				if t.words.ByteLevel() && !strings.HasPrefix(normalized[end:inner.end], own) {
					own, added = strings.TrimPrefix(own, " "), 1 // the pre-tokenizer added the space
				}
				space := strings.Index(normalized[end:inner.end], own)
				if space < 0 || strings.TrimSpace(normalized[end:end+space]) != "" || space > 0 && added > 0 {
					return nil, nil, ErrNoSpans
				}
				start := end + space
				end = start + len(own)
				word := t.words.Append(nil, p.Text)
				lengths := t.words.Lengths(p.Text, word, t.Token)
				if len(lengths) != len(word) || added > 0 && (len(own) == len(p.Text) || lengths[0] < 2) {
					return nil, nil, ErrNoSpans
				}
				if added > 0 {
					lengths[0]--
				}
				add := add
				if t.words.ByteLevel() {
					add = addBytes
				}
				for i, id := range word {
					add(id, span(start, start+lengths[i]))
					start += lengths[i]
				}
			}
		}
	}
	for _, id := range t.frame.after {
		add(id, Span{IsSpecial: true})
	}
	return ids, spans, nil
}

// trimmed is the span of a token of bytes, as the post-processor leaves it.
func (t *Tokenizer) trimmed(id int32, s Span, first bool) Span {
	if !t.frame.trim.spaces {
		return s
	}
	text := t.Token(id)
	if n := len(text) - len(strings.TrimLeft(text, spaceOfBytes)); n > 0 {
		n /= len(spaceOfBytes)
		if t.frame.trim.added && (first || s.Start == 0) {
			n--
		}
		s.Start = min(s.Start+n, s.End)
	}
	if n := (len(text) - len(strings.TrimRight(text, spaceOfBytes))) / len(spaceOfBytes); n > 0 && s.End >= n {
		s.End = max(s.End-n, s.Start)
	}
	return s
}

// spaceOfBytes is a space in the byte-level alphabet.
const spaceOfBytes = "\u0120"

// isControl reports whether a character is a control character other than a tab or line end.
func isControl(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) }

// addMarked adds the tokens of pieces with marks before words, which follow each other in text after its first bytes.
// span is of bytes of the text. Tokenizers whose marks stand for the spaces of the text are refused.
func (t *Tokenizer) addMarked(pieces []pretoken.Piece, text string, first int, span func(from, to int) Span,
	add func(id int32, s Span)) error {
	if words, err := pretoken.Split(t.pre, nil, "a  a", false); err != nil || len(words) != 2 {
		return cmp.Or(err, ErrNoSpans)
	}
	for _, p := range pieces {
		words := strings.TrimLeftFunc(text[first:], unicode.IsSpace)
		places, end := followMarks(p.Text, text, len(text)-len(words))
		if end < 0 {
			return ErrNoSpans
		}
		first = end
		word := t.words.Append(nil, p.Text)
		lengths, from := t.words.Lengths(p.Text, word, t.Token), 0
		if len(lengths) != len(word) {
			return ErrNoSpans
		}
		for i, id := range word {
			to := from + lengths[i]
			add(id, span(places[from], places[to-1]+1))
			from = to
		}
	}
	return nil
}

// followMarks returns the place in text of each byte of a piece that begins at start, and where it ends; -1 if it does
// not begin there. A mark at the beginning of a piece that the text does not have has the place of the character after
// it, as in Hugging Face's tokenizers.
func followMarks(piece, text string, start int) (places []int, end int) {
	at := start
	for i, r := range piece {
		own := string(r)
		switch {
		case strings.HasPrefix(text[at:], own):
			for k := range len(own) {
				places = append(places, at+k)
			}
			at += len(own)
			continue
		case own != spaceMark || at == len(text) || i > 0:
			return nil, -1
		}
		for range len(own) {
			places = append(places, at)
		}
	}
	return places, at
}

// followed normalizes each grapheme of a text by itself, and each run of spaces, and returns for each byte of the
// result the number of its character. If a grapheme or run becomes fewer characters, they are its first characters,
// but one for a run of spaces is the last one.
func (t *Tokenizer) followed(text string) (normalized string, origins []int) {
	var b strings.Builder
	character := 0
	add := func(s string, origin int) {
		b.WriteString(s)
		for range len(s) {
			origins = append(origins, origin)
		}
	}
	for rest := text; rest != ""; {
		if n := t.spaces(rest); n > 0 {
			run, before, after := rest[:n], "", ""
			if n < len(rest) {
				after = "a"
			}
			if len(rest) < len(text) {
				before = "a"
			}
			made := strings.TrimSuffix(strings.TrimPrefix(t.normalized(before+run+after), before), after)
			count, origin := utf8.RuneCountInString(run), 0
			if utf8.RuneCountInString(made) == 1 {
				if origin = count - 1; strings.HasSuffix(run, "\r\n") { // one grapheme
					origin--
				}
			}
			for _, r := range made {
				add(string(r), character+origin)
				origin = min(origin+1, count-1)
			}
			rest, character = rest[n:], character+count
			continue
		}
		grapheme, _, _, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		parts := make([]string, 0, 8) // of its characters
		for _, r := range grapheme {
			parts = append(parts, t.normalized(string(r)))
		}
		if whole := t.normalized(grapheme); whole == strings.Join(parts, "") {
			for i, part := range parts {
				add(part, character+i)
			}
		} else {
			i := 0
			for _, r := range whole {
				add(string(r), character+min(i, len(parts)-1))
				i++
			}
		}
		rest, character = rest[len(grapheme):], character+len(parts)
	}
	return b.String(), origins
}

// spaces returns how many bytes at the beginning of a text are a space, or become one.
func (t *Tokenizer) spaces(text string) (n int) {
	for i, r := range text {
		if r != ' ' && (r < utf8.RuneSelf && !unicode.IsSpace(r) || t.normalized("a"+string(r)+"a") != "a a") {
			return i
		}
		n = i + utf8.RuneLen(r)
	}
	return n
}
