package schedule

import (
	"container/list"
	"math"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// Scores are the natural logarithms of the probability of each prompt token given the tokens before it.
type Scores struct {
	Logprobs []float32 // by token; NaN for the first, which follows nothing, and for those before Request.ScoreFrom
	// TopIDs and TopLogprobs are the likeliest tokens at each place, most likely first, and none for the first token
	// of the prompt. They are nil if the request asks for none.
	TopIDs      [][]int32
	TopLogprobs [][]float32

	// have reports by token whether its score is known. A known score is never written again: completions that came
	// out share these arrays, and their readers take no lock.
	have  []bool
	first int // the first token with a score
	// settled counts the first pages whose scores the cache of scores has received.
	settled int
}

// newScores returns scores with the given number of likeliest tokens, of the tokens from one on. Those before it, and
// the first token, are known to have none.
func newScores(tokens, tops, from int) *Scores {
	s := &Scores{Logprobs: slices.Repeat([]float32{float32(math.NaN())}, tokens), have: make([]bool, tokens),
		first: max(1, from)}
	for i := range s.first {
		s.have[i] = true
	}
	if tops > 0 {
		s.TopIDs, s.TopLogprobs = make([][]int32, tokens), make([][]float32, tokens)
		ids, logprobs := make([]int32, (tokens-1)*tops), make([]float32, (tokens-1)*tops)
		s.TopIDs[0], s.TopLogprobs[0] = []int32{}, []float32{}
		for i := 1; i < tokens; i++ {
			from, to := (i-1)*tops, i*tops
			s.TopIDs[i], s.TopLogprobs[i] = ids[from:to:to], logprobs[from:to:to]
		}
	}
	return s
}

// set records the score of a token unless it is known.
func (s *Scores) set(token int, logprob float32, ids []int32, logprobs []float32) {
	if s.have[token] {
		return
	}
	s.have[token], s.Logprobs[token] = true, logprob
	if s.TopIDs != nil {
		copy(s.TopIDs[token], ids)
		copy(s.TopLogprobs[token], logprobs)
	}
}

// copyToken copies the score of a token from another prompt.
func (s *Scores) copyToken(token int, from *Scores, place int) {
	if from.TopIDs == nil {
		s.set(token, from.Logprobs[place], nil, nil)
	} else {
		s.set(token, from.Logprobs[place], from.TopIDs[place], from.TopLogprobs[place])
	}
}

// notNumbers reports whether some of the scores are not numbers.
func (s *Scores) notNumbers() bool {
	return slices.ContainsFunc(s.Logprobs[s.first:], func(l float32) bool { return math.IsNaN(float64(l)) })
}

// inheritedScores is the source of the scores of tokens that a row does not run: another row, or named pages.
type inheritedScores struct {
	row   *Scores
	pages []*Scores
}

// fill records the scores of the first held tokens, and of the token after them: the row or the pages ran the token
// before it.
func (f inheritedScores) fill(s *Scores, held, pageSize int) {
	if f.row != nil {
		for i := 1; i <= held; i++ {
			s.copyToken(i, f.row, i)
		}
		return
	}
	if held == 0 {
		return
	}
	for p, page := range f.pages {
		for i := range page.Logprobs {
			token := p*pageSize + i
			if token >= len(s.have) {
				return
			}
			s.copyToken(token, page, i)
		}
	}
}

// scoreBytes bounds the memory of a scoreCache.
const scoreBytes = 64 << 20

// scoreCache holds the scores of the tokens of pages by the names of the pages. It drops the least recently used.
//
// Pages of prompts that ask for different numbers of likeliest tokens have different names.
type scoreCache struct {
	pageSize    int
	bytes, most int64 // held, and the bound
	byName      map[prefix.Hash]*list.Element
	order       *list.List // of *pageScores, most recently used first
}

type pageScores struct {
	name   prefix.Hash
	scores *Scores // scores of the page's tokens; read-only
	bytes  int64
}

func newScoreCache(pageSize int, most int64) *scoreCache {
	return &scoreCache{pageSize: pageSize, most: most, byName: map[prefix.Hash]*list.Element{}, order: list.New()}
}

// known returns the scores of the first pages of a chain, up to the first page whose scores are not there.
func (c *scoreCache) known(chain []prefix.Hash) (pages []*Scores) {
	for _, name := range chain {
		e := c.byName[name]
		if e == nil {
			break
		}
		c.order.MoveToFront(e)
		pages = append(pages, e.Value.(*pageScores).scores)
	}
	return pages
}

// add takes the scores of the pages of a chain that are complete and that it was not given before.
func (c *scoreCache) add(chain []prefix.Hash, s *Scores) {
	for ; s.settled < len(chain); s.settled++ {
		from, to := s.settled*c.pageSize, (s.settled+1)*c.pageSize
		if slices.Contains(s.have[from:to], false) {
			return
		}
		name := chain[s.settled]
		if c.byName[name] != nil {
			continue
		}
		p := &pageScores{name: name, scores: &Scores{Logprobs: slices.Clone(s.Logprobs[from:to])}}
		p.bytes = int64(4*c.pageSize) + 200 // the scores, and their entry in the cache
		if s.TopIDs != nil {
			for i := from; i < to; i++ {
				p.scores.TopIDs = append(p.scores.TopIDs, slices.Clone(s.TopIDs[i]))
				p.scores.TopLogprobs = append(p.scores.TopLogprobs, slices.Clone(s.TopLogprobs[i]))
				p.bytes += int64(8*len(s.TopIDs[i])) + 48
			}
		}
		c.byName[name] = c.order.PushFront(p)
		for c.bytes += p.bytes; c.bytes > c.most; {
			last := c.order.Remove(c.order.Back()).(*pageScores)
			delete(c.byName, last.name)
			c.bytes -= last.bytes
		}
	}
}
