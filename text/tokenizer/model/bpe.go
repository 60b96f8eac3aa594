package model

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// BPE is byte-pair encoding as Hugging Face tokenizers' BPE model has it: start from single characters, merge the pair
// of lowest rank, leftmost first.
type BPE struct {
	vocab        map[string]int32
	merges       map[uint64]merge
	unk          int32 // -1: characters outside the vocabulary are dropped
	fuseUnk      bool
	ignoreMerges bool        // a word that is in the vocabulary is that token
	byteTokens   *ByteTokens // nil: characters outside the vocabulary are not written in bytes

	work sync.Pool // *bpeWork
}

type merge struct{ rank, id int32 }

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// NewBPE indexes vocab and merges (in order of rank). Every merge must name tokens of vocab. byteFallback is the flag
// byte_fallback: the tokens <0x00> to <0xFF> stand for the bytes of characters outside the vocabulary.
func NewBPE(vocab map[string]int32, merges [][2]string, unk string, fuseUnk, byteFallback, ignoreMerges bool) (*BPE,
	error) {
	m := &BPE{vocab: vocab, unk: -1, fuseUnk: fuseUnk, ignoreMerges: ignoreMerges}
	m.work.New = func() any { return new(bpeWork) }
	if unk != "" {
		id, ok := vocab[unk]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", unk)
		}
		m.unk = id
	}
	if byteFallback {
		m.byteTokens = NewByteTokens(vocab)
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
	return m, nil
}

// bpeWork is the scratch memory of one encode.
type bpeWork struct {
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

func (m *BPE) encode(ids []int32, word string) []int32 {
	if m.ignoreMerges {
		if id, ok := m.vocab[word]; ok {
			return append(ids, id)
		}
	}
	w := m.work.Get().(*bpeWork)
	defer m.work.Put(w)
	m.split(w, word)
	m.merge(w)
	for i := int32(0); i >= 0 && int(i) < len(w.symbols); i = w.symbols[i].next {
		ids = append(ids, w.symbols[i].id)
	}
	return ids
}

// split fills w.symbols with one token for each character of word.
func (m *BPE) split(w *bpeWork, word string) {
	w.symbols = w.symbols[:0]
	add := func(id int32) {
		n := int32(len(w.symbols))
		w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: n + 1})
	}
	unknown := false // an unknown token is held back, so that fuse_unk can join runs
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		i += n
		if id, ok := m.vocab[char]; ok {
			if unknown {
				add(m.unk)
				unknown = false
			}
			add(id)
			continue
		}
		if m.byteTokens.have(char) {
			for _, b := range []byte(char) {
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

func (m *BPE) merge(w *bpeWork) {
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
		var top candidate
		top, w.queue = popCandidate(w.queue)

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

func (m *BPE) push(w *bpeWork, pos, a, b int32) {
	p, ok := m.merges[pairKey(a, b)]
	if !ok {
		return
	}
	w.queue = pushCandidate(w.queue, candidate{p.rank, pos, p.id})
}

// pushCandidate and popCandidate keep q a heap whose first candidate comes before all others.
func pushCandidate(q []candidate, c candidate) []candidate {
	q = append(q, c)
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	return q
}

func popCandidate(q []candidate) (candidate, []candidate) {
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	siftDown(q, 0)
	return top, q
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
