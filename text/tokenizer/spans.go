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
var ErrNoSpans = errors.New("which characters tokens stand for is known for WordPiece alone")

// EncodeSpans is Encode, with special tokens, and the span of each token. The text is valid UTF-8.
func (t *Tokenizer) EncodeSpans(text string) (ids []int32, spans []Span, err error) {
	add := func(id int32, s Span) { ids, spans = append(ids, id), append(spans, s) }
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
				space := strings.Index(normalized[end:inner.end], p.Text)
				if space < 0 || strings.TrimSpace(normalized[end:end+space]) != "" {
					return nil, nil, ErrNoSpans
				}
				start := end + space
				end = start + len(p.Text)
				word := t.words.Append(nil, p.Text)
				lengths := t.words.Lengths(p.Text, word, t.Token)
				if len(lengths) != len(word) {
					return nil, nil, ErrNoSpans
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
