package schedule

import (
	"iter"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// prefixRows is the host's account of the rows after the slots: rows that run prompts and prefixes for their clones,
// and contexts. The run's goroutine owns it.
type prefixRows struct {
	Sizes
	rows []*prefixRow // by row, from the first after the slots; nil if unused
	// free are the prefix rows that nothing uses. A row that was just dropped is among them, since the next call frees
	// it before it gives out rows. Contexts choose their own rows, which are never here.
	free []int
	// byChain finds rows by the chains that they run, and counts the users of each: groups and rows that are going to
	// be its clones. A row with users must stay.
	byChain *prefix.Cache
	release []bool // shared with slots, see there
}

func newPrefixRows(s Sizes, release []bool, contexts []*Context) *prefixRows {
	t := &prefixRows{Sizes: s, rows: make([]*prefixRow, s.Rows()-s.Slots), byChain: prefix.NewCache(), release: release}
	for row := s.FirstContext() - 1; row >= s.Slots; row-- {
		t.free = append(t.free, row)
	}
	t.setContexts(contexts)
	return t
}

// useOf returns the use of a row.
func (t *prefixRows) useOf(row int) *prefixRow { return t.rows[row-t.Slots] }

// opened iterates over the rows that the device has.
func (t *prefixRows) opened() iter.Seq[*prefixRow] {
	return func(yield func(*prefixRow) bool) {
		for _, p := range t.rows {
			if p != nil && p.opened && !yield(p) {
				return
			}
		}
	}
}

// add makes a prefix row of the first size tokens of g's prompt, or of the part of them that a clone takes over. It
// will be a clone of source, unless that is nil. With first, the pages of g's next sequence are reserved with it. It
// returns nil if all rows are in use.
func (t *prefixRows) add(g *group, size int, first bool, source *prefixRow, held int) *prefixRow {
	if len(t.free) == 0 {
		return nil
	}
	if source != nil {
		t.byChain.Use(source.row) // until the row is opened
	}
	last := len(t.free) - 1
	p := &prefixRow{row: t.free[last], tokens: g.Tokens[:t.inherited(g.Request, size)], source: source, held: held}
	t.free = t.free[:last]
	if first {
		p.first = g
	}
	p.chain = g.chain[:min(len(g.chain), size/t.PageSize)]
	p.settled, p.variant = held/t.PageSize, g.Variant
	if p.score = g.pageScore(); p.score > 0 {
		p.scores = newScores(size, g.tops(), 0)
	}
	t.rows[p.row-t.Slots] = p
	t.byChain.Insert(p.row, p.chain)
	t.byChain.Unuse(p.row) // its clones will use it
	return p
}

// unused takes a row that is free now. A row that the next call frees first can't be used by anything that runs before
// that call.
func (t *prefixRows) unused() (row int, ok bool) {
	for i, row := range t.free {
		if !t.release[row] {
			t.free = slices.Delete(t.free, i, i+1)
			return row, true
		}
	}
	return 0, false
}

// addLoaded records that an unused row holds done tokens that were loaded from the host.
func (t *prefixRows) addLoaded(row, done int) *prefixRow {
	p := &prefixRow{row: row, opened: true, done: done, tokens: make([]int32, done)}
	t.rows[row-t.Slots] = p
	t.byChain.Insert(row, nil)
	return p
}

// settleOpened records which of the prompts ahead got their rows, and how many of their tokens did not have to run.
func (t *prefixRows) settleOpened(ahead []*prefixRow, output *Output) (anyOpened bool, heldTokens int) {
	for i, p := range ahead {
		if output.Opened[i] == 0 {
			continue
		}
		p.opened, anyOpened = true, true
		heldTokens += p.held
		if p.source != nil {
			t.byChain.Unuse(p.source.row)
			p.source = nil
		}
	}
	return anyOpened, heldTokens
}

// drop gives up a row. Its full pages have names and stay until others take them.
func (t *prefixRows) drop(p *prefixRow) {
	t.byChain.Remove(p.row)
	if p.opened {
		t.release[p.row] = true
	}
	t.free = append(t.free, p.row)
	t.rows[p.row-t.Slots] = nil
}

// dropUnused drops the rows whose last clone has started.
func (t *prefixRows) dropUnused() {
	for p := range t.opened() {
		if p.pinned == nil && t.byChain.Users(p.row) == 0 {
			t.drop(p)
		}
	}
}

// dropAll drops all rows but contexts. The caller makes their users choose again.
func (t *prefixRows) dropAll() {
	for _, p := range t.rows {
		if p != nil && p.pinned == nil {
			t.drop(p)
		}
	}
}

// onlyContexts reports whether no row is used except by contexts.
func (t *prefixRows) onlyContexts() bool {
	return !slices.ContainsFunc(t.rows, func(p *prefixRow) bool { return p != nil && p.pinned == nil })
}

// settleLengths records how long the rows are after a call.
func (t *prefixRows) settleLengths(output *Output) {
	for p := range t.opened() {
		p.done = int(output.SeqLens[p.row])
	}
}

// lengths returns how many tokens the rows have run.
func (t *prefixRows) lengths() []int {
	lengths := make([]int, len(t.rows))
	for i, p := range t.rows {
		if p != nil {
			lengths[i] = p.done
		}
	}
	return lengths
}

// tokensLeft returns how many tokens the rows that the device has must still run.
func (t *prefixRows) tokensLeft() (tokens int) {
	for p := range t.opened() {
		tokens += max(0, len(p.tokens)-p.done)
	}
	return tokens
}

// reserved returns how many free pages belong to rows that have not taken them yet.
func (t *prefixRows) reserved() (pages int) {
	for p := range t.opened() {
		pages += max(0, t.maxPages(p)-t.pages(p.done))
	}
	return pages
}

// maxPages returns the most pages that a row may hold, including the pages reserved for its first clone.
func (t *prefixRows) maxPages(p *prefixRow) int {
	if p.pinned != nil {
		return p.pinned.MaxPages
	}
	if p.first == nil {
		return t.pages(len(p.tokens))
	}
	return t.pagesAhead(p.first.Request, len(p.tokens))
}

// holdingOf returns the pages of the row at an index of the rows, or the given value if that is unused.
func (t *prefixRows) holdingOf(index int, unused *holding) *holding {
	if index < len(t.rows) && t.rows[index] != nil {
		return &t.rows[index].holding
	}
	return unused
}

// setContexts replaces the contexts. A context that stays keeps its row, and its users.
func (t *prefixRows) setContexts(contexts []*Context) {
	for _, p := range t.rows {
		if p != nil && p.pinned != nil &&
			!slices.ContainsFunc(contexts, func(c *Context) bool { return c.Row == p.row }) {
			t.byChain.Remove(p.row)
			t.rows[p.row-t.Slots] = nil
		}
	}
	for _, c := range contexts {
		p := t.useOf(c.Row)
		if p == nil {
			p = &prefixRow{row: c.Row, opened: true}
			t.rows[c.Row-t.Slots] = p
			t.byChain.Insert(c.Row, nil) // in use as long as it is there
		}
		p.tokens, p.done, p.pinned, p.holding = c.Tokens, c.Done, c, holding{}
	}
}

// contextsRun reports whether a context has tokens to be run.
func (t *prefixRows) contextsRun() bool {
	return slices.ContainsFunc(t.rows, func(p *prefixRow) bool {
		return p != nil && p.pinned != nil && p.done < len(p.tokens)
	})
}

// heldByContext returns how many tokens of a request's prompt its context holds and a clone may take over. The context
// may have changed since the request was made, so the tokens are compared.
func (t *prefixRows) heldByContext(r *Request) int {
	if r.Context == None || t.useOf(r.Context) == nil {
		return 0
	}
	p := t.useOf(r.Context)
	most := min(p.done, len(r.shareable()))
	for i, token := range p.tokens[:most] {
		if token != r.Tokens[i] {
			return t.wholePages(i)
		}
	}
	return t.wholePages(most)
}

// mixedOf returns the number of the mixed context that a request begins with; 0 if it begins with none.
func (t *prefixRows) mixedOf(r *Request) int {
	if r.Context == None || t.useOf(r.Context) == nil {
		return 0
	}
	return t.useOf(r.Context).pinned.Mixed
}

// need returns the most pages of the pool that a completion may need.
func (t *prefixRows) need(r *Request) int {
	pages := t.pages(r.MaxLen - 1)
	if t.Reserve { // otherwise the sequence may be swapped out, and comes back with pages of its own
		pages -= t.heldByContext(r) / t.PageSize
	}
	return pages
}
