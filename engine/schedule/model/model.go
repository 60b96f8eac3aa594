// Package model is a plain-Go model of the device, for tests: the rules of admission, prompts, decoding and pages that
// docs/architecture.md describes, without a model to compute. The scheduler's tests run random jobs on it, and the
// engine's tests compare it with the device itself.
package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/pagetable"
)

// Device is the model. It panics where a rule is broken: a row is used twice, a page that others hold is written to,
// pages run out.
type Device struct {
	schedule.Sizes
	PrefillTokens int // prompt tokens of a step
	// Draw says what follows the tokens of a sequence, and how it stands then.
	Draw func(Sequence) (int32, schedule.Finish)

	Calls, Saves, Loads int
	FailRun             int // the call that fails with ErrFailed, from 1; 0 = none
	FailSave, FailLoad  bool
	// Stops has the device keep what it knows of stops: here how many tokens were drawn, which must come back with a
	// sequence that was swapped out. Offered, if not nil, is told of each waiting entry.
	Stops   bool
	Offered func(*schedule.Request)
	// ScorePlaces is for how many scores of prompts the output has places; 0: none are scored. Score says how likely a
	// token is behind others, and which ones are the likeliest there.
	ScorePlaces int
	Score       func(before []int32, token int32, tops int) (logprob float32, ids []int32, logprobs []float32)
	// Tops is the width of the lists of the likeliest tokens, in the output.
	Tops int

	rows   []row
	table  *pagetable.Host
	taken  []int32   // pages taken for what is done now
	pages  [][]int32 // contents
	staged []schedule.Block
}

// Sequence is what a token is drawn for.
type Sequence struct {
	Tokens     []int32 // that its pages hold
	Request    *schedule.Request
	Generation int
	Place      int // of the token in the output of the call
}

// row is a row of the sequence table. Its parameters stay when the row is released, as on the device.
type row struct {
	used      bool
	length    int
	pages     []int32
	promptLen int
	maxPages  int
	request   *schedule.Request
	gen       int
	queued    []int32 // the token to decode next, if there is one
	start     int
	turn      int // when its prompt runs: lower ones first, then by row
	owner     int
	drawn     int // tokens since it began: what is known of its stops
	score     int
	leaf      bool
}

// ErrFailed is what fails where it should.
var ErrFailed = errors.New("the device failed")

// New makes a device whose rows are all free.
func New(s schedule.Sizes, prefillTokens int) *Device {
	d := &Device{Sizes: s, PrefillTokens: prefillTokens, rows: make([]row, s.Rows()),
		table: pagetable.NewHost(s.Pages)}
	if s.PrefixCache {
		d.table = pagetable.NewKeepingHost(s.Pages)
	}
	for range s.Pages {
		d.pages = append(d.pages, make([]int32, s.PageSize))
	}
	return d
}

// Free is how many pages no row holds.
func (d *Device) Free() (n int) { return d.table.NumFree() }

func (d *Device) pagesOf(tokens int) int { return (tokens + d.PageSize - 1) / d.PageSize }

// Unreserved is how many free pages are reserved for no row.
func (d *Device) Unreserved() int {
	n := d.Free()
	for _, r := range d.rows {
		if r.used {
			n -= max(0, r.maxPages-d.pagesOf(r.length))
		}
	}
	return n
}

func (d *Device) release(row int) {
	r := &d.rows[row]
	kept := r.length
	if !d.NameDrawn || r.leaf {
		kept = min(kept, r.promptLen)
	}
	ages := make([]int32, len(r.pages))
	for place := range kept / d.PageSize {
		ages[place] = d.table.Age(place, d.PagesPerSeq)
	}
	d.table.ReleaseOld(r.pages, ages)
	r.used, r.length, r.pages, r.queued = false, 0, nil, nil
}

// take takes the pages that are allocated next.
func (d *Device) take(n int) {
	if len(d.taken) > 0 {
		panic("pages were taken that nobody had use for")
	}
	if d.taken = d.table.Take(n); len(d.taken) < n {
		panic("out of pages")
	}
}

// alloc gives a row a page.
func (d *Device) alloc(r *row) {
	at := d.taken[0]
	d.taken = d.taken[1:]
	d.table.Mark(at, int32(r.owner*d.PagesPerSeq+len(r.pages)))
	clear(d.pages[at])
	r.pages = append(r.pages, at)
}

// write appends a token to a row.
func (d *Device) write(r *row, token int32) {
	if r.length%d.PageSize == 0 {
		d.alloc(r)
	}
	page := r.pages[r.length/d.PageSize]
	if d.table.RefCounts[page] != 1 {
		panic("a row writes to a page that others hold")
	}
	d.pages[page][r.length%d.PageSize] = token
	r.length++
}

// Tokens are those that a row holds, and whether it is used.
func (d *Device) Tokens(row int) (tokens []int32, used bool) {
	return d.tokens(&d.rows[row]), d.rows[row].used
}

// Page is the contents of a page.
func (d *Device) Page(page int32) []int32 { return d.pages[page] }

// tokens are the contents of a row.
func (d *Device) tokens(r *row) (all []int32) {
	for i := range r.length {
		all = append(all, d.pages[r.pages[i/d.PageSize]][i%d.PageSize])
	}
	return all
}

// clone begins a row with the first held tokens of another: full pages are shared, a partial one is copied.
func (d *Device) clone(to, from *row, held int) {
	if !from.used || from.length < held {
		panic("a clone of tokens that did not run")
	}
	if d.States && held%d.PageSize != 0 && held != from.length {
		panic("a clone whose last page has a state behind other tokens")
	}
	to.used = true
	to.pages = slices.Clone(from.pages[:held/d.PageSize])
	d.table.Share(to.pages)
	to.length = held / d.PageSize * d.PageSize
	for _, token := range d.tokens(from)[to.length:held] {
		d.write(to, token)
	}
}

// maxCalls is more than any test needs.
const maxCalls = 10000

// call is one Run.
type call struct {
	*Device
	in         *schedule.Input
	out        *schedule.Output
	entries    map[int]int // admitted now: entry to row
	prompts    []int
	drew       bool
	placed     int
	openedHere int
}

// Run implements [schedule.Device].
func (d *Device) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	if d.Calls++; d.Calls == d.FailRun {
		return nil, schedule.Spent{}, ErrFailed
	}
	if d.Calls > maxCalls {
		panic("the run has no end")
	}
	if len(in.Tokens) > d.PromptLimit || len(in.Waiting) > d.WaitingLen() || len(in.Ahead) > d.AheadLen() {
		panic("the call has no room for what is offered")
	}
	n := d.MaxRounds * d.Slots
	out := &schedule.Output{Tokens: make([]int32, n), Logprobs: make([]float32, n), Processed: make([]float32, n),
		Owners: make([]int32, n), Finish: make([]int32, n), Placed: make([]int32, d.WaitingLen()),
		Opened: make([]int32, d.AheadLen()), SeqLens: make([]int32, d.Rows()), FreePages: make([]int32, d.MaxRounds),
		Pages: make([]int32, 1)}
	for i := range out.Owners {
		out.Owners[i] = -1
	}
	for _, e := range in.Waiting {
		if d.Offered != nil {
			d.Offered(e.Request)
		}
	}
	for i := range out.Placed {
		out.Placed[i] = -1
	}
	d.table.Begin()
	for row, release := range in.Release {
		if release {
			d.release(row)
		}
	}
	for row := range d.rows {
		d.rows[row].start, d.rows[row].owner = int(in.Starts[row]), d.WaitingLen()+row
	}
	if len(in.Named) > d.NamedLen() || d.table.Pin(in.Named) > 0 {
		panic("pages are named that are not there")
	}
	d.newScores(out)
	c := &call{Device: d, in: in, out: out}
	out.MinFree = int32(d.Pages)
	for int(out.Columns) < in.Columns && int(out.PrefillSteps+out.DecodeSteps) < 4*in.Columns && c.roomToScore() {
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
		d.check(in.Named)
	}
	d.table.Release(in.Named)
	if d.table.Keeps() {
		out.Pages = d.fates()
	}
	for row, r := range d.rows {
		out.SeqLens[row] = int32(r.length)
		if d.Stops {
			out.StopStates = append(out.StopStates, int32(r.drawn), -1)
		}
	}
	out.EndFree, out.Short = int32(d.Free()), int32(c.short())
	return out, schedule.Spent{Device: time.Duration(1 + out.PrefillSteps + out.DecodeSteps)}, nil
}

// fates is Output.Pages.
func (d *Device) fates() []int32 {
	list := make([]int32, d.Sizes.Pages)
	for p, by := range d.table.Takers {
		if list[p] = 2 * by; d.table.RefCounts[p] > 0 {
			list[p]++
		}
	}
	return list
}

func (c *call) freeSlots() (list []int) {
	for row := range c.MaxSeqs {
		if !c.rows[row].used {
			list = append(list, row)
		}
	}
	return list
}

// fillAt is at how many free slots waiting sequences get them.
func (c *call) fillAt() int {
	waiting := 0
	for i := range c.in.Waiting {
		if c.out.Placed[i] < 0 {
			waiting++
		}
	}
	return min(max(1, c.MaxSeqs/16), max(1, waiting))
}

func (c *call) ready(source, held int) bool {
	return source < 0 || c.rows[source].used && c.rows[source].length >= held
}

func (c *call) need(maxPages, held int) int { return maxPages - held/c.PageSize }

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

// short is how many pages are missing for the next step of all that decode.
func (c *call) short() int {
	n := 0
	for _, r := range c.rows[:c.Slots] {
		if r.used && r.length >= r.promptLen && r.length%c.PageSize == 0 && c.pagesOf(r.length) >= r.maxPages {
			n++
		}
	}
	return max(0, n-c.Unreserved())
}

func (c *call) wantsDecode() bool {
	queued := slices.ContainsFunc(c.rows[:c.Slots], func(r row) bool { return r.queued != nil })
	waits := c.placed < len(c.in.Waiting) || c.openedHere < len(c.in.Ahead)
	early := len(c.freeSlots()) >= c.in.EnoughFree && !waits && c.out.Columns > 0
	return queued && c.short() == 0 && !early
}

// decode runs the token that each slot drew last.
func (c *call) decode() {
	need := 0
	for _, r := range c.rows[:c.Slots] {
		if r.queued != nil && r.length%c.PageSize == 0 {
			need++
		}
	}
	c.take(need)
	for row := range c.Slots {
		if c.rows[row].queued != nil {
			c.decodeRow(row)
		}
	}
	c.out.DecodeSteps++
	c.column()
}

func (c *call) decodeRow(row int) {
	r := &c.rows[row]
	c.write(r, r.queued[0])
	r.queued = nil
	c.out.DecodeTokens++
	c.sample(row)
}

// sample draws a token for a slot.
func (c *call) sample(row int) {
	r := &c.rows[row]
	at := int(c.out.Columns)*c.Slots + row
	token, finish := c.Draw(Sequence{c.tokens(r), r.request, r.gen, at})
	c.out.Tokens[at], c.out.Owners[at], c.out.Finish[at] = token, int32(r.owner), int32(finish)
	c.drawTops(r, token, at)
	c.drew = true
	r.drawn++
	if finish == schedule.Running {
		r.queued = []int32{token}
	} else {
		c.release(row)
	}
}

// column ends a step.
func (c *call) column() {
	free := int32(c.Free())
	c.out.FreePages[c.out.Columns], c.out.MinFree = free, min(c.out.MinFree, free)
	if c.drew {
		c.out.Columns++
	}
	c.drew = false
}

// check counts the references of pages, beside pins, and looks for a page that is written to and shared.
func (d *Device) check(pins []int32) {
	refs := make([]int32, d.Sizes.Pages)
	for i, r := range d.rows {
		if len(r.pages) != d.pagesOf(r.length) {
			panic(fmt.Sprintf("row %d has %d pages for %d tokens", i, len(r.pages), r.length))
		}
		for _, p := range r.pages {
			refs[p]++
		}
	}
	for _, p := range pins {
		refs[p]++
	}
	if !slices.Equal(refs, d.table.RefCounts) {
		panic("pages are held by others than rows")
	}
	if len(d.taken) > 0 {
		panic("pages were taken that nobody had use for")
	}
}
