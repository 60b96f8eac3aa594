package schedule

import "slices"

// placer lays out what the next call may start: which sequences of the waiting queue, in which order, from which rows
// and named pages, and which prompts and prefixes run ahead for them. The run's goroutine owns it.
type placer struct {
	Sizes
	stops    Stops // nil: no request has stops that need room
	queue    *waitingQueue
	slots    *slots
	prefixes *prefixRows
	names    *namedPages
	pool     *pagePool
	host     *hostPages
	swap     *swapArea
	weights  *runWeights
	// oneAtATime is set after a call that could do nothing, because prefix rows wait for each other's pages. Then only
	// the first group is offered, without prefix rows that it can do without. It ends with the next generated token: as
	// long as it is set, a second such call is a bug.
	oneAtATime bool
	// starved is set when prefix rows were dropped so that sequences can continue. The next call offers nothing in
	// their place, or it would take the pages again.
	starved bool
	// paused is set by an operation that waits until the sequences that have started are done, for one call.
	paused bool
}

// fill offers sequences that were swapped out, then as many of the waiting sequences and their prefixes as the call
// takes.
func (p *placer) fill(o *offer) error {
	if err := p.host.offload(p.pool.free); err != nil {
		return err
	}
	if err := p.swap.in(o); err != nil {
		return err
	}
	if p.paused {
		return nil
	}
	o.room = p.roomFor()
	full := false // no room for stops: later groups that need some wait, too
	for _, g := range p.queue.groups {
		if p.swap.continues() || p.starved && p.slots.active > 0 {
			break // nothing new before sequences that ran already
		}
		if !p.weights.may(g.Request, 0) {
			continue
		}
		if full = full || !g.stopsHeld && (p.isFull(o) || !p.holdStops(g)); full && !g.stopsHeld {
			continue
		}
		if !g.sourced {
			if p.isFull(o) {
				break
			}
			if ok, err := p.chooseSource(o, g); err != nil {
				return err
			} else if !ok {
				break
			}
		}
		if !p.offerPrefix(o, g.source) || !p.offerSequences(o, g) || p.oneAtATime && len(o.waiting) > 0 {
			break
		}
	}
	return nil
}

func (p *placer) isFull(o *offer) bool { return len(o.waiting) == p.WaitingLen() }

// roomFor returns how many free pages a call may hold for entries. If it held all, the running sequences could not
// continue.
func (p *placer) roomFor() int {
	switch {
	case p.slots.active == 0 && p.oneAtATime:
		return p.Sizes.Pages
	case p.Reserve || p.slots.active == 0:
		return p.pool.unreserved()
	}
	return p.pool.unreserved() - p.slots.active
}

// holdStops makes room for the stops of a group on the device, until all its sequences have ended.
func (p *placer) holdStops(g *group) bool {
	g.stopsHeld = p.stops == nil || p.stops.Hold(g.Request)
	return g.stopsHeld
}

// ended records that a sequence came to its end.
func (p *placer) ended(seq *sequence) {
	g := seq.group
	g.ended++
	p.releaseStops(g)
}

// releaseStops releases the room for the stops of a group whose sequences have all ended.
func (p *placer) releaseStops(g *group) {
	if g.ended == g.N && g.stopsHeld && p.stops != nil {
		p.stops.Release(g.Request)
		g.stopsHeld = false
	}
}

// chooseSource decides what the sequences of g start from: of named pages, a prefix row and the row of a context the
// one that holds the most tokens, or a new prefix row that starts from there and runs more. It returns false if g has
// to wait for a prefix row or, as long as all slots are busy anyway, for pages that come from the host during the next
// call.
func (p *placer) chooseSource(o *offer, g *group) (ok bool, err error) {
	if p.host.isOn() && !p.oneAtATime {
		chain := g.chain
		if g.pageScore() > 0 {
			chain = chain[:len(p.names.scores.known(chain))] // pages without scores must run again
		}
		named := p.names.longest(chain)
		if kept, end := p.host.cache.Blocks(chain, len(named), p.BlockPages); end > len(named) {
			busy := p.slots.active+len(o.waiting) >= p.MaxSeqs
			if busy && !p.host.device.IsStaged(blocksOf(kept)) {
				return false, nil
			}
			room, hold := o.room-o.freePages(p.names, named), slices.Concat(o.Named, named)
			if err := p.host.restore(kept, chain, len(named), end, room, hold); err != nil {
				return false, err
			}
		}
	}
	named, _ := p.names.beginning(g.chain, g.pageScore())
	var source *prefixRow
	held := len(named) * p.PageSize
	if row, pages := p.prefixes.byChain.Longest(g.chain); p.inherited(g.Request, pages*p.PageSize) > held {
		source, held = p.prefixes.useOf(row), p.inherited(g.Request, pages*p.PageSize)
	}
	// The pages of a context are not in the pool. Without them there may not be enough for a request that begins with
	// it.
	ofContext := p.prefixes.heldByContext(g.Request)
	if ofContext > 0 && (ofContext >= held || p.pages(g.MaxLen-1) > p.pool.size) {
		source, held = p.prefixes.useOf(g.Context), ofContext
	} else {
		ofContext = 0
	}
	prompt := len(g.Tokens) - 1 // the last token is run by each sequence
	common := p.inherited(g.Request, prompt)
	clones := g.N-g.admitted > 1 && common > 0 && p.Paged &&
		p.pagesAhead(g.Request, common)-ofContext/p.PageSize <= p.pool.size
	// A prefix that other groups in the queue have, too, runs once for all.
	if shared := p.queue.chains.Shared(g.chain) * p.PageSize; p.inherited(g.Request, shared) > held && !p.oneAtATime {
		if row := p.prefixes.add(g, shared, !clones || shared == prompt, source, held); row != nil {
			source, held = row, p.inherited(g.Request, shared)
		}
	}
	// So does what the sequences of one group have in common.
	if clones && common > held {
		if row := p.prefixes.add(g, prompt, true, source, held); row != nil {
			source, held = row, common
		} else if !p.oneAtATime {
			return false, nil
		}
	}
	g.sourced, g.sourcedFor, g.source, g.held = true, g.admitted, source, held
	if source != nil {
		p.prefixes.byChain.Use(source.row)
	}
	return true, nil
}

// offerSequences offers the sequences of a group that are not admitted yet, as many as the call takes. It returns false
// if the call can't hold the pages that they begin with.
func (p *placer) offerSequences(o *offer, g *group) bool {
	if g.admitted == g.N || p.isFull(o) {
		return true
	}
	named := None
	if g.source == nil {
		pages, scores := p.names.beginning(g.chain, g.pageScore())
		ok := false
		if named, ok = o.hold(p.names, pages, p.NamedLen()); !ok {
			return false
		}
		g.held, g.inherited = len(pages)*p.PageSize, inheritedScores{pages: scores}
	} else {
		g.inherited = inheritedScores{row: g.source.scores}
	}
	start, ok := o.appendPrompt(g.Tokens, g.held, p.PromptLimit)
	if !ok {
		return true
	}
	if len(o.waiting) == 0 { // later entries must leave room for the first
		o.room -= p.surePages(g.Request) - g.held/p.PageSize
	}
	for k := g.admitted; k < g.N && !p.isFull(o); k++ {
		e := Entry{Request: g.Request, Generation: g.First + k, Start: start, PromptLen: len(g.Tokens),
			MaxPages: p.surePages(g.Request), Source: None, Named: named, Held: g.held}
		if g.source != nil {
			e.Source, e.First = g.source.row, g.source.first == g && k == g.sourcedFor
		}
		o.waiting = append(o.waiting, &sequence{group: g, generation: e.Generation, row: None})
		o.Waiting = append(o.Waiting, e)
	}
	return true
}

// offerPrefix offers a prefix row that is not opened, after its own source. It returns false if the call has no room
// for it.
func (p *placer) offerPrefix(o *offer, row *prefixRow) bool {
	if row == nil || row.opened || slices.Contains(o.ahead, row) {
		return true
	}
	if !p.offerPrefix(o, row.source) || len(o.ahead) == p.AheadLen() {
		return false
	}
	named := None
	if row.source == nil {
		pages, scores := p.names.beginning(row.chain, row.score)
		ok := false
		if named, ok = o.hold(p.names, pages, p.NamedLen()); !ok {
			return false
		}
		row.held, row.settled, row.inherited = len(pages)*p.PageSize, len(pages), inheritedScores{pages: scores}
	} else {
		row.inherited = inheritedScores{row: row.source.scores}
	}
	start, ok := o.appendPrompt(row.placed(), row.held, p.PromptLimit)
	if ok {
		prompt := Prompt{Row: row.row, Start: start, PromptLen: len(row.tokens), MaxPages: p.prefixes.maxPages(row),
			Behind: len(o.waiting), Score: row.score, Variant: row.variant, Source: None, Named: named, Held: row.held}
		if row.source != nil {
			prompt.Source = row.source.row
		}
		o.ahead, o.Ahead = append(o.ahead, row), append(o.Ahead, prompt)
	}
	return ok
}
