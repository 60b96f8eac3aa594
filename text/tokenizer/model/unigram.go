package model

import (
	"errors"
	"math"
	"slices"
	"sync"
	"unicode/utf8"
)

// unigram splits a text into the pieces with the greatest sum of scores (Viterbi's algorithm), as the Unigram models of
// SentencePiece and Hugging Face tokenizers do. Characters in no piece are unknown, at a penalty.
type unigram struct {
	trie       Trie
	scores     []float64 // by id
	unk        int32
	unkScore   float64
	single     bool // sums are kept in single precision, as SentencePiece does
	byteTokens *ByteTokens
	ids        map[string]int32

	work sync.Pool // *[]bestPath
}

// unkPenalty is the difference between the scores of the worst piece and of an unknown character.
const unkPenalty = 10

var ErrNoUnknown = errors.New("a Unigram vocabulary needs an unknown token")

// indexUnigram indexes the pieces that text can have, by id. lowest is the lowest score of the vocabulary.
func indexUnigram(pieces map[string]int32, scores []float64, unk int32, lowest float64, single bool,
	bytes *ByteTokens) *unigram {
	m := &unigram{trie: newPieceTrie(pieces), ids: pieces, scores: scores, unk: unk, unkScore: lowest - unkPenalty,
		single: single, byteTokens: bytes}
	if single {
		m.unkScore = float64(float32(m.unkScore))
	}
	m.work.New = func() any { return new([]bestPath) }
	return m
}

// NewUnigram is the model of a tokenizer.json.
func NewUnigram(vocab map[string]int32, scores []float64, unk int32, bytes *ByteTokens) *unigram {
	return indexUnigram(vocab, scores, unk, lowestScore(scores, func(int) bool { return true }), false, bytes)
}

// NewPieceUnigram is the model of SentencePiece's pieces. User-defined pieces win over all others.
func NewPieceUnigram(
	pieces []string, scores []float64, kinds []PieceKind, unk int32, single bool, bytes *ByteTokens,
) *unigram {
	kind := func(id int) PieceKind {
		if len(kinds) == 0 {
			return NormalPiece
		}
		return kinds[id]
	}
	lowest := lowestScore(scores, func(id int) bool { return kind(id) == NormalPiece })
	highest := math.Inf(-1)
	ids, own := make(map[string]int32, len(pieces)), append([]float64(nil), scores...)
	for id := range pieces {
		if kind(id) == NormalPiece {
			highest = max(highest, scores[id])
		}
	}
	if math.IsInf(highest, -1) {
		highest = 0
	}
	for id, piece := range pieces {
		switch kind(id) {
		case NormalPiece:
			ids[piece] = int32(id)
		case UserPiece:
			ids[piece] = int32(id)
			own[id] = float64(float32(len(piece))*float32(highest)) - 0.1
		}
	}
	return indexUnigram(ids, own, unk, lowest, single, bytes)
}

// bestPath is the best path found to a position in the text.
type bestPath struct {
	score float64
	start int32 // where its last piece begins, -1 if there is no path yet
	id    int32
}

func (m *unigram) encode(ids []int32, text string) []int32 {
	for _, s := range m.path(text) {
		ids = m.appendPiece(ids, text[s.start:s.end], s.id)
	}
	return ids
}

// lengths returns how many bytes of a text each of its tokens stands for; nil if several stand for the same.
func (m *unigram) lengths(text string, tokens int) []int {
	path := m.path(text)
	if len(path) != tokens { // some are tokens of bytes
		return nil
	}
	lengths := make([]int, len(path))
	for i, s := range path {
		lengths[i] = int(s.end - s.start)
	}
	return lengths
}

// stretch is the part of a text that a piece stands for.
type stretch struct{ start, end, id int32 }

// path returns the pieces of a text.
func (m *unigram) path(text string) (path []stretch) {
	work := m.work.Get().(*[]bestPath)
	defer m.work.Put(work)
	best := m.search(*work, text)
	*work = best
	// The path is followed from its end, so its pieces are in reverse order.
	for end := int32(len(text)); end > 0; end = best[end].start {
		b := best[end]
		if n := len(path); b.id == m.unk && n > 0 && path[n-1].id == m.unk { // a run of unknown text is one piece
			path[n-1].start = b.start
			continue
		}
		path = append(path, stretch{b.start, end, b.id})
	}
	slices.Reverse(path)
	return path
}

func (m *unigram) search(best []bestPath, text string) []bestPath {
	best = append(best[:0], bestPath{})
	for range len(text) {
		best = append(best, bestPath{start: -1})
	}
	for start := 0; start < len(text); {
		_, char := utf8.DecodeRuneInString(text[start:])
		here, alone := best[start].score, false
		m.trie.prefixes(text[start:], func(length int, id int32) {
			m.improve(&best[start+length], here+m.scores[id], start, id)
			alone = alone || length == char
		})
		if !alone {
			m.improve(&best[start+char], here+m.unkScore, start, m.unk)
		}
		start += char
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
	if id, ok := m.ids[text]; ok { // the unknown characters together are a piece
		return append(ids, id)
	}
	if m.byteTokens.have(text) {
		return m.byteTokens.append(ids, text)
	}
	return append(ids, m.unk)
}

// lowestScore returns the lowest of the scores that count, or 0 if none does.
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

func newPieceTrie(pieces map[string]int32) Trie {
	t := NewTrie(2 * len(pieces))
	for piece, id := range pieces {
		t.Add(piece, id)
	}
	return t
}
