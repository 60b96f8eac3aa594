package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// family is a request on its way: the completions of one prompt.
//
// Where there are several, the prompt but for its last token is run once, in a row of its own (the holder). Each completion then starts
// as a clone of it: full pages are shared, the partial one is copied, and the last token of the prompt is run for each, which is
// what its first token is drawn from. So clones can start at any time while the holder stands, and there may be more of them than slots.
type family struct {
	req    *Request
	next   int // completions admitted so far
	held   int // tokens of the prompt that a holder runs for the clones; 0 = each completion runs the prompt itself
	holder int // its row; none if it has none now
	opened bool
	done   int // tokens that the holder has run
}

const none = -1

// sequence is one completion on its way.
type sequence struct {
	family     *family
	generation int
	row        int
	done       int // tokens of it in the cache, as the last call left it

	cancelled atomic.Bool // set by the drain at a stop string, read by the scheduler
	drain     drainState
}

// scheduler is the host's account of rows. Which completion gets which slot and when is decided on the device, call by call, from the
// line that the scheduler gives it.
type scheduler struct {
	e           *Engine
	freeHolders []int
	waiting     []*family // not all of their completions are admitted, in order
	holders     []*family // by row, from the slots on
	rows        []*sequence
	release     []bool // rows to free at the start of the next call
	active      int    // completions that run
}

// ErrStalled says that a call had work and did none of it: a fault of the engine.
var ErrStalled = errors.New("the engine makes no progress, please report this")

func newScheduler(e *Engine) *scheduler {
	p := e.plan
	s := &scheduler{e: e, rows: make([]*sequence, p.slots), release: make([]bool, p.rows()), holders: make([]*family, p.Holders)}
	for row := p.rows() - 1; row >= p.slots; row-- {
		s.freeHolders = append(s.freeHolders, row)
	}
	return s
}

// add takes in a request that was checked.
func (s *scheduler) add(r *Request) {
	f := &family{req: r, holder: none}
	p := s.e.plan
	if held := len(r.Tokens) - 1; r.N > 1 && held > 0 && p.layout.Paged && s.e.pagesAhead(r, held) <= p.Pages {
		f.held = held
	}
	s.waiting = append(s.waiting, f)
}

// pagesAhead is the pages for a holder of held tokens and its first clone: the clone shares full pages only.
func (e *Engine) pagesAhead(r *Request, held int) int {
	return ceilDiv(held, e.plan.PageSize) + e.pagesFor(e.maxLen(r)) - held/e.plan.PageSize
}

// wants says how many more requests the scheduler should look at.
func (s *scheduler) wants() int { return 2*s.e.plan.MaxSeqs - len(s.waiting) }

// idle says that nothing waits, nothing runs, and nothing is left to be freed.
func (s *scheduler) idle() bool {
	return len(s.waiting) == 0 && s.active == 0 && !slices.Contains(s.release, true)
}

// settle frees what the last calls left behind: completions that met a stop string, and holders whose clones have all started. Their
// rows are released on the device when the next call begins.
func (s *scheduler) settle() {
	for row, seq := range s.rows {
		if seq != nil && seq.cancelled.Load() {
			s.release[row] = true
			s.rows[row] = nil
			s.active--
		}
	}
	for i, f := range s.holders {
		if f != nil && f.next == f.req.N {
			s.release[f.holder] = true
			s.freeHolders = append(s.freeHolders, f.holder)
			s.holders[i], f.holder = nil, none
		}
	}
}

// callPlan is what the host offers in one call.
type callPlan struct {
	tokens []int32
	starts []int32     // of the prompts of rows
	line   []*sequence // completions that wait, in order
	begins []int32     // of their prompts
	ahead  []*family   // prompts to run ahead
	heads  []int32     // of these
	behind []int32
	before []*sequence // the rows as they stand before the call
}

// plan lays out the next call: the rest of prompts that are being run, then as many of the waiting completions and prompts as it takes.
func (s *scheduler) plan() *callPlan {
	p := s.e.plan
	c := &callPlan{starts: make([]int32, p.rows()), before: slices.Clone(s.rows)}
	shared := map[*family]int32{} // where a prompt's tokens from the given position on lie, for all who read them
	place := func(tokens []int32, from int) (start int32, ok bool) {
		if len(c.tokens)+len(tokens)-from > p.promptTokens() {
			return 0, false
		}
		start = int32(len(c.tokens) - from)
		c.tokens = append(c.tokens, tokens[from:]...)
		return start, true
	}
	for row, seq := range s.rows {
		if seq != nil && seq.done < len(seq.family.req.Tokens) {
			c.starts[row], _ = place(seq.family.req.Tokens, seq.done) // what an earlier call brought fits
		}
	}
	for _, f := range s.holders {
		if f != nil && f.opened && f.done < f.held {
			c.starts[f.holder], _ = place(f.req.Tokens[:f.held], f.done)
		}
	}
	for _, f := range s.waiting {
		if f.held > 0 && !f.opened {
			if f.holder == none && len(s.freeHolders) > 0 {
				f.holder = pop(&s.freeHolders)
				s.holders[f.holder-p.slots] = f
			}
			if f.holder == none || len(c.ahead) == p.aheadLen() {
				break
			}
			start, ok := place(f.req.Tokens[:f.held], 0)
			if !ok {
				break
			}
			c.ahead, c.heads, c.behind = append(c.ahead, f), append(c.heads, start), append(c.behind, int32(len(c.line)))
		}
		for k := f.next; k < f.req.N && len(c.line) < p.lineLen(); k++ {
			start, there := shared[f]
			if !there {
				if start, there = place(f.req.Tokens, f.held); !there {
					break
				}
				shared[f] = start
			}
			seq := &sequence{family: f, generation: f.req.FirstGeneration + k, row: none}
			c.line, c.begins = append(c.line, seq), append(c.begins, start)
		}
		if len(c.line) == p.lineLen() && f.held == 0 {
			break // only prompts for clones may still run ahead
		}
	}
	return c
}

// result is what a call did, as the host reads it.
type result struct {
	owners []*sequence // by the ids of output.Owners
	got    hostOutput
}

// apply takes over what the device did with the plan. Completions that it ended have left their rows.
func (s *scheduler) apply(c *callPlan, got hostOutput) (*result, error) {
	p := s.e.plan
	r := &result{got: got, owners: make([]*sequence, p.lineLen()+p.slots)}
	copy(r.owners[p.lineLen():], c.before)
	placed, opened, lens := got.ints("Placed"), got.ints("Opened"), got.ints("SeqLens")
	moved := false
	for i, f := range c.ahead {
		if opened[i] != 0 {
			f.opened, moved = true, true
		}
	}
	for i, seq := range c.line {
		if placed[i] < 0 {
			continue
		}
		f := seq.family
		if seq.generation != f.req.FirstGeneration+f.next {
			return nil, fmt.Errorf("%w: completion %d of request %q started before completion %d", ErrStalled, seq.generation, f.req.ID, f.req.FirstGeneration+f.next)
		}
		f.next++
		s.active++
		moved = true
		seq.row = int(placed[i])
		seq.drain.init(s.e, f.req)
		r.owners[i] = seq
	}
	ended := map[*sequence]bool{}
	owners, finish := got.ints("Owners"), got.ints("Finish")
	for i, id := range owners {
		if id >= 0 && finish[i] != running {
			ended[r.owners[id]] = true
			s.active--
		}
	}
	for i := range s.rows {
		s.rows[i] = nil
	}
	for _, seq := range r.owners {
		if seq != nil && !ended[seq] {
			s.rows[seq.row] = seq
			seq.done = int(lens[seq.row])
		}
	}
	for _, f := range s.holders {
		if f != nil && f.opened {
			f.done = int(lens[f.holder])
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(f *family) bool { return f.next == f.req.N })
	steps := got.ints("PrefillSteps")[0] + got.ints("DecodeSteps")[0]
	if steps == 0 && !moved && !slices.Contains(s.release, true) && (len(c.line) > 0 || s.active > 0) {
		return nil, fmt.Errorf("%w: %d completions run and %d requests wait", ErrStalled, s.active, len(s.waiting))
	}
	clear(s.release)
	return r, nil
}

func pop(list *[]int) int {
	last := len(*list) - 1
	v := (*list)[last]
	*list = (*list)[:last]
	return v
}
