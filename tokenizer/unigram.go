package tokenizer

import (
	"errors"
	"math"
	"sync"
	"unicode/utf8"
)

// unigram cuts a text into the pieces whose scores have the greatest sum (Viterbi's algorithm), as SentencePiece's and
// Hugging Face tokenizers' Unigram models do. What is in no piece is unknown, at a price.
type unigram struct {
	trie       trie
	scores     []float64 // by id; of pieces that the trie has
	unk        int32
	unkScore   float64
	single     bool // sums are kept in single precision, as SentencePiece does
	byteTokens *byteTokens
	ids        map[string]int32

	work sync.Pool // *[]bestPath
}

// unkPenalty is how much worse than the worst piece an unknown character is.
const unkPenalty = 10

var errNoUnknown = errors.New("a Unigram vocabulary needs an unknown token")

// newUnigram indexes the pieces that text can have, by id. lowest is the lowest score of the vocabulary.
func newUnigram(pieces map[string]int32, scores []float64, unk int32, lowest float64, single bool) *unigram {
	m := &unigram{trie: newPieceTrie(pieces), ids: pieces, scores: scores, unk: unk, unkScore: lowest - unkPenalty,
		single: single}
	if single {
		m.unkScore = float64(float32(m.unkScore))
	}
	m.work.New = func() any { return new([]bestPath) }
	return m
}

// bestPath is the best way found to a place in the text.
type bestPath struct {
	score float64
	start int32 // where its last piece begins, -1 where there is no way yet
	id    int32
}

func (m *unigram) encode(ids []int32, text string) []int32 {
	work := m.work.Get().(*[]bestPath)
	defer m.work.Put(work)
	best := m.search(*work, text)
	*work = best
	// The path is followed from its end, so that its pieces come out in the wrong order.
	type stretch struct{ start, end, id int32 }
	var path []stretch
	for end := int32(len(text)); end > 0; end = best[end].start {
		b := best[end]
		if n := len(path); b.id == m.unk && n > 0 && path[n-1].id == m.unk { // a run of unknown text is one
			path[n-1].start = b.start
			continue
		}
		path = append(path, stretch{b.start, end, b.id})
	}
	for i := len(path) - 1; i >= 0; i-- {
		ids = m.appendPiece(ids, text[path[i].start:path[i].end], path[i].id)
	}
	return ids
}

func (m *unigram) search(best []bestPath, text string) []bestPath {
	best = append(best[:0], bestPath{})
	for range len(text) {
		best = append(best, bestPath{start: -1})
	}
	for at := 0; at < len(text); {
		_, char := utf8.DecodeRuneInString(text[at:])
		here, alone := best[at].score, false
		m.trie.prefixes(text[at:], func(length int, id int32) {
			m.improve(&best[at+length], here+m.scores[id], at, id)
			alone = alone || length == char
		})
		if !alone {
			m.improve(&best[at+char], here+m.unkScore, at, m.unk)
		}
		at += char
	}
	return best
}

func (m *unigram) improve(to *bestPath, score float64, start int, id int32) {
	if m.single {
		score = float64(float32(score))
	}
	if to.start >= 0 && score <= to.score {
		return
	}
	*to = bestPath{score, int32(start), id}
}

func (m *unigram) appendPiece(ids []int32, text string, id int32) []int32 {
	if id != m.unk {
		return append(ids, id)
	}
	if id, ok := m.ids[text]; ok { // unknown characters that are a piece together
		return append(ids, id)
	}
	if m.byteTokens.have(text) {
		return m.byteTokens.append(ids, text)
	}
	return append(ids, m.unk)
}

// lowestScore returns the lowest of scores that counts says to look at; 0 for none.
func lowestScore(scores []float64, counts func(id int) bool) float64 {
	lowest := math.Inf(1)
	for id, s := range scores {
		if counts(id) && s < lowest {
			lowest = s
		}
	}
	if math.IsInf(lowest, 1) {
		return 0
	}
	return lowest
}

func newPieceTrie(pieces map[string]int32) trie {
	t := newTrie(2 * len(pieces))
	for piece, id := range pieces {
		t.add(piece, id)
	}
	return t
}
