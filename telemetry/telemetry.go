// Package telemetry collects the figures of a run. It serves them as Prometheus metrics and health checks, and keeps a
// small time series in a file, from which a report is made after the run.
//
// The methods of a [Run] tell it about rows and device calls.
package telemetry

import (
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
	Host    string    `json:"host,omitempty"`
	DType   string    `json:"dtype,omitempty"`
	Weights string    `json:"weights,omitempty"`
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

// Idle reports that there is nothing to do: see [Run.Waiting].
func (r *Run) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
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

// Call is what one call of the device came to.
type Call struct {
	PrefillSteps, DecodeSteps int
	Tokens                    int     // drawn
	Seconds                   float64 // in which the device ran the program
	Active, Waiting           int     // sequences in slots, and requests that wait for one
	FreePages, FewestFree     int     // when the call ended, and after any of its steps
}

// Called takes a call of the device that has ended.
func (r *Run) Called(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastCall = time.Now()
	r.now.Calls++
	r.now.CallSeconds += c.Seconds
	r.now.Tokens += int64(c.Tokens)
	r.now.Active, r.now.Waiting = c.Active, c.Waiting
	r.now.Pages = r.start.Pages - c.FreePages
	r.peak = max(r.peak, r.start.Pages-c.FewestFree)
	m := r.metrics
	m.tokens.Add(float64(c.Tokens))
	m.steps.WithLabelValues("prefill").Add(float64(c.PrefillSteps))
	m.steps.WithLabelValues("decode").Add(float64(c.DecodeSteps))
	m.callSeconds.Observe(c.Seconds)
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
