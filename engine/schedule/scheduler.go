package schedule

import (
	"fmt"

	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/internal/plural"
)

// scheduler lays out calls, and applies to its parts what each call did. The parts own the state: the waiting queue,
// the rows, the pages, the sequences on the host. The scheduler has what concerns several of them. The run's goroutine
// owns it.
type scheduler struct {
	Sizes
	stats     *Stats
	newStream func(r *Request) Stream
	queue     *waitingQueue
	slots     *slots
	prefixes  *prefixRows
	names     *namedPages
	pool      *pagePool
	host      *hostPages
	swap      *swapArea
	placer    *placer
	// moved is called when a call ran tokens of a context: see Config.Moved.
	moved func(row, done int, pages []int32)
	// wanted is how many pages the operations on contexts wait for that came up between the last two calls. As long as
	// they wait, nothing new is offered.
	wanted  int
	weights *runWeights
	// err ends the run: a transfer failed, or an operation left the device in the middle of something.
	err error
}

func newScheduler(cfg *Config) *scheduler {
	s := &scheduler{Sizes: cfg.Sizes, stats: cfg.Stats, newStream: cfg.NewStream, moved: cfg.Moved,
		weights: &runWeights{cfg.Weights},
		queue:   newWaitingQueue(cfg.MaxSeqs, cfg.ByAdapter), slots: newSlots(cfg.Sizes), names: newNamedPages(cfg)}
	s.prefixes = newPrefixRows(cfg.Sizes, s.slots.release, cfg.Contexts)
	s.pool = &pagePool{size: cfg.Pool, idle: cfg.FreePages, free: cfg.FreePages, slots: s.slots, prefixes: s.prefixes}
	s.host = &hostPages{Sizes: cfg.Sizes, device: cfg.Device, cache: cfg.Host, names: s.names, stats: cfg.Stats}
	s.swap = &swapArea{Sizes: cfg.Sizes, device: cfg.Device, stats: cfg.Stats, slots: s.slots, prefixes: s.prefixes,
		names: s.names, pool: s.pool, weights: s.weights}
	s.placer = &placer{Sizes: cfg.Sizes, stops: cfg.Stops, queue: s.queue, slots: s.slots, prefixes: s.prefixes,
		names: s.names, pool: s.pool, host: s.host, swap: s.swap, weights: s.weights}
	return s
}

// add takes a checked request in.
func (s *scheduler) add(r *Request) {
	s.queue.insert(s.newGroup(r, r))
}

// newGroup makes the group of a request, which is a part of asked or all of it.
func (s *scheduler) newGroup(r, asked *Request) *group {
	g := &group{Request: r, asked: asked, seed: s.names.seedOf(r, s.prefixes.mixedOf(r))}
	if s.Paged && s.PrefixCache {
		r.chain = prefix.Chain(g.seed, r.shareable(), s.PageSize)
	}
	if r.Score > 0 {
		g.scores = newScores(len(r.Tokens), r.tops(), r.ScoreFrom)
	}
	return g
}

// isDone reports whether nothing waits, runs or is on the host.
func (s *scheduler) isDone() bool {
	return s.slots.active == 0 && len(s.queue.groups) == 0 && len(s.swap.sequences) == 0
}

// isIdle reports whether there is nothing to do before another request comes, and no row to free.
func (s *scheduler) isIdle() bool {
	return s.isDone() && !s.prefixes.contextsRun() && !s.slots.releasing()
}

// isBare reports whether nothing runs, and no row will be freed.
func (s *scheduler) isBare() bool {
	return s.slots.active == 0 && !s.slots.releasing() && s.prefixes.onlyContexts()
}

// removeCancelled removes sequences that met a stop string. The next call frees their rows first.
func (s *scheduler) removeCancelled() {
	s.slots.releaseCancelled(s.placer.ended)
	s.swap.removeCancelled(s.placer.ended)
}

// abandon makes the next call free the rows of all sequences, and forgets the requests that wait.
func (s *scheduler) abandon() {
	s.slots.releaseAll()
	s.queue.groups, s.swap.sequences = nil, nil
}

// dropPrefixes drops all prefix rows, and makes the sequences that wait for them choose again.
func (s *scheduler) dropPrefixes() {
	s.queue.forgetSources()
	s.swap.forgetRows()
	s.prefixes.dropAll()
}

// largest returns how many pages of the pool the largest request needs that was taken in and has not ended.
func (s *scheduler) largest() (pages int) {
	for _, g := range s.queue.groups {
		pages = max(pages, s.prefixes.need(g.Request))
	}
	for _, seq := range s.slots.rows {
		if seq != nil {
			pages = max(pages, s.prefixes.need(seq.group.Request))
		}
	}
	for _, m := range s.swap.sequences { // a partial page is held twice while the sequence comes back
		pages = max(pages, s.prefixes.need(m.seq.group.Request), s.pages(m.seq.done)+1)
	}
	return pages
}

// stage starts to copy to the device what the next call will probably want from the host: sequences that were swapped
// out, or, if there are none, pages of the first requests in the queue.
func (s *scheduler) stage() {
	want := s.swap.wanted()
	if !s.swap.continues() {
		want = s.host.wanted(s.queue.groups)
	}
	s.host.device.Stage(want)
}

// offer lays out the next call: first the rest of prompts that rows have started, which always fits, since an earlier
// call took all of it; then what the placer adds.
func (s *scheduler) offer() (*offer, error) {
	o := newOffer(s.slots.rows, s.slots.release)
	for row, seq := range s.slots.rows {
		if seq != nil && seq.done < len(seq.group.Tokens) {
			start, _ := o.appendPrompt(seq.group.Tokens, seq.done, s.PromptLimit)
			o.Starts[row] = int32(start)
		}
	}
	for p := range s.prefixes.opened() {
		if p.done < len(p.tokens) {
			start, _ := o.appendPrompt(p.placed(), p.done, s.PromptLimit)
			o.Starts[p.row] = int32(start)
		}
	}
	if s.err == nil && s.wanted == 0 {
		s.err = s.placer.fill(o)
	}
	return o, s.err
}

// apply applies the output of a call to the parts, and preempts sequences if they lack pages for their next step. The
// device has already freed the rows of sequences that ended. It returns the owners of the tokens by the ids of
// Output.Owners.
func (s *scheduler) apply(o *offer, output *Output) ([]*sequence, error) {
	owners := make([]*sequence, s.WaitingLen()+s.Slots)
	copy(owners[s.WaitingLen():], o.before)
	before := s.prefixes.lengths()
	progress := output.PrefillSteps+output.DecodeSteps > 0 || s.slots.releasing()
	clear(s.slots.release)
	opened, held := s.prefixes.settleOpened(o.ahead, output)
	s.stats.HitTokens += held
	for i, seq := range o.waiting {
		if output.Placed[i] < 0 {
			continue
		}
		owners[i], progress = seq, true
		if i < o.resumed {
			s.swap.resumed(seq, int(output.Placed[i]))
		} else if err := s.admitted(seq, int(output.Placed[i])); err != nil {
			return nil, err
		}
	}
	s.applyTokens(owners, output)
	s.names.settle(s.Sizes, owners, s.prefixes, output)
	s.applyContexts(before)
	s.applyScores(o, owners, output)
	s.prefixes.dropUnused()
	s.queue.removeAdmitted()
	s.pool.free, s.placer.starved = int(output.EndFree), false
	if err := s.holdForWeights(output); err != nil {
		return nil, err
	}
	short := int(output.Short)
	if s.wanted > 0 && !s.Reserve {
		short = max(short, s.wanted-s.pool.unreserved())
	}
	if short > 0 {
		enough, err := s.swap.preempt(short, output)
		if err != nil {
			return nil, err
		}
		if !enough { // prefixes that others wait for make room
			s.dropPrefixes()
			s.placer.starved = true
		}
	}
	if progress || opened || s.isDone() {
		return owners, nil
	}
	if s.placer.oneAtATime {
		return nil, fmt.Errorf("%w: %s run and %s wait", ErrStalled, plural.Count(s.slots.active, "completion"),
			plural.Count(len(s.queue.groups), "request"))
	}
	s.placer.oneAtATime = true
	s.dropPrefixes()
	return owners, nil
}

// admitted records that a sequence got a slot for the first time.
func (s *scheduler) admitted(seq *sequence, row int) error {
	g := seq.group
	if seq.generation != g.First+g.admitted {
		return fmt.Errorf("%w: completion %d started before completion %d of the same request", ErrStalled,
			seq.generation, g.First+g.admitted)
	}
	g.admitted++
	s.slots.admit(seq, row)
	seq.text.init(s.newStream, g.asked)
	s.names.admitted(seq)
	seq.announce(0, s.weights.version)
	s.stats.HitTokens += g.held
	if g.source != nil && g.source.first == g {
		g.source.first = nil
	}
	if g.admitted == g.N {
		s.queue.chains.Add(g.chain, -1)
		if g.source != nil {
			s.prefixes.byChain.Unuse(g.source.row)
		}
	}
	return nil
}

// applyTokens records the tokens that rows generated, which sequences ended, and how long the others are.
func (s *scheduler) applyTokens(owners []*sequence, output *Output) {
	ended := map[*sequence]bool{}
	for i, id := range output.Owners {
		if id < 0 {
			continue
		}
		seq, finish := owners[id], Finish(output.Finish[i])
		seq.last, s.placer.oneAtATime = output.Tokens[i], false
		if seq.group.Recalls {
			seq.generated = append(seq.generated, seq.last)
		}
		s.names.generated(seq, finish)
		if finish != Running {
			ended[seq] = true
			s.placer.ended(seq)
		}
	}
	s.slots.settle(owners, ended, output)
	s.prefixes.settleLengths(output)
}

// applyContexts reports the tokens of contexts that a call ran.
func (s *scheduler) applyContexts(before []int) {
	for i, p := range s.prefixes.rows {
		if p != nil && p.pinned != nil && p.done > before[i] && s.moved != nil {
			s.pool.idle -= s.pages(p.done) - s.pages(before[i])
			s.moved(p.row, p.done, p.ids)
		}
	}
}

// applyScores records the scores of a call, for the rows that ran the tokens and for the rows that took them over.
func (s *scheduler) applyScores(o *offer, owners []*sequence, output *Output) {
	tops := 0
	if n := len(output.Scores.Logprobs); n > 0 {
		tops = len(output.Scores.TopIDs) / n
	}
	for i := range scoredCount(&output.Scores) {
		var to *Scores
		if id := int(output.Scores.Owners[i]); id < len(owners) && owners[id] != nil {
			to = owners[id].group.scores
		} else if row := id - s.WaitingLen(); row >= s.Slots && s.prefixes.useOf(row) != nil {
			to = s.prefixes.useOf(row).scores
		}
		if token := int(output.Scores.Positions[i]) + 1; to != nil && token < len(to.have) {
			ids, logprobs := output.Scores.TopIDs[i*tops:(i+1)*tops], output.Scores.TopLogprobs[i*tops:(i+1)*tops]
			to.set(token, output.Scores.Logprobs[i], ids, logprobs)
		}
	}
	for i, p := range o.ahead { // a source comes before its clones
		if output.Opened[i] != 0 && p.scores != nil {
			p.inherited.fill(p.scores, p.held, s.PageSize)
			p.inherited = inheritedScores{}
		}
	}
	for i, seq := range o.waiting {
		if g := seq.group; i >= o.resumed && output.Placed[i] >= 0 && g.scores != nil {
			g.inherited.fill(g.scores, g.held, s.PageSize)
		}
	}
	if s.names.index == nil {
		return
	}
	for p := range s.prefixes.opened() {
		if p.scores != nil {
			s.names.scores.add(p.chain, p.scores)
		}
	}
	for _, seq := range owners {
		if seq != nil && seq.group.pageScore() > 0 {
			s.names.scores.add(seq.group.chain, seq.group.scores)
		}
	}
}
