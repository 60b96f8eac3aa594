package model

import (
	"cmp"
	"slices"
	"sync"
	"unicode/utf8"
)

// Scored is byte-pair encoding as in SentencePiece, llama.cpp and tiktoken: it starts from single characters and joins
// the neighbours whose joint text is the token of the best score, leftmost first. There are no merges.
type scored struct {
	ScoredOptions
	vocab map[string]int32
	kinds []PieceKind // by id; unused tokens are only steps on the way to others
	rank  []int32     // by id: 0 has the best score
	size  []int32     // by id: bytes

	work sync.Pool // *scoredWork
}

// ScoredOptions are the properties of a model that its vocabulary does not determine.
type ScoredOptions struct {
	Unknown      int32 // the unknown token; if it is -1 characters outside the vocabulary are dropped
	FuseUnknown  bool  // a run of unknown characters is one token
	IgnoreMerges bool  // a word that is in the vocabulary is that token
	Bytes        *ByteTokens
	Frozen       func(text string) int // the length of the prefix that must stay a token; may be nil
}

// PieceKind is SentencePiece's kind of a piece. GGUF files use the same numbers.
type PieceKind uint8

const (
	NormalPiece  PieceKind = 1
	UnknownPiece PieceKind = 2
	ControlPiece PieceKind = 3
	UserPiece    PieceKind = 4
	unusedPiece  PieceKind = 5
	BytePiece    PieceKind = 6
)

// inText reports whether ordinary text can become a piece of this kind.
func (k PieceKind) inText() bool { return k == NormalPiece || k == UserPiece || k == unusedPiece }

// NewScored indexes tokens. If kinds is empty all tokens are normal.
func NewScored(tokens []string, scores []float32, kinds []PieceKind, o ScoredOptions) *scored {
	m := &scored{ScoredOptions: o, vocab: make(map[string]int32, len(tokens)), kinds: kinds,
		rank: make([]int32, len(tokens)), size: make([]int32, len(tokens))}
	m.work.New = func() any { return new(scoredWork) }
	byScore := make([]int32, len(tokens))
	for id, token := range tokens {
		byScore[id] = int32(id)
		m.size[id] = int32(len(token))
		if len(kinds) == 0 || kinds[id].inText() {
			m.vocab[token] = int32(id)
		}
	}
	slices.SortFunc(byScore, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	for i, id := range byScore { // equal scores share a rank, so that the position decides
		if i > 0 && scores[id] == scores[byScore[i-1]] {
			m.rank[id] = m.rank[byScore[i-1]]
		} else {
			m.rank[id] = int32(i)
		}
	}
	return m
}

// scoredWork is the scratch memory of one encode.
type scoredWork struct {
	spans  []textSpan
	queue  []candidate
	halves map[int32]int32 // unused token -> where its right half begins, in bytes of the token
}

// textSpan is a node of the doubly linked list of spans that may become tokens.
type textSpan struct {
	start, end int32 // in bytes; equal once it is joined to the previous span
	prev, next int32
	frozen     bool
}

func (m *scored) encode(ids []int32, word string) []int32 {
	if m.IgnoreMerges {
		if id, ok := m.vocab[word]; ok {
			return append(ids, id)
		}
	}
	w := m.work.Get().(*scoredWork)
	defer m.work.Put(w)
	m.cut(w, word)
	m.join(w, word)
	unknown := false
	for i := int32(0); i >= 0 && int(i) < len(w.spans); i = w.spans[i].next {
		ids, unknown = m.resolve(w, ids, word[w.spans[i].start:w.spans[i].end], unknown)
	}
	return ids
}

// cut fills w.spans with the characters of word. Frozen texts stay whole.
func (m *scored) cut(w *scoredWork, word string) {
	w.spans, w.queue = w.spans[:0], w.queue[:0]
	for offset := 0; offset < len(word); {
		_, n := utf8.DecodeRuneInString(word[offset:])
		frozen := false
		if m.Frozen != nil {
			if end := m.Frozen(word[offset:]); end > 0 {
				n, frozen = end, true
			}
		}
		i := int32(len(w.spans))
		w.spans = append(w.spans, textSpan{int32(offset), int32(offset + n), i - 1, i + 1, frozen})
		offset += n
	}
	if n := len(w.spans); n > 0 {
		w.spans[n-1].next = -1
	}
}

func (m *scored) join(w *scoredWork, word string) {
	clear(w.halves)
	for i := range w.spans {
		m.offer(w, word, int32(i))
	}
	for len(w.queue) > 0 {
		var top candidate
		top, w.queue = popCandidate(w.queue)
		left := &w.spans[top.pos]
		if left.start == left.end || left.next < 0 {
			continue
		}
		right := &w.spans[left.next]
		// Either side may have been joined with another since this was queued.
		if right.end-left.start != m.size[top.id] {
			continue
		}
		left.end, right.start = right.end, right.end
		left.next = right.next
		if right.next >= 0 {
			w.spans[right.next].prev = top.pos
		}
		if left.prev >= 0 {
			m.offer(w, word, left.prev)
		}
		m.offer(w, word, top.pos)
	}
}

// offer queues joining the span at pos with the next one, if that is a token.
func (m *scored) offer(w *scoredWork, word string, pos int32) {
	left := &w.spans[pos]
	if left.next < 0 || left.frozen {
		return
	}
	right := &w.spans[left.next]
	id, ok := m.vocab[word[left.start:right.end]]
	if right.frozen || !ok {
		return
	}
	w.queue = pushCandidate(w.queue, candidate{m.rank[id], pos, id})
	if len(m.kinds) > 0 && m.kinds[id] == unusedPiece {
		if w.halves == nil {
			w.halves = make(map[int32]int32)
		}
		w.halves[id] = right.start - left.start
	}
}

// resolve appends the tokens of a span that was joined as far as possible: its own token, for an unused token the
// tokens it was joined from, and for text outside the vocabulary its bytes or the unknown token. unknown reports
// whether the previous span was unknown.
func (m *scored) resolve(w *scoredWork, ids []int32, text string, unknown bool) ([]int32, bool) {
	id, ok := m.vocab[text]
	if ok && len(m.kinds) > 0 && m.kinds[id] == unusedPiece {
		if half, joined := w.halves[id]; joined {
			ids, unknown = m.resolve(w, ids, text[:half], unknown)
			return m.resolve(w, ids, text[half:], unknown)
		}
		ok = false // a character by itself
	}
	switch {
	case ok:
		return append(ids, id), false
	case m.Bytes.have(text):
		return m.Bytes.append(ids, text), false
	case m.Unknown >= 0 && !(unknown && m.FuseUnknown):
		ids = append(ids, m.Unknown)
	}
	return ids, true
}
