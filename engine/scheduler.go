package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/prefix"
)

// family is a request on its way: the completions of one prompt.
//
// A completion runs its prompt from the beginning, or starts as a clone of a holder that has run a part of it: full
// pages are shared, a partial one is copied, and the rest is run by the clone, the last token at least, which is what
// its first token is drawn from.
type family struct {
	req      *Request
	chain    []prefix.Hash // the pages of the prompt that others may share
	next     int           // completions admitted so far
	begin    int           // next when source was decided
	assigned bool          // source is decided
	source   *holder       // nil: from the beginning
	held     int           // tokens taken over from it
	passed   int           // others that came later and were put before it in line

	asked   *Request    // what the caller gave; req has the context's tokens too
	context *contextRow // which the prompt begins with; nil = none
}

// holder is a row that runs a prompt, or a part that several have in common, for completions that start as its clones.
// It stays when they are through, for others with the same prefix, until its row or its pages are wanted.
type holder struct {
	row     int
	tokens  []int32
	chain   []prefix.Hash // of its full pages
	source  *holder       // itself a clone, until it is opened
	held    int
	opened  bool
	done    int         // tokens that it has run
	context *contextRow // of which it is the row; nil = none
	first   *family     // the next of whose completions has its pages reserved with the holder, until it is admitted
}

const none = -1

// sequence is one completion on its way.
type sequence struct {
	family     *family
	generation int
	row        int
	done       int   // tokens of it in the cache, as the last call left it
	last       int32 // the token drawn last, which is not in the cache yet
	born       int   // counts admissions

	cancelled atomic.Bool // set by the drain at a stop string, read by the scheduler
	drain     drainState
}

// scheduler is the host's account of rows. Which completion gets which slot and when is decided on the device, call by
// call, from the line that the scheduler gives it.
type scheduler struct {
	e           *Engine
	freeHolders []int
	waiting     []*family     // not all of their completions are admitted, in order
	counts      prefix.Counts // of the chains of those that wait
	cache       *prefix.Cache // of holders, by row
	holders     []*holder     // by row, from the slots on
	rows        []*sequence
	release     []bool   // rows to free at the start of the next call
	active      int      // completions that run
	freePages   int      // on the device, after the last call
	pool        int      // pages that the run may use: contexts hold the others
	out         []*moved // sequences on the host, in order of admission
	born        int
	err         error // of a transfer: it ends the run
	careful     bool  // after a call that could do nothing: the first in line alone, without a holder that others need
}

// ErrStalled says that a call had work and did none of it: a fault of the engine.
var ErrStalled = errors.New("the engine makes no progress, please report this")

func newScheduler(e *Engine) *scheduler {
	p := e.plan
	s := &scheduler{
		e: e, rows: make([]*sequence, p.slots), release: make([]bool, p.rows()),
		holders: make([]*holder, p.Holders+p.Contexts),
		counts:  prefix.Counts{}, cache: prefix.NewCache(),
	}
	for row := p.firstContext() - 1; row >= p.slots; row-- {
		s.freeHolders = append(s.freeHolders, row)
	}
	s.addContexts()
	return s
}

// idle says that nothing waits, nothing runs, and nothing is left to be freed.
func (s *scheduler) idle() bool {
	return len(s.waiting) == 0 && s.active == 0 && len(s.out) == 0 && !slices.Contains(s.release, true)
}

// settle notes the rows of completions that met a stop string: they are released on the device when the next call
// begins.
func (s *scheduler) settle() {
	for row, seq := range s.rows {
		if seq != nil && seq.cancelled.Load() {
			s.release[row] = true
			s.rows[row] = nil
			s.active--
		}
	}
	s.out = slices.DeleteFunc(s.out, func(m *moved) bool {
		stopped := m.seq.cancelled.Load()
		if stopped && m.back != nil {
			s.cache.Remove(m.back.row)
			s.drop(m.back)
		}
		return stopped
	})
}

// drop gives up a holder's row.
func (s *scheduler) drop(h *holder) {
	if h.opened {
		s.release[h.row] = true
	}
	s.freeHolders = append(s.freeHolders, h.row)
	s.holders[h.row-s.e.plan.slots] = nil
}

// evict gives up the holder that was used longest ago, if one is not in use.
func (s *scheduler) evict() (*holder, bool) {
	row, ok := s.cache.Evict()
	if !ok {
		return nil, false
	}
	h := s.holders[row-s.e.plan.slots]
	s.demote(h)
	if h.source != nil { // it was never opened
		s.cache.Unuse(h.source.row)
	}
	s.drop(h)
	return h, true
}

// keepOnHost leaves the holder of a chain with the host.
func (s *scheduler) keepOnHost(chain []prefix.Hash) error {
	if row, pages := s.cache.Longest(chain); pages == len(chain) && pages > 0 {
		s.demote(s.holders[row-s.e.plan.slots])
	}
	return s.err
}

// dropAll gives up all holders but contexts, and lets those who wait for them decide anew.
func (s *scheduler) dropAll() {
	for _, f := range s.waiting {
		f.assigned, f.source, f.held = false, nil, 0
	}
	for _, m := range s.out {
		m.back = nil // what is on the host is loaded again
	}
	for _, h := range s.holders {
		if h != nil && h.context == nil {
			s.cache.Remove(h.row)
			s.drop(h)
		}
	}
}

// newHolder makes a holder of the first size tokens of f's prompt, a clone of source if that is not nil. With first,
// the pages of f's next completion are reserved with it. There is none where all rows are in use.
func (s *scheduler) newHolder(f *family, size int, first bool, source *holder, held int) *holder {
	if source != nil {
		s.cache.Use(source.row) // until the holder is opened; and making room must not evict it
	}
	if len(s.freeHolders) == 0 {
		if _, ok := s.evict(); !ok {
			if source != nil {
				s.cache.Unuse(source.row)
			}
			return nil
		}
	}
	h := &holder{row: pop(&s.freeHolders), tokens: f.req.Tokens[:size], source: source, held: held}
	if first {
		h.first = f
	}
	h.chain = f.chain[:min(len(f.chain), size/s.e.plan.PageSize)]
	s.holders[h.row-s.e.plan.slots] = h
	s.cache.Insert(h.row, h.chain)
	s.cache.Unuse(h.row) // those who use it say so
	return h
}

// assign decides what the completions of f start from. It returns false where f has to wait for a holder's row; or,
// while all slots are busy anyway, for a prefix to come from the host beside the next call.
func (s *scheduler) assign(f *family, busy bool) bool {
	p := s.e.plan
	var source *holder
	held := 0
	if row, pages := s.cache.Longest(f.chain); pages > 0 {
		source, held = s.holders[row-p.slots], pages*p.PageSize
	}
	if s.e.tier != nil {
		if k, pages := s.e.tier.longest(f.chain); pages*p.PageSize > held {
			if busy && !s.e.moves.isStaged(s.missing(k.pages, k.chain)) {
				return false
			}
			if h := s.promote(k); h != nil {
				source, held = h, pages*p.PageSize
			}
		}
	}
	ofContext := s.heldByContext(f)
	if ofContext > 0 && ofContext >= held {
		source, held = s.holders[f.context.row-p.slots], ofContext
	}
	whole := len(f.req.Tokens) - 1
	clones := f.req.N-f.next > 1 && whole > 0 && p.layout.Paged &&
		s.e.pagesAhead(f.req, whole)-ofContext/p.PageSize <= s.pool
	// A prefix that others in line have too is run once for all.
	if shared := s.counts.Shared(f.chain) * p.PageSize; shared > held && !s.careful {
		if h := s.newHolder(f, shared, !clones || shared == whole, source, held); h != nil {
			source, held = h, shared
		}
	}
	// So is what the completions of one prompt have in common: all but its last token.
	if clones && whole > held {
		h := s.newHolder(f, whole, true, source, held)
		if h == nil {
			return false
		}
		source, held = h, whole
	}
	f.assigned, f.begin, f.source, f.held = true, f.next, source, held
	if source != nil {
		s.cache.Use(source.row)
	}
	return true
}

func pop(list *[]int) int {
	last := len(*list) - 1
	v := (*list)[last]
	*list = (*list)[:last]
	return v
}

// callPlan is what the host offers in one call.
type callPlan struct {
	tokens []int32
	starts []int32     // of the prompts of rows
	line   []*sequence // completions that wait, in order
	begins []int32     // of their prompts
	ahead  []*holder   // prompts and prefixes to run ahead
	heads  []int32     // of these
	behind []int32
	before []*sequence // the rows as they stand before the call

	resumed int // how many of the line, the first ones, were moved out and go on
}

// place puts a prompt's tokens from a position on among those of the call.
func (c *callPlan) place(tokens []int32, from, limit int) (start int32, ok bool) {
	if len(c.tokens)+len(tokens)-from > limit {
		return 0, false
	}
	start = int32(len(c.tokens) - from)
	c.tokens = append(c.tokens, tokens[from:]...)
	return start, true
}

// plan lays out the next call: the rest of prompts that are being run, then as many of the waiting completions and
// prompts as it takes.
func (s *scheduler) plan() (*callPlan, error) {
	p := s.e.plan
	limit := p.promptTokens()
	c := &callPlan{starts: make([]int32, p.rows()), before: slices.Clone(s.rows)}
	for row, seq := range s.rows {
		if seq != nil && seq.done < len(seq.family.req.Tokens) {
			c.starts[row], _ = c.place(seq.family.req.Tokens, seq.done, limit) // what an earlier call brought fits
		}
	}
	for _, h := range s.holders {
		if h != nil && h.opened && h.done < len(h.tokens) {
			c.starts[h.row], _ = c.place(h.tokens, h.done, limit)
		}
	}
	if err := s.bringBack(c, limit); err != nil {
		return nil, err
	}
	for _, f := range s.waiting {
		if len(s.out) > 0 {
			break // nothing new before those that ran already
		}
		if !f.assigned && (len(c.line) == p.lineLen() || !s.assign(f, s.active+len(c.line) >= p.MaxSeqs)) {
			break
		}
		if !s.listAhead(c, f.source, limit) {
			break
		}
		start, placed := int32(0), false
		for k := f.next; k < f.req.N && len(c.line) < p.lineLen(); k++ {
			if !placed {
				if start, placed = c.place(f.req.Tokens, f.held, limit); !placed {
					break
				}
			}
			seq := &sequence{family: f, generation: f.req.FirstGeneration + k, row: none}
			c.line, c.begins = append(c.line, seq), append(c.begins, start)
		}
		if s.careful && len(c.line) > 0 {
			break
		}
	}
	s.makeRoom(c)
	return c, s.err
}

// listAhead lists a holder that is not opened, behind its own source. It returns false where the call has no room for
// it.
func (s *scheduler) listAhead(c *callPlan, h *holder, limit int) bool {
	if h == nil || h.opened || slices.Contains(c.ahead, h) {
		return true
	}
	if !s.listAhead(c, h.source, limit) || len(c.ahead) == s.e.plan.aheadLen() {
		return false
	}
	start, ok := c.place(h.tokens, h.held, limit)
	if ok {
		c.ahead, c.heads, c.behind = append(c.ahead, h), append(c.heads, start), append(c.behind, int32(len(c.line)))
	}
	return ok
}

// result is what a call did, as the host reads it.
type result struct {
	owners []*sequence // by the ids of output.Owners
	got    *hostOutput
}

// apply takes over what the device did with the plan. Completions that it ended have left their rows.
func (s *scheduler) apply(c *callPlan, got *hostOutput) (*result, error) {
	p := s.e.plan
	r := &result{got: got, owners: make([]*sequence, p.lineLen()+p.slots)}
	copy(r.owners[p.lineLen():], c.before)
	placed, opened, lens := got.Placed, got.Opened, got.SeqLens
	moved := got.PrefillSteps+got.DecodeSteps > 0 || slices.Contains(s.release, true)
	clear(s.release)
	for i, h := range c.ahead {
		if opened[i] == 0 {
			continue
		}
		h.opened, moved = true, true
		s.e.stats.HitTokens += h.held
		if h.source != nil {
			s.cache.Unuse(h.source.row)
			h.source = nil
		}
	}
	for i, seq := range c.line {
		if placed[i] < 0 {
			continue
		}
		r.owners[i] = seq
		if i < c.resumed {
			continue
		}
		f := seq.family
		if seq.generation != f.req.FirstGeneration+f.next {
			return nil, fmt.Errorf("%w: completion %d of request %q started before completion %d", ErrStalled,
				seq.generation, f.req.ID, f.req.FirstGeneration+f.next)
		}
		f.next++
		s.active++
		moved, s.careful = true, false
		s.born++
		seq.row, seq.born = int(placed[i]), s.born
		seq.drain.init(s.e, f)
		s.e.stats.HitTokens += f.held
		if f.source != nil && f.source.first == f {
			f.source.first = nil
		}
		if f.next == f.req.N {
			s.counts.Add(f.chain, -1)
			if f.source != nil {
				s.cache.Unuse(f.source.row)
			}
		}
	}
	if s.settleMoved(c, placed) {
		moved = true
	}
	ended := map[*sequence]bool{}
	owners, finish, tokens := got.Owners, got.Finish, got.Tokens
	for i, id := range owners {
		if id < 0 {
			continue
		}
		r.owners[id].last = tokens[i]
		if finish[i] != running {
			ended[r.owners[id]] = true
			s.active--
		}
	}
	clear(s.rows)
	for _, seq := range r.owners {
		if seq != nil && !ended[seq] {
			s.rows[seq.row] = seq
			seq.done = int(lens[seq.row])
		}
	}
	for _, h := range s.holders {
		if h != nil && h.opened {
			h.done = int(lens[h.row])
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(f *family) bool { return f.next == f.req.N })
	s.freePages = int(got.EndFree)
	if short := int(got.Short); short > 0 {
		if err := s.makeWay(short); err != nil {
			return nil, err
		}
	}
	if moved || s.active == 0 && len(s.waiting) == 0 && len(s.out) == 0 {
		return r, nil
	}
	// Holders that wait for each other's pages: the first in line goes alone.
	if s.careful {
		return nil, fmt.Errorf("%w: %s run and %s wait", ErrStalled, plural.Count(s.active, "completion"),
			plural.Count(len(s.waiting), "request"))
	}
	s.careful = true
	s.dropAll()
	return r, nil
}
