package tokenizer

import (
	"hash/maphash"
	"sync"
	"unicode/utf8"
)

// model turns a stretch of text that the pre-tokenizers left into tokens.
type model interface {
	// encode appends the tokens of word.
	encode(ids []int32, word string) []int32
}

// words encodes by a model and keeps what it found for short words.
type words struct {
	model     model
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

func newWords(m model, byteLevel bool) *words {
	w := &words{model: m, byteLevel: byteLevel, seed: maphash.MakeSeed()}
	for i := range w.cache {
		w.cache[i].words = make(map[string][]int32)
	}
	return w
}

// append appends the tokens of word.
func (w *words) append(ids []int32, word string) []int32 {
	if len(word) > maxCachedBytes {
		return w.encode(ids, word)
	}
	shard := &w.cache[maphash.String(w.seed, word)%cacheShards]
	shard.RLock()
	got, ok := shard.words[word]
	shard.RUnlock()
	if ok {
		return append(ids, got...)
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

func (w *words) encode(ids []int32, word string) []int32 {
	if w.byteLevel {
		word = levelled(word)
	}
	return w.model.encode(ids, word)
}

// levelled writes the bytes of s in the byte-level alphabet.
func levelled(s string) string {
	out := make([]byte, 0, 2*len(s))
	for i := 0; i < len(s); i++ {
		out = utf8.AppendRune(out, byteToRune[s[i]])
	}
	return string(out)
}

// byteToRune is GPT-2's byte-level alphabet: printable bytes stand for
// themselves, the others for U+0100 and on. runeToByte is its inverse.
var byteToRune, runeToByte = func() (to [256]rune, from map[rune]byte) {
	from = make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range to {
		r := rune(b)
		if printable := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE; !printable {
			r = next
			next++
		}
		to[b] = r
		from[r] = byte(b)
	}
	return to, from
}()

// byteTokens are the tokens <0x00> to <0xFF>, which stand for the bytes of characters outside a vocabulary; -1 where
// one is not in it.
type byteTokens [256]int32

func newByteTokens(vocab map[string]int32) *byteTokens {
	t := new(byteTokens)
	for b := range t {
		id, ok := vocab[byteToken(byte(b))]
		if !ok {
			id = -1
		}
		t[b] = id
	}
	return t
}

func byteToken(b byte) string {
	const hex = "0123456789ABCDEF"
	return "<0x" + string(hex[b>>4]) + string(hex[b&15]) + ">"
}

// have reports whether there is a token for each byte of s.
func (t *byteTokens) have(s string) bool {
	if t == nil {
		return false
	}
	for i := 0; i < len(s); i++ {
		if t[s[i]] < 0 {
			return false
		}
	}
	return true
}

func (t *byteTokens) append(ids []int32, s string) []int32 {
	for i := 0; i < len(s); i++ {
		ids = append(ids, t[s[i]])
	}
	return ids
}
