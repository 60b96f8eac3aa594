package model

import "slices"

// admissible finds what may be admitted now.
func (c *call) admissible() {
	c.entries, c.prompts = map[int]int{}, nil
	slots, avail := c.freeSlots(), c.Unreserved()
	wanted, alone := 0, make([]int, len(c.in.Waiting)+1)
	var fitting []int
	stuck := -1
	for i, e := range c.in.Waiting {
		alone[i+1] = alone[i]
		if c.out.Placed[i] >= 0 {
			continue
		}
		if e.Source < 0 {
			alone[i+1]++
		}
		if !c.ready(e.Source, e.Held) {
			continue
		}
		need := c.need(e.MaxPages, e.Held)
		if e.First {
			need = 0
		}
		if wanted += need; wanted <= avail || need == 0 {
			fitting = append(fitting, i)
		}
		if stuck < 0 && need <= avail {
			stuck = i
		}
	}
	if len(fitting) == 0 && len(slots) == c.MaxSeqs && stuck >= 0 {
		fitting = []int{stuck}
	}
	if len(slots) >= c.fillAt() {
		for k, i := range fitting[:min(len(fitting), len(slots))] {
			c.entries[i] = slots[k]
		}
	}
	total := wanted
	for h, p := range c.in.Ahead {
		if c.out.Opened[h] != 0 || alone[p.Behind] > 0 || !c.ready(p.Source, p.Held) {
			continue
		}
		if total += c.need(p.MaxPages, p.Held); total <= avail {
			c.prompts = append(c.prompts, h)
		}
	}
}

// admit gives rows to what is admissible.
func (c *call) admit() {
	type begin struct{ row, source, named, held int }
	var all []begin
	for _, h := range c.prompts {
		p := c.in.Ahead[h]
		all = append(all, begin{p.Row, p.Source, p.Named, p.Held})
		r := &c.rows[p.Row]
		r.promptLen, r.maxPages, r.start, r.score = p.PromptLen, p.MaxPages, p.Start, p.Score
		c.out.Opened[h] = 1
		c.openedHere++
	}
	turn := 0
	for _, r := range c.rows[:c.Slots] {
		if r.used && r.length < r.promptLen {
			turn = max(turn, r.turn+1)
		}
	}
	for i := range c.in.Waiting {
		row, ok := c.entries[i]
		if !ok {
			continue
		}
		e := c.in.Waiting[i]
		all = append(all, begin{row, e.Source, e.Named, e.Held})
		r := &c.rows[row]
		r.promptLen, r.maxPages, r.start, r.owner = e.PromptLen, e.MaxPages, e.Start, i
		r.request, r.gen, r.score, r.leaf = e.Request, e.Generation, e.Request.Score, e.Request.Leaf
		if e.First {
			c.rows[e.Source].maxPages = c.pagesOf(e.Held)
		}
		r.drawn, r.turn = 0, turn
		if e.Resume && c.Stops {
			if r.drawn = int(e.StopStates[0]); r.drawn != e.Held+1-len(e.Request.Tokens) || e.StopStates[1] != -1 {
				panic("a sequence comes back with other states of its stops than it had")
			}
		} else if e.StopStates != nil {
			panic("a sequence that begins has states of its stops")
		}
		if e.Resume {
			r.queued = []int32{c.in.Tokens[e.Start+e.Held]}
		}
		c.out.Placed[i] = int32(row)
		c.placed++
	}
	slices.SortFunc(all, func(a, b begin) int { return a.row - b.row })
	partial := 0
	for _, b := range all {
		if b.source >= 0 && b.held%c.PageSize != 0 {
			partial++
		}
	}
	c.take(partial)
	for _, b := range all {
		r := &c.rows[b.row]
		if r.used {
			panic("a row is used twice")
		}
		if r.used = true; b.source >= 0 {
			c.clone(r, &c.rows[b.source], b.held)
		} else if b.held > 0 {
			c.join(r, c.in.Named[b.named:b.named+b.held/c.PageSize])
			if r.request != nil && b.row < c.Slots && !slices.Equal(c.tokens(r), r.request.Tokens[:b.held]) {
				panic("a page has another name than its contents")
			}
		}
	}
}
