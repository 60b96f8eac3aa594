package tokenizer

import (
	"fmt"
	"hash/maphash"
	"sync"
	"unicode/utf8"
)

// bpe is byte-pair encoding as Hugging Face tokenizers' BPE model has it: start
// from single characters, merge the pair of lowest rank, leftmost first.
type bpe struct {
	vocab        map[string]int32
	merges       map[uint64]merge
	unk          int32 // -1: characters outside the vocabulary are dropped
	fuseUnk      bool
	ignoreMerges bool // a word that is in the vocabulary is that token
	byteTokens   *[256]int32

	cache [cacheShards]wordShard
	seed  maphash.Seed
	work  sync.Pool // *bpeWork
}

type merge struct{ rank, id int32 }

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// newBPE indexes vocab and merges (in order of rank). Every merge must name
// tokens of vocab. byteFallback is the byte_fallback flag: the tokens <0x00> to
// <0xFF> stand for the bytes of characters outside the vocabulary.
func newBPE(vocab map[string]int32, merges [][2]string, unk string, fuseUnk, byteFallback, ignoreMerges bool) (*bpe,
	error) {
	m := &bpe{vocab: vocab, unk: -1, fuseUnk: fuseUnk, ignoreMerges: ignoreMerges, seed: maphash.MakeSeed()}
	m.work.New = func() any { return new(bpeWork) }
	if unk != "" {
		id, ok := vocab[unk]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", unk)
		}
		m.unk = id
	}
	if byteFallback {
		m.byteTokens = new([256]int32)
		for b := range m.byteTokens {
			id, ok := vocab[fmt.Sprintf("<0x%02X>", b)]
			if !ok {
				id = -1
			}
			m.byteTokens[b] = id
		}
	}
	m.merges = make(map[uint64]merge, len(merges))
	for rank, p := range merges {
		a, okA := vocab[p[0]]
		b, okB := vocab[p[1]]
		ab, okAB := vocab[p[0]+p[1]]
		if !okA || !okB || !okAB {
			return nil, fmt.Errorf("merge %d joins %q and %q, but one of them or the result is not in the vocabulary",
				rank, p[0], p[1])
		}
		m.merges[pairKey(a, b)] = merge{int32(rank), ab}
	}
	for i := range m.cache {
		m.cache[i].words = make(map[string][]int32)
	}
	return m, nil
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

// appendWord appends the tokens of one piece of text. With byteLevel the piece
// is first written in the byte-level alphabet.
func (m *bpe) appendWord(ids []int32, word string, byteLevel bool) []int32 {
	if len(word) > maxCachedBytes {
		return m.encodeWord(ids, word, byteLevel)
	}
	shard := &m.cache[maphash.String(m.seed, word)%cacheShards]
	shard.RLock()
	got, ok := shard.words[word]
	shard.RUnlock()
	if ok {
		return append(ids, got...)
	}
	n := len(ids)
	ids = m.encodeWord(ids, word, byteLevel)
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

// bpeWork is the scratch memory of one encodeWord.
type bpeWork struct {
	text    []byte
	symbols []symbol
	queue   []candidate
}

// symbol is a node of the doubly linked list of tokens of a word.
type symbol struct {
	id         int32
	prev, next int32
	dead       bool
}

// candidate is a merge that was possible when it was queued.
type candidate struct {
	rank, pos, id int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.pos < d.pos
}

func (m *bpe) encodeWord(ids []int32, word string, byteLevel bool) []int32 {
	w := m.work.Get().(*bpeWork)
	defer m.work.Put(w)
	if byteLevel {
		w.text = w.text[:0]
		for i := 0; i < len(word); i++ {
			w.text = utf8.AppendRune(w.text, byteToRune[word[i]])
		}
	} else {
		w.text = append(w.text[:0], word...)
	}
	if m.ignoreMerges {
		if id, ok := m.vocab[string(w.text)]; ok {
			return append(ids, id)
		}
	}
	m.split(w)
	m.merge(w)
	for i := int32(0); i >= 0 && int(i) < len(w.symbols); i = w.symbols[i].next {
		ids = append(ids, w.symbols[i].id)
	}
	return ids
}

// split fills w.symbols with one token for each character of w.text.
func (m *bpe) split(w *bpeWork) {
	w.symbols = w.symbols[:0]
	add := func(id int32) {
		n := int32(len(w.symbols))
		w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: n + 1})
	}
	unknown := false // an unknown token waits, so that fuse_unk can join runs
	for i := 0; i < len(w.text); {
		_, n := utf8.DecodeRune(w.text[i:])
		char := w.text[i : i+n]
		i += n
		if id, ok := m.vocab[string(char)]; ok {
			if unknown {
				add(m.unk)
				unknown = false
			}
			add(id)
			continue
		}
		if m.byteTokens != nil && m.haveBytes(char) {
			for _, b := range char {
				add(m.byteTokens[b])
			}
			continue
		}
		if m.unk >= 0 {
			if unknown && !m.fuseUnk {
				add(m.unk)
			}
			unknown = true
		}
	}
	if unknown {
		add(m.unk)
	}
	if n := len(w.symbols); n > 0 {
		w.symbols[n-1].next = -1
	}
}

func (m *bpe) haveBytes(char []byte) bool {
	for _, b := range char {
		if m.byteTokens[b] < 0 {
			return false
		}
	}
	return true
}

func (m *bpe) merge(w *bpeWork) {
	s := w.symbols
	w.queue = w.queue[:0]
	for i := 0; i+1 < len(s); i++ {
		if p, ok := m.merges[pairKey(s[i].id, s[i+1].id)]; ok {
			w.queue = append(w.queue, candidate{p.rank, int32(i), p.id})
		}
	}
	for i := len(w.queue)/2 - 1; i >= 0; i-- {
		siftDown(w.queue, i)
	}
	for len(w.queue) > 0 {
		top := w.queue[0]
		last := len(w.queue) - 1
		w.queue[0] = w.queue[last]
		w.queue = w.queue[:last]
		siftDown(w.queue, 0)

		left := &s[top.pos]
		if left.dead || left.next < 0 {
			continue
		}
		right := &s[left.next]
		// Either side may have merged with another since this was queued.
		if p, ok := m.merges[pairKey(left.id, right.id)]; !ok || p.id != top.id {
			continue
		}
		left.id = top.id
		left.next = right.next
		right.dead = true
		if right.next >= 0 {
			s[right.next].prev = top.pos
		}
		if left.prev >= 0 {
			m.push(w, left.prev, s[left.prev].id, left.id)
		}
		if left.next >= 0 {
			m.push(w, top.pos, left.id, s[left.next].id)
		}
	}
}

func (m *bpe) push(w *bpeWork, pos, a, b int32) {
	p, ok := m.merges[pairKey(a, b)]
	if !ok {
		return
	}
	q := append(w.queue, candidate{p.rank, pos, p.id})
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	w.queue = q
}

func siftDown(q []candidate, i int) {
	for {
		c := 2*i + 1
		if c >= len(q) {
			return
		}
		if c+1 < len(q) && q[c+1].before(q[c]) {
			c++
		}
		if !q[c].before(q[i]) {
			return
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
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
