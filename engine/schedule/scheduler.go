package schedule

import (
	"fmt"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/prefix"
)

// scheduler is the host's account of rows.
type scheduler struct {
	Sizes
	cfg        *Config
	stats      *Stats
	freePrefix []int         // prefix rows that nothing uses
	waiting    []*group      // not all of their sequences are admitted, in order
	counts     prefix.Counts // of the chains of those that wait
	cache      *prefix.Cache // of prefix rows, by row
	index      *prefix.Index // of pages; nil without a prefix cache
	scores     *scoreCache   // of pages that were scored
	takers     []*holding    // by page: who took it last in this run
	tookPages  int           // in the last call
	prefixes   []*prefixRow  // by row, from the slots on
	rows       []*sequence   // of slots
	release    []bool        // rows to free at the start of the next call
	active     int           // sequences in slots
	freePages  int           // on the device, after the last call
	swapped    []*swapped    // in order of admission
	born       int
	err        error // of a transfer: it ends the run
	// after a call that could do nothing: only the first in the queue, without prefix rows that it could do without
	oneAtATime bool
	wanted     int  // pages that operations on contexts wait for
	starved    bool // prefix rows were given up so that sequences go on: the next call offers nothing in their place
}

func newScheduler(cfg *Config) *scheduler {
	p := cfg.Sizes
	s := &scheduler{
		Sizes: p, cfg: cfg, stats: cfg.Stats, rows: make([]*sequence, p.Slots), release: make([]bool, p.Rows()),
		prefixes: make([]*prefixRow, p.Rows()-p.Slots), counts: prefix.Counts{}, cache: prefix.NewCache(),
		freePages: cfg.FreePages, index: cfg.Index, takers: make([]*holding, p.Pages),
		scores: newScoreCache(p.PageSize, scoreBytes),
	}
	for row := p.FirstContext() - 1; row >= p.Slots; row-- {
		s.freePrefix = append(s.freePrefix, row)
	}
	s.setContexts(cfg.Contexts)
	return s
}

// idle says that nothing waits, nothing runs, and nothing is left to be freed.
func (s *scheduler) idle() bool {
	return len(s.waiting) == 0 && s.active == 0 && len(s.swapped) == 0 && !s.rides() &&
		!slices.Contains(s.release, true)
}

// settle notes the rows of sequences that met a stop string: the next call releases them first.
func (s *scheduler) settle() {
	for row, seq := range s.rows {
		if seq != nil && seq.cancelled.Load() {
			s.release[row] = true
			s.rows[row] = nil
			s.active--
			s.end(seq)
		}
	}
	s.swapped = slices.DeleteFunc(s.swapped, func(m *swapped) bool {
		stopped := m.seq.cancelled.Load()
		if stopped {
			s.end(m.seq)
		}
		if stopped && m.back != nil {
			s.cache.Remove(m.back.row)
			s.drop(m.back)
		}
		return stopped
	})
}

// giveUp has the next call free the rows of all sequences, and forgets those that wait.
func (s *scheduler) giveUp() {
	for row, q := range s.rows {
		s.release[row] = s.release[row] || q != nil
	}
	clear(s.rows)
	s.active, s.waiting, s.swapped = 0, nil, nil
}

// offer lays out the next call: the rest of prompts that are being run, then as many of the waiting sequences and
// prompts as it takes.
func (s *scheduler) offer() (*offer, error) {
	o := &offer{before: slices.Clone(s.rows), heldAt: map[heldPages]int{}, isHeld: map[int32]bool{}}
	o.Starts, o.Release = make([]int32, s.Rows()), s.release
	for row, seq := range s.rows {
		if seq != nil && seq.done < len(seq.group.Tokens) {
			start, _ := o.place(seq.group.Tokens, seq.done, s.PromptLimit) // what an earlier call brought fits
			o.Starts[row] = int32(start)
		}
	}
	for _, p := range s.prefixes {
		if p != nil && p.opened && p.done < len(p.tokens) {
			start, _ := o.place(p.placed(), p.done, s.PromptLimit)
			o.Starts[p.row] = int32(start)
		}
	}
	if s.err != nil || s.wanted > 0 {
		return o, s.err
	}
	s.offload()
	if err := s.swapIn(o); err != nil {
		return nil, err
	}
	o.room = s.roomFor()
	full := false // no room for stops: those behind that need some wait too
	for _, g := range s.waiting {
		if len(s.swapped) > 0 || s.starved && s.active > 0 {
			break // nothing new before those that ran already
		}
		if full = full || !g.inPlace && (len(o.waiting) == s.WaitingLen() || !s.hold(g)); full && !g.inPlace {
			continue
		}
		if !g.assigned && (len(o.waiting) == s.WaitingLen() || !s.assign(o, g, s.active+len(o.waiting) >= s.MaxSeqs)) {
			break
		}
		if !s.listAhead(o, g.source) {
			break
		}
		if !s.list(o, g) {
			break
		}
		if s.oneAtATime && len(o.waiting) > 0 {
			break
		}
	}
	return o, s.err
}

// hold makes room for the stops of a group on the device, until all its sequences have ended.
func (s *scheduler) hold(g *group) bool {
	g.inPlace = s.cfg.Stops == nil || s.cfg.Stops.Hold(g.Request)
	return g.inPlace
}

// end notes that a sequence came to its end.
func (s *scheduler) end(seq *sequence) {
	if g := seq.group; s.cfg.Stops != nil {
		if g.ended++; g.ended == g.N {
			s.cfg.Stops.Release(g.Request)
		}
	}
}

// list offers the sequences of a group that are not admitted yet, as many as the call has room for. It returns false
// where the pages that they begin with can't be held.
func (s *scheduler) list(o *offer, g *group) bool {
	if g.next == g.N || len(o.waiting) == s.WaitingLen() {
		return true
	}
	at := None
	if g.source == nil {
		pages, scores := s.beginOf(g.chain, g.Score)
		ok := false
		if at, ok = s.holdNamed(o, pages); !ok {
			return false
		}
		g.held, g.from = len(pages)*s.PageSize, takenFrom{pages: scores}
	} else {
		g.from = takenFrom{row: g.source.scores}
	}
	start, ok := o.place(g.Tokens, g.held, s.PromptLimit)
	if !ok {
		return true
	}
	if len(o.waiting) == 0 { // what comes behind must leave room for it
		o.room -= s.surePages(g.Request) - g.held/s.PageSize
	}
	for k := g.next; k < g.N && len(o.waiting) < s.WaitingLen(); k++ {
		e := Entry{Request: g.Request, Generation: g.First + k, Start: start, PromptLen: len(g.Tokens),
			MaxPages: s.surePages(g.Request), Source: None, Named: at, Held: g.held}
		if g.source != nil {
			e.Source, e.First = g.source.row, g.source.first == g && k == g.begin
		}
		o.waiting = append(o.waiting, &sequence{group: g, generation: e.Generation, row: None})
		o.Waiting = append(o.Waiting, e)
	}
	return true
}

// listAhead offers a prefix row that is not opened, behind its own source. It returns false where the call has no room
// for it.
func (s *scheduler) listAhead(o *offer, p *prefixRow) bool {
	if p == nil || p.opened || o.lists(p) {
		return true
	}
	if !s.listAhead(o, p.source) || len(o.ahead) == s.AheadLen() {
		return false
	}
	at := None
	if p.source == nil {
		pages, scores := s.beginOf(p.chain, p.score)
		ok := false
		if at, ok = s.holdNamed(o, pages); !ok {
			return false
		}
		p.held, p.settled, p.from = len(pages)*s.PageSize, len(pages), takenFrom{pages: scores}
	} else {
		p.from = takenFrom{row: p.source.scores}
	}
	start, ok := o.place(p.placed(), p.held, s.PromptLimit)
	if ok {
		prompt := Prompt{Row: p.row, Start: start, PromptLen: len(p.tokens), MaxPages: s.maxPages(p),
			Behind: len(o.waiting), Score: p.score, Short: p.short, Source: None, Named: at, Held: p.held}
		if p.source != nil {
			prompt.Source = p.source.row
		}
		o.ahead, o.Ahead = append(o.ahead, p), append(o.Ahead, prompt)
	}
	return ok
}

// apply takes over what the device did with an offer. Sequences that it ended have left their rows. It returns whose
// tokens the output has, by the ids of Output.Owners.
func (s *scheduler) apply(o *offer, got *Output) ([]*sequence, error) {
	owners := make([]*sequence, s.WaitingLen()+s.Slots)
	copy(owners[s.WaitingLen():], o.before)
	before := s.lengths()
	progress := got.PrefillSteps+got.DecodeSteps > 0 || slices.Contains(s.release, true)
	clear(s.release)
	if s.settleOpened(o, got) {
		progress = true
	}
	for i, seq := range o.waiting {
		if got.Placed[i] < 0 {
			continue
		}
		owners[i], progress = seq, true
		if i < o.resumed {
			s.settleSwappedIn(seq, int(got.Placed[i]))
		} else if err := s.settleAdmitted(seq, int(got.Placed[i])); err != nil {
			return nil, err
		}
	}
	s.settleRows(owners, got)
	s.settlePages(owners, got)
	s.settleContexts(before)
	s.settleScores(o, owners, got)
	s.dropUnused()
	s.waiting = slices.DeleteFunc(s.waiting, func(g *group) bool { return g.next == g.N })
	s.freePages, s.starved = int(got.EndFree), false
	short := int(got.Short)
	if s.wanted > 0 && !s.Reserve {
		short = max(short, s.wanted-s.unreserved())
	}
	if short > 0 {
		if err := s.preempt(short, got); err != nil {
			return nil, err
		}
	}
	if progress || s.active == 0 && len(s.waiting) == 0 && len(s.swapped) == 0 {
		return owners, nil
	}
	// Prefix rows that wait for each other's pages: the first in the queue goes alone.
	if s.oneAtATime {
		return nil, fmt.Errorf("%w: %s run and %s wait", ErrStalled, plural.Count(s.active, "completion"),
			plural.Count(len(s.waiting), "request"))
	}
	s.oneAtATime = true
	s.dropAll()
	return owners, nil
}

// settleOpened notes which of the prompts ahead got their rows.
func (s *scheduler) settleOpened(o *offer, got *Output) (anyOpened bool) {
	for i, p := range o.ahead {
		if got.Opened[i] == 0 {
			continue
		}
		p.opened, anyOpened = true, true
		s.stats.HitTokens += p.held
		if p.source != nil {
			s.cache.Unuse(p.source.row)
			p.source = nil
		}
	}
	return anyOpened
}

// settleAdmitted notes that a sequence got a slot for the first time.
func (s *scheduler) settleAdmitted(seq *sequence, row int) error {
	g := seq.group
	if seq.generation != g.First+g.next {
		return fmt.Errorf("%w: completion %d started before completion %d of the same request", ErrStalled,
			seq.generation, g.First+g.next)
	}
	g.next++
	s.active++
	s.born++
	seq.row, seq.born = row, s.born
	seq.drain.init(s.cfg.NewStream, g.Request)
	if s.index != nil {
		seq.names = prefix.NewNamer(s.seedOf(g.Request), g.chain, g.Tokens, s.PageSize)
		seq.settled = g.held / s.PageSize
	}
	s.stats.HitTokens += g.held
	if g.source != nil && g.source.first == g {
		g.source.first = nil
	}
	if g.next == g.N {
		s.counts.Add(g.chain, -1)
		if g.source != nil {
			s.cache.Unuse(g.source.row)
		}
	}
	return nil
}

// settleRows notes what rows drew and how long they are now, and which sequences ended.
func (s *scheduler) settleRows(owners []*sequence, got *Output) {
	ended := map[*sequence]bool{}
	for i, id := range got.Owners {
		if id < 0 {
			continue
		}
		q := owners[id]
		q.last, s.oneAtATime = got.Tokens[i], false
		if q.group.Recalls {
			q.drawn = append(q.drawn, q.last)
		}
		s.settleDrawn(q, Finish(got.Finish[i]))
		if Finish(got.Finish[i]) != Running {
			ended[q] = true
			s.active--
			s.end(owners[id])
		}
	}
	clear(s.rows)
	for _, seq := range owners {
		if seq != nil && !ended[seq] {
			s.rows[seq.row] = seq
			seq.done = int(got.SeqLens[seq.row])
		}
	}
	for _, p := range s.prefixes {
		if p != nil && p.opened {
			p.done = int(got.SeqLens[p.row])
		}
	}
}

// settleDrawn notes a token that a sequence drew. Those before it are in the cache.
func (s *scheduler) settleDrawn(q *sequence, finish Finish) {
	if s.index == nil || finish == NotANumber {
		return // what does not give numbers gets no names
	}
	q.done = max(q.done+1, len(q.group.Tokens)) // the first token is drawn from the prompt's last
	if s.NameDrawn && !q.group.Leaf {
		q.names.Push(q.last)
	}
}
