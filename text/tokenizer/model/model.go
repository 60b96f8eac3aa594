// Package model has the models of tokenizers, which turn a piece of text into tokens: byte-pair encoding by merges
// (BPE) or by scores (Scored), Unigram and WordPiece.
package model

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"
)

// Model turns a piece of text, as the pre-tokenizers split it, into tokens.
type Model interface {
	// encode appends the tokens of word.
	encode(ids []int32, word string) []int32
}

// Words encodes with a model and caches the tokens of short words.
type Words struct {
	model     Model
	byteLevel bool // the model sees words in the byte-level alphabet

	cache [cacheShards]wordShard
	seed  maphash.Seed
}

const (
	cacheShards    = 16
	maxShardWords  = 8192
	maxCachedBytes = 64 // longer words are rarely seen twice
)

type wordShard struct {
	sync.RWMutex
	words map[string][]int32
}

func NewWords(m Model, byteLevel bool) *Words {
	w := &Words{model: m, byteLevel: byteLevel, seed: maphash.MakeSeed()}
	for i := range w.cache {
		w.cache[i].words = make(map[string][]int32)
	}
	return w
}

// Append appends the tokens of word.
func (w *Words) Append(ids []int32, word string) []int32 {
	if len(word) > maxCachedBytes {
		return w.encode(ids, word)
	}
	shard := &w.cache[maphash.String(w.seed, word)%cacheShards]
	shard.RLock()
	cached, ok := shard.words[word]
	shard.RUnlock()
	if ok {
		return append(ids, cached...)
	}
	n := len(ids)
	ids = w.encode(ids, word)
	kept := append([]int32(nil), ids[n:]...)
	// The key is copied: a substring would keep the caller's whole text alive.
	key := string(append([]byte(nil), word...))
	shard.Lock()
	if len(shard.words) >= maxShardWords {
		clear(shard.words)
	}
	shard.words[key] = kept
	shard.Unlock()
	return ids
}

func (w *Words) encode(ids []int32, word string) []int32 {
	if w.byteLevel {
		word = ToByteLevel(word)
	}
	return w.model.encode(ids, word)
}

// Lengths returns how many bytes of a word each of its tokens stands for, given the texts of tokens; nil if that is not
// known.
func (w *Words) Lengths(word string, ids []int32, token func(int32) string) []int {
	if m, ok := w.model.(*WordPiece); ok && !w.byteLevel {
		return m.lengths(word, ids, token)
	}
	if m, ok := w.model.(*unigram); ok && !w.byteLevel {
		return m.lengths(word, len(ids))
	}
	if !w.byteLevel {
		return nil
	}
	lengths, rest := make([]int, len(ids)), ToByteLevel(word)
	for i, id := range ids {
		var found bool
		if rest, found = strings.CutPrefix(rest, token(id)); !found { // as the unknown token
			return nil
		}
		lengths[i] = utf8.RuneCountInString(token(id)) // a character of this alphabet is a byte
	}
	return lengths
}

// Marked reports whether words have marks in place of spaces, as Unigram models have them.
func (w *Words) Marked() bool {
	_, is := w.model.(*unigram)
	return is
}

// ByteLevel reports whether the model sees words in the byte-level alphabet.
func (w *Words) ByteLevel() bool { return w.byteLevel }
