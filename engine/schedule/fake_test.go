package schedule_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/quire/quire/engine/schedule"
)

// fake is a plain-Go model of the device: the rules of admission, prompts, decoding and pages that docs/architecture.md
// describes. What it draws depends on the contents of the pages that a row has, so that a completion is another one if
// the scheduler lets it start from the wrong tokens.
type fake struct {
	schedule.Sizes
	prefillTokens int

	rows  []fakeRow
	refs  []int     // of pages
	pages [][]int32 // contents

	calls, saves, loads int
	failRun             int // the call that fails, from 1; 0 = none
	failSave, failLoad  bool
	steps               int
	staged              []schedule.Block
}

// fakeRow is a row of the sequence table. Its parameters stay when the row is released, as on the device.
type fakeRow struct {
	used      bool
	length    int
	pages     []int
	promptLen int
	maxPages  int
	request   *schedule.Request
	gen       int
	queued    []int32 // the token to decode next, if there is one
	start     int
	owner     int
}

var errFake = errors.New("the device failed")

func newFake(s schedule.Sizes, prefillTokens int) *fake {
	f := &fake{Sizes: s, prefillTokens: prefillTokens, rows: make([]fakeRow, s.Rows()), refs: make([]int, s.Pages)}
	for range s.Pages {
		f.pages = append(f.pages, make([]int32, s.PageSize))
	}
	return f
}

func (f *fake) free() (n int) {
	for _, r := range f.refs {
		if r == 0 {
			n++
		}
	}
	return n
}

func (f *fake) pagesOf(tokens int) int { return (tokens + f.PageSize - 1) / f.PageSize }

func (f *fake) unreserved() int {
	n := f.free()
	for _, r := range f.rows {
		if r.used {
			n -= max(0, r.maxPages-f.pagesOf(r.length))
		}
	}
	return n
}

func (f *fake) release(row int) {
	r := &f.rows[row]
	for _, p := range r.pages {
		f.refs[p]--
	}
	r.used, r.length, r.pages, r.queued = false, 0, nil, nil
}

// alloc gives a row a page.
func (f *fake) alloc(r *fakeRow) {
	at := slices.Index(f.refs, 0)
	if at < 0 {
		panic("out of pages")
	}
	f.refs[at] = 1
	clear(f.pages[at])
	r.pages = append(r.pages, at)
}

// write appends a token to a row.
func (f *fake) write(r *fakeRow, token int32) {
	if r.length%f.PageSize == 0 {
		f.alloc(r)
	}
	page := r.pages[r.length/f.PageSize]
	if f.refs[page] != 1 {
		panic("a row writes to a page that others hold")
	}
	f.pages[page][r.length%f.PageSize] = token
	r.length++
}

// tokens are the contents of a row.
func (f *fake) tokens(r *fakeRow) (all []int32) {
	for i := range r.length {
		all = append(all, f.pages[r.pages[i/f.PageSize]][i%f.PageSize])
	}
	return all
}

// clone begins a row with the first held tokens of another: full pages are shared, a partial one is copied.
func (f *fake) clone(to, from *fakeRow, held int) {
	if !from.used || from.length < held {
		panic("a clone of tokens that did not run")
	}
	to.used = true
	to.pages = slices.Clone(from.pages[:held/f.PageSize])
	for _, p := range to.pages {
		f.refs[p]++
	}
	to.length = held / f.PageSize * f.PageSize
	for _, token := range f.tokens(from)[to.length:held] {
		f.write(to, token)
	}
}

// call is one Run.
type fakeCall struct {
	*fake
	in         *schedule.Input
	out        *schedule.Output
	entries    map[int]int // admitted now: entry to row
	prompts    []int
	drew       bool
	placed     int
	openedHere int
}

// Run implements [schedule.Device].
func (f *fake) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	if f.calls++; f.calls == f.failRun {
		return nil, schedule.Spent{}, errFake
	}
	if f.calls > 10000 {
		panic("the run has no end")
	}
	if len(in.Tokens) > f.PromptLimit || len(in.Waiting) > f.WaitingLen() || len(in.Ahead) > f.AheadLen() {
		panic("the call has no room for what is offered")
	}
	n := f.MaxRounds * f.Slots
	out := &schedule.Output{Tokens: make([]int32, n), Logprobs: make([]float32, n), Processed: make([]float32, n),
		Owners: make([]int32, n), Finish: make([]int32, n), Placed: make([]int32, f.WaitingLen()),
		Opened: make([]int32, f.AheadLen()), SeqLens: make([]int32, f.Rows()), FreePages: make([]int32, f.MaxRounds)}
	for i := range out.Owners {
		out.Owners[i] = -1
	}
	for i := range out.Placed {
		out.Placed[i] = -1
	}
	for row, release := range in.Release {
		if release {
			f.release(row)
		}
	}
	for row := range f.rows {
		f.rows[row].start, f.rows[row].owner = int(in.Starts[row]), f.WaitingLen()+row
	}
	c := &fakeCall{fake: f, in: in, out: out}
	out.MinFree = int32(f.Pages)
	for int(out.Columns) < in.Columns && int(out.PrefillSteps+out.DecodeSteps) < 4*in.Columns {
		c.admissible()
		if len(c.entries) > 0 || len(c.prompts) > 0 {
			c.admit()
		} else if c.wantsPrefill() {
			c.prefill()
		} else if c.wantsDecode() {
			c.decode()
		} else {
			break
		}
		f.check()
	}
	for row, r := range f.rows {
		out.SeqLens[row] = int32(r.length)
	}
	out.EndFree, out.Short = int32(f.free()), int32(c.short())
	return out, schedule.Spent{Device: time.Duration(1 + out.PrefillSteps + out.DecodeSteps)}, nil
}

func (c *fakeCall) freeSlots() (list []int) {
	for row := range c.MaxSeqs {
		if !c.rows[row].used {
			list = append(list, row)
		}
	}
	return list
}

func (c *fakeCall) fillTogether() int { return max(1, c.MaxSeqs/16) }

func (c *fakeCall) ready(source, held int) bool {
	return source < 0 || c.rows[source].used && c.rows[source].length >= held
}

func (c *fakeCall) need(maxPages, source, held int) int {
	if source < 0 {
		return maxPages
	}
	return maxPages - held/c.PageSize
}

// admissible finds what may be admitted now.
func (c *fakeCall) admissible() {
	c.entries, c.prompts = map[int]int{}, nil
	slots, avail := c.freeSlots(), c.unreserved()
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
		need := c.need(e.MaxPages, e.Source, e.Held)
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
	if len(slots) >= c.fillTogether() {
		for k, i := range fitting[:min(len(fitting), len(slots))] {
			c.entries[i] = slots[k]
		}
	}
	total := wanted
	for h, p := range c.in.Ahead {
		if c.out.Opened[h] != 0 || alone[p.Behind] > 0 || !c.ready(p.Source, p.Held) {
			continue
		}
		if total += c.need(p.MaxPages, p.Source, p.Held); total <= avail {
			c.prompts = append(c.prompts, h)
		}
	}
}

// admit gives rows to what is admissible.
func (c *fakeCall) admit() {
	begin := func(row, source, held int) *fakeRow {
		r := &c.rows[row]
		if r.used {
			panic("a row is used twice")
		}
		if r.used = true; source >= 0 {
			c.clone(r, &c.rows[source], held)
		}
		return r
	}
	for _, h := range c.prompts {
		p := c.in.Ahead[h]
		r := begin(p.Row, p.Source, p.Held)
		r.promptLen, r.maxPages, r.start = p.PromptLen, p.MaxPages, p.Start
		c.out.Opened[h] = 1
		c.openedHere++
	}
	for i := range c.in.Waiting {
		row, ok := c.entries[i]
		if !ok {
			continue
		}
		e := c.in.Waiting[i]
		r := begin(row, e.Source, e.Held)
		r.promptLen, r.maxPages, r.start, r.owner = e.PromptLen, e.MaxPages, e.Start, i
		r.request, r.gen = e.Request, e.Generation
		if e.First {
			c.rows[e.Source].maxPages = c.pagesOf(e.Held)
		}
		if e.Resume {
			r.queued = []int32{c.in.Tokens[e.Start+e.Held]}
		}
		c.out.Placed[i] = int32(row)
		c.placed++
	}
}

func (c *fakeCall) remaining(rows []fakeRow) (n int) {
	for _, r := range rows {
		if r.used {
			n += max(0, r.promptLen-r.length)
		}
	}
	return n
}

func (c *fakeCall) wantsPrefill() bool {
	all := c.remaining(c.rows)
	return c.remaining(c.rows[:c.Slots]) > 0 ||
		all > 0 && (len(c.freeSlots()) >= c.fillTogether() || all >= c.prefillTokens)
}

// short is how many pages are missing for the next step of all that decode.
func (c *fakeCall) short() int {
	n := 0
	for _, r := range c.rows[:c.Slots] {
		if r.used && r.length >= r.promptLen && r.length%c.PageSize == 0 && c.pagesOf(r.length) >= r.maxPages {
			n++
		}
	}
	return max(0, n-c.unreserved())
}

func (c *fakeCall) wantsDecode() bool {
	queued := slices.ContainsFunc(c.rows[:c.Slots], func(r fakeRow) bool { return r.queued != nil })
	waits := c.placed < len(c.in.Waiting) || c.openedHere < len(c.in.Ahead)
	early := len(c.freeSlots()) >= c.in.EnoughFree && !waits && c.out.Columns > 0
	return queued && c.short() == 0 && !early
}

// prefill runs prompt tokens, those of slots first.
func (c *fakeCall) prefill() {
	left := c.prefillTokens
	for row := range c.rows {
		r := &c.rows[row]
		if !r.used || r.promptLen <= r.length {
			continue
		}
		for ; left > 0 && r.length < r.promptLen; left-- {
			c.write(r, c.in.Tokens[r.start+r.length])
			c.out.PrefillTokens++
		}
		if row < c.Slots && r.length == r.promptLen {
			c.sample(row)
		}
	}
	c.out.PrefillSteps++
	c.column()
}

// decode runs the token that each slot drew last.
func (c *fakeCall) decode() {
	for row := range c.Slots {
		if r := &c.rows[row]; r.queued != nil {
			c.write(r, r.queued[0])
			r.queued = nil
			c.out.DecodeTokens++
			c.sample(row)
		}
	}
	c.out.DecodeSteps++
	c.column()
}

// sample draws a token for a slot.
func (c *fakeCall) sample(row int) {
	r := &c.rows[row]
	token, finish := draw(c.tokens(r), r.request, r.gen)
	at := int(c.out.Columns)*c.Slots + row
	c.out.Tokens[at], c.out.Owners[at], c.out.Finish[at] = token, int32(r.owner), int32(finish)
	c.drew = true
	if finish == schedule.Running {
		r.queued = []int32{token}
	} else {
		c.release(row)
	}
}

// column ends a step.
func (c *fakeCall) column() {
	free := int32(c.free())
	c.out.FreePages[c.out.Columns], c.out.MinFree = free, min(c.out.MinFree, free)
	if c.drew {
		c.out.Columns++
	}
	c.drew = false
	c.steps++
}

// draw is what follows tokens in a completion, and how the sequence stands then.
func draw(tokens []int32, r *schedule.Request, generation int) (int32, schedule.Finish) {
	h := fnv.New64a()
	fmt.Fprint(h, tokens, r.Tag, generation)
	token := int32(h.Sum64() % 23)
	switch {
	case h.Sum64()%101 == 0:
		return -1, schedule.NotANumber
	case token == 0:
		return token, schedule.AtStopToken
	case len(tokens)+1 >= r.MaxLen:
		return token, schedule.AtLength
	}
	return token, schedule.Running
}

// check counts the references of pages, and looks for a page that is written to and shared.
func (f *fake) check() {
	refs := make([]int, len(f.refs))
	for i, r := range f.rows {
		if len(r.pages) != f.pagesOf(r.length) {
			panic(fmt.Sprintf("row %d has %d pages for %d tokens", i, len(r.pages), r.length))
		}
		for _, p := range r.pages {
			refs[p]++
		}
	}
	if !slices.Equal(refs, f.refs) {
		panic("pages are held by others than rows")
	}
}

// fakeBlock is pages on the host.
type fakeBlock struct{ pages [][]int32 }

// Save implements [schedule.Device].
func (f *fake) Save(row, tokens int) (*schedule.Pages, error) {
	if f.saves++; f.failSave {
		return nil, errFake
	}
	r := &f.rows[row]
	if !r.used || r.length < tokens {
		panic("saving tokens that did not run")
	}
	out := &schedule.Pages{Tokens: tokens}
	for from := 0; from*f.PageSize < tokens; from += f.BlockPages {
		b := &fakeBlock{}
		for _, p := range r.pages[from:min(len(r.pages), from+f.BlockPages)] {
			b.pages = append(b.pages, slices.Clone(f.pages[p]))
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out, nil
}

// Load implements [schedule.Device].
func (f *fake) Load(row int, pages *schedule.Pages, from schedule.Origin) error {
	if f.loads++; f.failLoad {
		return errFake
	}
	r := &f.rows[row]
	if r.used {
		panic("loading into a row that is used")
	}
	r.used, r.promptLen, r.maxPages = true, 0, 0
	if from.Pages > 0 {
		f.clone(r, &f.rows[from.Row], from.Pages*f.PageSize)
	}
	for i := r.length; i < pages.Tokens; i++ {
		page := i / f.PageSize
		block := pages.Blocks[page/f.BlockPages].(*fakeBlock)
		f.write(r, block.pages[page%f.BlockPages][i%f.PageSize])
	}
	f.check()
	return nil
}

// Stage implements [schedule.Device].
func (f *fake) Stage(blocks []schedule.Block) { f.staged = blocks[:min(len(blocks), f.Staged)] }

// IsStaged implements [schedule.Device].
func (f *fake) IsStaged(blocks []schedule.Block) bool {
	return !slices.ContainsFunc(blocks[:min(len(blocks), f.Staged)],
		func(b schedule.Block) bool { return !slices.Contains(f.staged, b) })
}

// Bytes implements [schedule.Device].
func (f *fake) Bytes(tokens int) int64 {
	return int64((f.pagesOf(tokens)+f.BlockPages-1)/f.BlockPages) * 100
}
