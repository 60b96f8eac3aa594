package tokenizer

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/text/tokenizer/pretoken"
)

// Span is the part of a text that a token stands for: the characters from Start to before End, as Hugging Face's
// tokenizers count them. The special tokens around a text stand for nothing.
type Span struct {
	Start, End int
	IsSpecial  bool
}

// ErrNoSpans means that it is not known which characters of a text the tokens stand for.
var ErrNoSpans = errors.New("which characters tokens stand for is known for WordPiece and byte-level BPE alone")

// EncodeSpans is Encode, with special tokens, and the span of each token. The text is valid UTF-8.
func (t *Tokenizer) EncodeSpans(text string) (ids []int32, spans []Span, err error) {
	add := func(id int32, s Span) { ids, spans = append(ids, id), append(spans, s) }
	addBytes := func(id int32, s Span) { add(id, t.trimmed(id, s, len(ids) == len(t.frame.before))) }
	for _, id := range t.frame.before {
		add(id, Span{IsSpecial: true})
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

// followed normalizes each character of a text by itself, and returns for each byte of the result the number of its
// character.
func (t *Tokenizer) followed(text string) (normalized string, origins []int) {
	var b strings.Builder
	character := 0
	for _, r := range text {
		one := t.normalized(string(r))
		b.WriteString(one)
		for range len(one) {
			origins = append(origins, character)
		}
		character++
	}
	return b.String(), origins
}
