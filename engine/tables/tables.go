// Package tables describes the engine's tables to people: rows with their pages, waiting tokens and entries, the page
// table's counts, and contradictions between them. It takes the device's arrays by their names, so that an array added
// to the state later is shown too.
package tables

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/tree"
)

// Head describes what was dumped.
type Head struct {
	Time    time.Time `json:"time"`
	Model   string    `json:"model"`
	Backend string    `json:"backend"`
	Replica int       `json:"replica"`
	// Calls is how many calls of the run have ended; 0 between runs.
	Calls int64 `json:"calls"`
	// Fault is why the dump was made, if it was an error.
	Fault string `json:"fault,omitempty"`
	// Lost is the reason why the device's arrays are missing.
	Lost  string `json:"lost,omitempty"`
	Slots int    `json:"slots"`
	// FirstContext is the first row of contexts; those from Slots on are prefix rows.
	FirstContext int `json:"first_context"`
	PageSize     int `json:"page_size"`
}

// Dump is the tables at one time.
type Dump struct {
	Head
	Pages Pages  `json:"pages"`
	Rows  []Row  `json:"rows"` // rows that the device or the host uses
	Queue []Item `json:"queue"`
	// Waiting and SwappedOut are the host's.
	Waiting    []Waiting  `json:"waiting,omitempty"`
	SwappedOut []Sequence `json:"swapped_out,omitempty"`
	// Contradictions are what can't be right: between the arrays, and between device and host.
	Contradictions []string `json:"contradictions"`
	// Arrays are all arrays of the device by name, the last axis innermost.
	Arrays []Array `json:"arrays"`
}

// Pages are the totals of the page table.
type Pages struct {
	Pages  int `json:"pages"`
	Free   int `json:"free"`
	Held   int `json:"held"`
	Shared int `json:"shared"` // held more than once
	// Reserved counts the pages that are guaranteed to rows and not held yet; any row may get the other free pages.
	Reserved int `json:"reserved"`
	// LargestCount and SumOfCounts are of reference counts; Most are pages with the largest one.
	LargestCount int     `json:"largest_count"`
	Most         []int   `json:"most,omitempty"`
	SumOfCounts  int     `json:"sum_of_counts"`
	Histogram    []Count `json:"histogram"`
}

// Count is how many pages have so many references.
type Count struct {
	References int `json:"references"`
	Pages      int `json:"pages"`
}

// Page is a page of a row.
type Page struct {
	Page       int `json:"page"`
	References int `json:"references"`
}

// Kinds of rows.
const (
	Slot    = "slot"
	Prefix  = "prefix row"
	Context = "context"
)

// Row is one row of the sequence table.
type Row struct {
	Row    int    `json:"row"`
	Kind   string `json:"kind"`
	Used   bool   `json:"used"` // used by the device
	Length int    `json:"length"`
	Pages  []Page `json:"pages"`
	// Sure is how many pages are guaranteed to the row; the ones that it does not hold are reserved.
	Sure       int  `json:"sure_pages"`
	CloneOf    *int `json:"clone_of,omitempty"` // row
	PromptLen  int  `json:"prompt_tokens"`      // prompt tokens to be run in the row
	MaxLen     int  `json:"max_tokens"`         // length at which the sequence ends
	QueuedAt   *int `json:"queued_at,omitempty"`
	QueuedNext *int `json:"queued_token,omitempty"`
	// Sequence is the completion in a slot, as the host knows it.
	Sequence *Sequence `json:"sequence,omitempty"`
	// Host is what else the host knows about the row.
	Host string `json:"host,omitempty"`
}

// Sequence is a completion on its way.
type Sequence struct {
	Request    string `json:"request"`
	Generation int    `json:"generation"`
	Prompt     int    `json:"prompt_tokens"`
	Done       int    `json:"done"` // tokens in the cache, as the last call left them
	Last       int32  `json:"last_token"`
	Admission  int    `json:"admission"` // number of the admission in the run
}

// Item is a token in the queue.
type Item struct {
	Place    int   `json:"place"`
	Token    int32 `json:"token"`
	Row      int   `json:"row"`
	Position int   `json:"position"`
}

// Waiting is a request with waiting completions.
type Waiting struct {
	Request     string `json:"request"`
	Prompt      int    `json:"prompt_tokens"`
	Completions int    `json:"completions"`
	Admitted    int    `json:"admitted"`
	Source      *int   `json:"source,omitempty"` // the row to start from
	Held        int    `json:"held,omitempty"`   // tokens that are there
}

// Array is one array of the device.
type Array struct {
	Name   string `json:"name"`
	Dims   []int  `json:"dims"`
	Values any    `json:"values"`
}

// New describes arrays of the device, as [tree.Arrays] returns them, and what the host knows of them, if anything.
func New(head Head, arrays []tree.Array, host *schedule.View) *Dump {
	d := &Dump{Head: head, Rows: []Row{}, Queue: []Item{}, Contradictions: []string{}, Arrays: []Array{}}
	d.Pages.Histogram = []Count{}
	found := lookUp{}
	for _, a := range arrays {
		found[a.Name] = a
		d.Arrays = append(d.Arrays, Array{a.Name, a.Shape.Dimensions, finite(a.Flat)})
	}
	if len(arrays) > 0 {
		d.readQueue(found)
		d.readRows(found)
		d.readPages(found)
	}
	if host != nil {
		d.addHost(*host, len(arrays) > 0)
	}
	if len(arrays) > 0 {
		d.compare(found)
	}
	return d
}

// finite is an array as JSON can have it: numbers that are not finite become text.
func finite(flat any) any {
	floats, ok := flat.([]float32)
	bad := func(f float32) bool { return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) }
	if !ok || !slices.ContainsFunc(floats, bad) {
		return flat
	}
	list := make([]any, len(floats))
	for i, f := range floats {
		if list[i] = f; bad(f) {
			list[i] = fmt.Sprint(f)
		}
	}
	return list
}

// lookUp has arrays by name.
type lookUp map[string]tree.Array

func (l lookUp) ints(name string) []int32 {
	list, _ := l[name].Flat.([]int32)
	return list
}

// valueAt is a value of an array, or 0 if there is none.
func valueAt(list []int32, i int) int {
	if i < len(list) {
		return int(list[i])
	}
	return 0
}

func (d *Dump) readQueue(found lookUp) {
	tokens, rows, positions := found.ints("Queue.Tokens"), found.ints("Queue.SlotIDs"), found.ints("Queue.PosIDs")
	for i := range min(valueAt(found.ints("Queue.NumQueued"), 0), len(tokens)) {
		d.Queue = append(d.Queue, Item{Place: i, Token: tokens[i], Row: valueAt(rows, i),
			Position: valueAt(positions, i)})
	}
}

func (d *Dump) readRows(found lookUp) {
	lens, pages, sources := found.ints("Sequences.SeqLens"), found.ints("Sequences.PageIndices"),
		found.ints("Sequences.CloneSources")
	used, _ := found["Sequences.Used"].Flat.([]bool)
	counts := found.ints("Pages.RefCounts")
	for row := range lens {
		r := Row{Row: row, Kind: d.kind(row), Used: row < len(used) && used[row], Length: int(lens[row]),
			Pages: []Page{}, Sure: valueAt(found.ints("Rows.MaxPages"), row),
			PromptLen: valueAt(found.ints("Rows.PromptLens"), row), MaxLen: valueAt(found.ints("Rows.MaxLens"), row)}
		perRow := len(pages) / len(lens)
		for _, page := range pages[row*perRow : (row+1)*perRow] {
			if page >= 0 {
				r.Pages = append(r.Pages, Page{int(page), valueAt(counts, int(page))})
			}
		}
		if source := valueAt(sources, row); source >= 0 && len(sources) > 0 {
			r.CloneOf = &source
		}
		for _, q := range d.Queue {
			if q.Row == row {
				position, token := q.Position, int(q.Token)
				r.QueuedAt, r.QueuedNext = &position, &token
			}
		}
		if r.Used || r.Length != 0 || len(r.Pages) > 0 {
			d.Rows = append(d.Rows, r)
		}
	}
}

func (d *Dump) kind(row int) string {
	switch {
	case row < d.Slots:
		return Slot
	case row < d.FirstContext:
		return Prefix
	}
	return Context
}

func (d *Dump) readPages(found lookUp) {
	counts := found.ints("Pages.RefCounts")
	p := &d.Pages
	p.Pages = len(counts)
	having := map[int]int{}
	for page, c := range counts {
		count := int(c)
		having[count]++
		p.SumOfCounts += count
		switch {
		case count == 0:
			p.Free++
		case count > 1:
			p.Shared++
		}
		if count > p.LargestCount {
			p.LargestCount, p.Most = count, nil
		}
		if count > 0 && count == p.LargestCount && len(p.Most) < most {
			p.Most = append(p.Most, page)
		}
	}
	p.Held = p.Pages - p.Free
	for count, pages := range having {
		p.Histogram = append(p.Histogram, Count{count, pages})
	}
	slices.SortFunc(p.Histogram, func(a, b Count) int { return a.References - b.References })
	for _, r := range d.Rows {
		if r.Used {
			p.Reserved += max(0, r.Sure-d.pagesOf(r.Length))
		}
	}
}

// most is how many of many things are named.
const most = 20

func (d *Dump) pagesOf(tokens int) int { return (tokens + d.PageSize - 1) / max(1, d.PageSize) }

// addHost adds what the host knows.
func (d *Dump) addHost(host schedule.View, compare bool) {
	sequence := func(q *schedule.SequenceView) *Sequence {
		return &Sequence{Request: q.Request.Tag.RequestName(), Generation: q.Generation, Prompt: len(q.Request.Tokens),
			Done: q.Done, Last: q.Last, Admission: q.Born}
	}
	for _, v := range host.Rows {
		i, there := slices.BinarySearchFunc(d.Rows, v.Row, func(r Row, row int) int { return r.Row - row })
		if !there {
			d.Rows = slices.Insert(d.Rows, i, Row{Row: v.Row, Kind: d.kind(v.Row), Pages: []Page{}})
			if compare && !v.Releasing && (v.Sequence != nil || v.Opened) {
				d.contradict("the host uses row %d, and the device does not", v.Row)
			}
		}
		r := &d.Rows[i]
		switch {
		case v.Sequence != nil:
			r.Sequence = sequence(v.Sequence)
			if v.Sequence.Cancelled {
				r.Host = "met a stop string"
			}
		case v.Pinned:
			r.Host = "held by a context"
		case v.Tokens > 0 && !v.Opened:
			r.Host = fmt.Sprintf("to run %d tokens, not started", v.Tokens)
		case v.Tokens > 0:
			r.Host = fmt.Sprintf("ran %d of %d tokens", v.Done, v.Tokens)
		}
		for _, note := range []struct {
			holds bool
			text  string
		}{{v.Releasing, "to be freed by the next call"}, {v.Failing, "given out by the call that failed"}} {
			if note.holds && r.Host != "" {
				r.Host += ", "
			}
			if note.holds {
				r.Host += note.text
			}
		}
		if compare && r.Sequence != nil && r.Used && !v.Failing && d.Fault == "" && r.Length != v.Sequence.Done {
			d.contradict("row %d has %d tokens on the device, and %d for the host", v.Row, r.Length, v.Sequence.Done)
		}
	}
	for _, w := range host.Waiting {
		waiting := Waiting{Request: w.Request.Tag.RequestName(), Prompt: len(w.Request.Tokens),
			Completions: w.Request.N, Admitted: w.Admitted, Held: w.Held}
		if w.Source != schedule.None {
			waiting.Source = &w.Source
		}
		d.Waiting = append(d.Waiting, waiting)
	}
	for _, q := range host.Swapped {
		d.SwappedOut = append(d.SwappedOut, *sequence(&q))
	}
}

func (d *Dump) contradict(format string, args ...any) {
	if len(d.Contradictions) < most {
		d.Contradictions = append(d.Contradictions, fmt.Sprintf(format, args...))
	} else if len(d.Contradictions) == most {
		d.Contradictions = append(d.Contradictions, "and more")
	}
}

// compare looks for what contradicts itself.
func (d *Dump) compare(found lookUp) {
	counts := found.ints("Pages.RefCounts")
	held := make([]int, len(counts))
	for _, r := range d.Rows {
		for _, p := range r.Pages {
			if p.Page < len(held) {
				held[p.Page]++
			} else {
				d.contradict("row %d has page %d, and there are %d", r.Row, p.Page, len(held))
			}
		}
		switch {
		case !r.Used && (r.Length != 0 || len(r.Pages) > 0):
			d.contradict("row %d is not used, and has %d tokens and %d pages", r.Row, r.Length, len(r.Pages))
		case r.Used && len(r.Pages) < d.pagesOf(r.Length):
			d.contradict("row %d has %d pages for %d tokens", r.Row, len(r.Pages), r.Length)
		}
	}
	for page, count := range counts {
		switch {
		case int(count) > held[page] && held[page] == 0:
			d.contradict("page %d is lost: its count is %d, and no row has it", page, count)
		case int(count) != held[page]:
			d.contradict("page %d has the count %d, and is in %d rows", page, count, held[page])
		}
	}
	for _, q := range d.Queue {
		i, there := slices.BinarySearchFunc(d.Rows, q.Row, func(r Row, row int) int { return r.Row - row })
		if !there || !d.Rows[i].Used {
			d.contradict("the queue has a token of row %d, which is not used", q.Row)
		}
	}
	if free := d.Pages.Free - d.Pages.Reserved; free < 0 {
		d.contradict("%d pages more are reserved than are free", -free)
	}
}
