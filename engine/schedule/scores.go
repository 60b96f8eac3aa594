package schedule

import (
	"container/list"
	"math"
	"slices"

	"github.com/quire/quire/prefix"
)

// Scores are how likely the tokens of a prompt are, each behind those before it: natural logarithms.
type Scores struct {
	Logprobs []float32 // by token; NaN for the first, which nothing comes before
	// TopIDs and TopLogprobs are of the likeliest tokens there, the likeliest first; none for the first token of the
	// prompt. They are nil where none are asked for.
	TopIDs      [][]int32
	TopLogprobs [][]float32

	have    []bool
	settled int // pages that the cache of scores has been given
}

// newScores are those of so many tokens with so many of the likeliest each: none is known but that of the first.
func newScores(tokens, tops int) *Scores {
	s := &Scores{Logprobs: slices.Repeat([]float32{float32(math.NaN())}, tokens), have: make([]bool, tokens)}
	s.have[0] = true
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

// set notes the score of a token, unless it is known: those who have a completion read it then.
func (s *Scores) set(at int, logprob float32, ids []int32, logprobs []float32) {
	if s.have[at] {
		return
	}
	s.have[at], s.Logprobs[at] = true, logprob
	if s.TopIDs != nil {
		copy(s.TopIDs[at], ids)
		copy(s.TopLogprobs[at], logprobs)
	}
}

// take notes the scores of tokens 1 to last as another prompt has them that begins with the same tokens.
func (s *Scores) take(from *Scores, last int) {
	for i := 1; i <= last; i++ {
		if from.TopIDs == nil {
			s.set(i, from.Logprobs[i], nil, nil)
		} else {
			s.set(i, from.Logprobs[i], from.TopIDs[i], from.TopLogprobs[i])
		}
	}
}

// notNumbers says that some of the scores are not numbers.
func (s *Scores) notNumbers() bool {
	return slices.ContainsFunc(s.Logprobs[1:], func(l float32) bool { return math.IsNaN(float64(l)) })
}

// scoreBytes bounds the memory of a scoreCache.
const scoreBytes = 64 << 20

// scoreCache has the scores of the tokens of pages, by the names of these. The scores used longest ago go first.
//
// Prompts that are scored with different numbers of the likeliest tokens have other names for their pages.
type scoreCache struct {
	pageSize    int
	bytes, most int64
	byName      map[prefix.Hash]*list.Element
	order       *list.List // of *pageScores: the ones used last come first
}

type pageScores struct {
	name   prefix.Hash
	scores *Scores // of the page's tokens
	bytes  int64
}

func newScoreCache(pageSize int, most int64) *scoreCache {
	return &scoreCache{pageSize: pageSize, most: most, byName: map[prefix.Hash]*list.Element{}, order: list.New()}
}

// known returns the scores of the pages of chain, from its begin to the first whose scores are not there.
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

// add takes in the scores of the pages of chain that are known and were not given before.
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
		p.bytes = int64(4*c.pageSize) + 200 // with what names it
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

// takePages notes the scores of the first pages of a prompt.
func (s *Scores) takePages(pages []*Scores, pageSize int) {
	for p, page := range pages {
		for i := range page.Logprobs {
			at := p*pageSize + i
			switch {
			case at >= len(s.have):
				return
			case page.TopIDs == nil:
				s.set(at, page.Logprobs[i], nil, nil)
			default:
				s.set(at, page.Logprobs[i], page.TopIDs[i], page.TopLogprobs[i])
			}
		}
	}
}

// tops is how many of the likeliest tokens are told with each of the prompt.
func (r *Request) tops() int { return max(0, r.Score-1) }

// takes is how many tokens a clone takes over where it has n in common with a row. Where the prompt is scored it runs
// the last of these itself: from that its own next token is scored, which the row may not have.
func (s Sizes) takes(r *Request, n int) int {
	if r.Score == 0 {
		return n
	}
	return s.begin(max(0, n-1))
}

// begin is how many of the first n tokens of a row that has more another row may begin with.
func (s Sizes) begin(n int) int {
	if s.States {
		n -= n % s.PageSize
	}
	return n
}

// placed is the tokens that the row runs; where it is scored with the one behind them, which is scored from the last.
func (p *prefixRow) placed() []int32 {
	if p.score > 0 {
		return p.tokens[:len(p.tokens)+1]
	}
	return p.tokens
}

// seedOf begins the names of the pages of a prompt. Where it is scored, pages have names of their own, so that all that
// have such a name were scored; so have those of other keys.
func (s *scheduler) seedOf(r *Request) prefix.Hash {
	seed := s.cfg.PrefixSeed
	if r.Short {
		seed = ShortSeed(seed)
	}
	if r.Score == 0 {
		return seed
	}
	return prefix.Chain(seed, []int32{-1, int32(r.Score)}, 2)[0]
}

// ShortSeed begins the names of pages of [Request.Short], given that of others.
func ShortSeed(seed prefix.Hash) prefix.Hash { return prefix.Chain(seed, []int32{-2}, 1)[0] }

// beginOf returns the pages on the device that a prompt begins with, and, where it is scored, the scores that it takes
// over: these are known for the pages, and for the first token behind them, which the prompt does not score itself.
func (s *scheduler) beginOf(chain []prefix.Hash, score int) (pages []int32, scores []*Scores) {
	pages = s.named(chain)
	if score == 0 {
		return pages, nil
	}
	scores = s.scores.known(chain[:min(len(chain), len(pages)+1)])
	return pages[:min(len(pages), max(0, len(scores)-1))], scores
}

// takenFrom is where a row gets the scores of the tokens that it takes over: of another row, or of pages.
type takenFrom struct {
	row   *Scores
	pages []*Scores
}

// fill notes the scores of the held tokens that a row took over.
func (f takenFrom) fill(s *Scores, held, pageSize int) {
	if f.row != nil {
		s.take(f.row, held)
	} else if held > 0 {
		s.takePages(f.pages, pageSize)
	}
}

// settleScores notes what a call scored, for those who ran the tokens and for those who took them over.
func (s *scheduler) settleScores(o *offer, owners []*sequence, got *Output) {
	var pages []*prefixRow // whose scores may be complete for more pages
	for _, p := range s.prefixes {
		if p != nil && p.opened && p.scores != nil {
			pages = append(pages, p)
		}
	}
	tops := 0
	if n := len(got.Scores.Logprobs); n > 0 {
		tops = len(got.Scores.TopIDs) / n
	}
	for i := range scoredCount(&got.Scores) {
		var to *Scores
		if id := int(got.Scores.Owners[i]); id < len(owners) && owners[id] != nil {
			to = owners[id].group.scores
		} else if row := id - s.WaitingLen(); row >= s.Slots && s.prefixes[row-s.Slots] != nil {
			to = s.prefixes[row-s.Slots].scores
		}
		if at := int(got.Scores.Positions[i]) + 1; to != nil && at < len(to.have) {
			ids, logprobs := got.Scores.TopIDs[i*tops:(i+1)*tops], got.Scores.TopLogprobs[i*tops:(i+1)*tops]
			to.set(at, got.Scores.Logprobs[i], ids, logprobs)
		}
	}
	for i, p := range o.ahead { // sources come first
		if got.Opened[i] != 0 && p.scores != nil {
			p.from.fill(p.scores, p.held, s.PageSize)
			p.from = takenFrom{}
		}
	}
	for i, q := range o.waiting {
		if g := q.group; i >= o.resumed && got.Placed[i] >= 0 && g.scores != nil {
			g.from.fill(g.scores, g.held, s.PageSize)
		}
	}
	if s.index == nil {
		return
	}
	for _, p := range pages {
		s.scores.add(p.chain, p.scores)
	}
	for _, q := range owners {
		if q != nil && q.group.scores != nil {
			s.scores.add(q.group.chain, q.group.scores)
		}
	}
}
