package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// wordPiece is BERT's model: of each word the longest token that it begins with, then the longest continuation of that,
// and so on; the unknown token for the whole word where there is none.
type wordPiece struct {
	vocab     map[string]int32
	prefix    string // of tokens that continue a word
	longest   int    // bytes of the longest token
	unk       int32
	mostChars int // words with more characters are unknown
}

func newWordPiece(vocab map[string]int32, unk, prefix string, mostChars int) (*wordPiece, error) {
	m := &wordPiece{vocab: vocab, prefix: prefix, mostChars: mostChars}
	var ok bool
	if m.unk, ok = vocab[unk]; !ok {
		return nil, fmt.Errorf("unk_token %q is not in the vocabulary", unk)
	}
	for token := range vocab {
		m.longest = max(m.longest, len(token))
	}
	return m, nil
}

func (m *wordPiece) encode(ids []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > m.mostChars {
		return append(ids, m.unk)
	}
	n := len(ids)
	for start := 0; start < len(word); {
		id, end := m.first(word, start)
		if end < 0 {
			return append(ids[:n], m.unk)
		}
		ids, start = append(ids, id), end
	}
	return ids
}

// first returns the longest token at start, and where it ends: -1 for none.
func (m *wordPiece) first(word string, start int) (id int32, end int) {
	prefix := ""
	if start > 0 {
		prefix = m.prefix
	}
	end = len(word)
	for end-start > m.longest-len(prefix) && end > start {
		_, n := utf8.DecodeLastRuneInString(word[start:end])
		end -= n
	}
	text := []byte(prefix + word[start:end])
	for len(text) > len(prefix) {
		if id, ok := m.vocab[string(text)]; ok {
			return id, start + len(text) - len(prefix)
		}
		_, n := utf8.DecodeLastRune(text)
		text = text[:len(text)-n]
	}
	return 0, -1
}
