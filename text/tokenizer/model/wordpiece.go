package model

import (
	"fmt"
	"unicode/utf8"
)

// WordPiece is BERT's model. It takes the longest token that is a prefix of a word, then the longest continuation of
// it, and so on. If there is none the whole word is the unknown token.
type WordPiece struct {
	vocab     map[string]int32
	prefix    string // the prefix of tokens that continue a word
	longest   int    // bytes of the longest token
	unk       int32
	mostChars int // words with more characters are unknown
}

func NewWordPiece(vocab map[string]int32, unk, prefix string, mostChars int) (*WordPiece, error) {
	m := &WordPiece{vocab: vocab, prefix: prefix, mostChars: mostChars}
	var ok bool
	if m.unk, ok = vocab[unk]; !ok {
		return nil, fmt.Errorf("unk_token %q is not in the vocabulary", unk)
	}
	for token := range vocab {
		m.longest = max(m.longest, len(token))
	}
	return m, nil
}

func (m *WordPiece) encode(ids []int32, word string) []int32 {
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

// first returns the longest token at start and its end, which is -1 if there is none.
func (m *WordPiece) first(word string, start int) (id int32, end int) {
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

// lengths returns the bytes of a word that its tokens stand for; nil if these are not all.
func (m *WordPiece) lengths(word string, ids []int32, token func(int32) string) (all []int) {
	if len(ids) == 1 && ids[0] == m.unk {
		return []int{len(word)}
	}
	left := len(word)
	for i, id := range ids {
		n := len(token(id))
		if i > 0 {
			n -= len(m.prefix)
		}
		all, left = append(all, n), left-n
	}
	if left != 0 {
		return nil
	}
	return all
}
