// Package telemetry watches a run: what it knows is served as Prometheus metrics and health, and kept as a small time
// series in a file, from which a report is made when the run is over.
//
// A [Run] is told of rows by its methods, and of the device's calls by the engine's log, for which [Run.Handler] is a
// handler.
package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/tally"
)

// Row is a row that is finished.
type Row struct {
	ID           string  `json:"id"`
	Seconds      float64 `json:"seconds"` // from being taken up to its last completion
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"` // of all completions
	Completions  int     `json:"completions"`
	Err          string  `json:"error,omitempty"`
}

// Point is what a run had come to at one time.
type Point struct {
	Seconds      float64 `json:"s"` // since the start
	tally.Counts         // of this process
	Before       int64   `json:"before,omitempty"` // rows that earlier processes finished, as far as they were found
	Tokens       int64   `json:"tokens"`           // drawn, those that no completion has included
	Calls        int64   `json:"calls"`
	CallSeconds  float64 `json:"call_seconds"` // in which the device ran the program
	Active       int     `json:"active"`       // slots in use, as of the last call
	Waiting      int     `json:"waiting"`      // requests that wait for a slot
	Pages        int     `json:"pages"`        // pages in use, the most since the last point
	Restarts     int     `json:"restarts,omitempty"`
}

// Start describes a run.
type Start struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	Model   string    `json:"model"`
	Backend string    `json:"backend"`
	Rows    int64     `json:"rows"`   // to be done
	Before  int64     `json:"before"` // of them are in parts of earlier processes
	Slots   int       `json:"slots"`
	Pages   int       `json:"pages"`
}

// slowestRows is how many of the slowest rows are kept.
const slowestRows = 20

// Run watches one run. Its methods may be called from several goroutines.
type Run struct {
	began   time.Time
	metrics *metrics

	mu       sync.Mutex
	start    Start
	now      Point
	peak     int // pages in use, the most since the last point was taken
	slowest  []Row
	ready    bool      // a call can be made
	opening  time.Time // since when none can be
	waiting  bool      // there is nothing to do
	lastCall time.Time
	err      string
}

// NewRun begins to watch.
func NewRun() *Run {
	r := &Run{began: time.Now(), opening: time.Now()}
	r.metrics = newMetrics(r)
	return r
}

// Begin says that the process begins a job, perhaps after another one: points, the slowest rows and the start are that
// job's alone from now on, while the metrics go on counting.
func (r *Run) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.start, r.now, r.peak, r.slowest = time.Now(), Start{}, Point{}, 0, nil
	r.ready, r.waiting, r.opening = false, false, time.Now()
}

// Opening says that an engine is being opened: no call can be made until Started.
func (r *Run) Opening() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.waiting, r.opening = false, false, time.Now()
}

// Waiting says that there is nothing to do, as when a worker waits for a unit: until Working, no call is expected.
func (r *Run) Waiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = true
}

// Working says that there is something to do again.
func (r *Run) Working() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting {
		r.waiting, r.opening, r.lastCall = false, time.Now(), time.Now()
	}
}

// Started says that the engine is ready, for the first time or again.
func (r *Run) Started(s Start) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Time = r.start.Time; s.Time.IsZero() {
		s.Time = time.Now()
	}
	r.start, r.ready, r.waiting, r.lastCall, r.err = s, true, false, time.Now(), ""
	r.now.Before = max(r.now.Before, s.Before)
	r.metrics.started(s, r.now.Before)
}

// Restored takes a row of which the journal had all completions.
func (r *Run) Restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Before++
	r.metrics.jobsDone.Inc()
}

// Completed takes a completion of this process.
func (r *Run) Completed(reason string, tokens int, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Completion(reason, tokens, failed)
	r.metrics.completions.WithLabelValues(reason).Inc()
	r.metrics.kept.Add(float64(tokens))
}

// Failed says that the device failed; the run waits for it to be started again.
func (r *Run) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.err = false, err.Error()
	r.now.Restarts++
	r.metrics.restarts.Inc()
}

// Finished takes a row that is finished, after its completions.
func (r *Run) Finished(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := "good"
	if row.Err != "" {
		result = "error"
	}
	r.now.Row(row.PromptTokens, row.Err != "")
	m := r.metrics
	m.rows.WithLabelValues(result).Inc()
	m.promptTokens.Add(float64(row.PromptTokens))
	m.rowSeconds.Observe(row.Seconds)
	r.keepSlow(row)
}

// keepSlow keeps the slowest rows, the slowest first.
func (r *Run) keepSlow(row Row) {
	at, _ := slices.BinarySearchFunc(r.slowest, row, func(a, b Row) int {
		if a.Seconds >= b.Seconds {
			return -1
		}
		return 1
	})
	if at == slowestRows {
		return
	}
	r.slowest = slices.Insert(r.slowest, at, row)
	r.slowest = r.slowest[:min(len(r.slowest), slowestRows)]
}

// call takes a call of the device.
func (r *Run) call(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastCall = time.Now()
	r.now.Calls++
	r.now.CallSeconds += c.seconds
	r.now.Tokens += c.tokens
	r.now.Active, r.now.Waiting = int(c.active), int(c.waiting)
	m := r.metrics
	m.tokens.Add(float64(c.tokens))
	m.steps.WithLabelValues("prefill").Add(float64(c.prefillSteps))
	m.steps.WithLabelValues("decode").Add(float64(c.decodeSteps))
	m.callSeconds.Observe(c.seconds)
	if c.hasPages {
		r.now.Pages = r.start.Pages - int(c.freePages)
		r.peak = max(r.peak, r.start.Pages-int(c.fewestFree))
	}
}

// Now is how the run stands.
func (r *Run) Now() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	p.Seconds = time.Since(r.began).Seconds()
	return p
}

// point is how the run stands, for the series.
func (r *Run) point() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	p.Seconds = time.Since(r.began).Seconds()
	p.Pages = max(p.Pages, r.peak)
	r.peak = 0
	return p
}

// call is what the engine's log says of one.
type call struct {
	prefillSteps, decodeSteps, tokens, active, waiting int64
	seconds                                            float64
	freePages, fewestFree                              int64
	hasPages                                           bool
}

// Handler returns a handler for the engine's log that takes its calls, and hands on to next what next is enabled for.
func (r *Run) Handler(next slog.Handler) slog.Handler { return &tap{run: r, next: next} }

type tap struct {
	run  *Run
	next slog.Handler
}

func (t *tap) Enabled(context.Context, slog.Level) bool { return true }

func (t *tap) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "call" {
		var c call
		record.Attrs(func(a slog.Attr) bool {
			c.set(a)
			return true
		})
		t.run.call(c)
	}
	if t.next.Enabled(ctx, record.Level) {
		return t.next.Handle(ctx, record)
	}
	return nil
}

func (t *tap) WithAttrs(attrs []slog.Attr) slog.Handler { return &tap{t.run, t.next.WithAttrs(attrs)} }
func (t *tap) WithGroup(name string) slog.Handler       { return &tap{t.run, t.next.WithGroup(name)} }

func (c *call) set(a slog.Attr) {
	v := a.Value.Resolve()
	number := map[string]*int64{"prefill_steps": &c.prefillSteps, "decode_steps": &c.decodeSteps, "tokens": &c.tokens,
		"active": &c.active, "waiting": &c.waiting}
	switch {
	case number[a.Key] != nil && v.Kind() == slog.KindInt64:
		*number[a.Key] = v.Int64()
	case a.Key == "seconds" && v.Kind() == slog.KindFloat64:
		c.seconds = v.Float64()
	case a.Key == "free_pages": // after each step of the call
		if free, ok := v.Any().([]int32); ok && len(free) > 0 {
			c.freePages, c.fewestFree, c.hasPages = int64(free[len(free)-1]), int64(slices.Min(free)), true
		}
	}
}
