package schedule

import (
	"container/list"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

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
