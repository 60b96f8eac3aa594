// Package telemetry collects the figures of a run. It serves them as Prometheus metrics and health checks, and writes
// a small time series to a file, from which a report is made after the run.
//
// The methods of a [Run] record rows and device calls.
package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/data/tally"
)

// Row is a finished row.
type Row struct {
	ID           string  `json:"id"`
	Seconds      float64 `json:"seconds"` // time from its admission to its last completion
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"` // tokens of all completions
	Completions  int     `json:"completions"`
	Err          string  `json:"error,omitempty"`
}

// Point is a run's progress at one time.
type Point struct {
	Seconds      float64 `json:"s"` // time since the start
	tally.Counts         // counts of this process
	Before       int64   `json:"before,omitempty"` // rows that earlier processes finished, as far as they are known
	Tokens       int64   `json:"tokens"`           // generated tokens, including tokens that are not in a completion
	Calls        int64   `json:"calls"`
	CallSeconds  float64 `json:"call_seconds"` // time in which the device ran the program
	Active       int     `json:"active"`       // slots in use, as of the last call
	Waiting      int     `json:"waiting"`      // requests that wait for a slot
	Pages        int     `json:"pages"`        // the maximum of pages in use since the last point
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
	Rows    int64     `json:"rows"`   // rows to be done
	Before  int64     `json:"before"` // rows among them that are in parts of earlier processes
	Slots   int       `json:"slots"`
	Pages   int       `json:"pages"`
}

// Weights are weights that the engine of a run took.
type Weights struct {
	Name    string    `json:"name"` // "" for the weights that the engine was opened with
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// LoadSeconds is how long they were loaded alongside the run, WaitSeconds how long they then waited, and
	// StopSeconds how long the device did nothing.
	LoadSeconds float64 `json:"load_seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
	StopSeconds float64 `json:"stop_seconds"`
	Bytes       int64   `json:"bytes"`
	Restarted   int     `json:"restarted,omitempty"` // completions that were started again
	Continued   int     `json:"continued,omitempty"` // completions whose later tokens have these weights
}

// slowestRows is how many of the slowest rows are recorded.
const slowestRows = 20

// Run watches one run. Its methods may be called from several goroutines.
type Run struct {
	began   time.Time
	metrics *metrics

	mu       sync.Mutex
	start    Start
	now      Point
	peak     int // the maximum of pages in use since the last point
	slowest  []Row
	weights  []Weights // that the series does not have yet
	ready    bool      // a call can be made
	opening  time.Time // the time since which no call can be made
	waiting  bool      // there is nothing to do
	lastCall time.Time
	err      string
}

// NewRun returns a run without figures.
func NewRun() *Run {
	r := &Run{began: time.Now(), opening: time.Now()}
	r.metrics = newMetrics(r)
	return r
}

// Begin starts a job in this process, perhaps after another one: points, the slowest rows and the start are that
// job's from then on, while the metrics continue to count.
func (r *Run) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.start, r.now, r.peak, r.slowest = time.Now(), Start{}, Point{}, 0, nil
	r.weights = nil
	r.ready, r.waiting, r.opening = false, false, time.Now()
}

// Opening records that an engine is being opened: no call can be made until Started.
func (r *Run) Opening() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.waiting, r.opening = false, false, time.Now()
}

// Waiting records that there is nothing to do, for example when a worker waits for a unit: until Working, no call is
// expected.
func (r *Run) Waiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = true
}

// Working records that there is something to do again.
func (r *Run) Working() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting {
		r.waiting, r.opening, r.lastCall = false, time.Now(), time.Now()
	}
}

// Idle reports whether there is nothing to do: see [Run.Waiting].
func (r *Run) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// Started records that the engine is ready, for the first time or again.
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

// Took records that the engine took weights.
func (r *Run) Took(w Weights) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weights = append(r.weights, w)
}

// Restored records a row whose completions were all in the journal.
func (r *Run) Restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Before++
	r.metrics.jobsDone.Inc()
}

// Completed records a completion of this process.
func (r *Run) Completed(reason string, tokens int, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Completion(reason, tokens, failed)
	r.metrics.completions.WithLabelValues(reason).Inc()
	r.metrics.kept.Add(float64(tokens))
}

// Failed records that the device failed; the run then waits for it to be started again.
func (r *Run) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.err = false, err.Error()
	r.now.Restarts++
	r.metrics.restarts.Inc()
}

// Finished records a finished row, after its completions.
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
	index, _ := slices.BinarySearchFunc(r.slowest, row, func(a, b Row) int {
		if a.Seconds >= b.Seconds {
			return -1
		}
		return 1
	})
	if index == slowestRows {
		return
	}
	r.slowest = slices.Insert(r.slowest, index, row)
	r.slowest = r.slowest[:min(len(r.slowest), slowestRows)]
}

// Call has the figures of one call of the device.
type Call struct {
	PrefillSteps, DecodeSteps int
	Tokens                    int     // generated tokens
	Seconds                   float64 // time in which the device ran the program
	Active, Waiting           int     // sequences in slots, and requests that wait for a slot
	FreePages, FewestFree     int     // free at the end of the call; the minimum over its steps
}

// Called records a finished call of the device.
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

// Now returns the run's current progress.
func (r *Run) Now() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	p.Seconds = time.Since(r.began).Seconds()
	return p
}

// point returns the run's current progress, for the series.
func (r *Run) point() Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	p.Seconds = time.Since(r.began).Seconds()
	p.Pages = max(p.Pages, r.peak)
	r.peak = 0
	return p
}
