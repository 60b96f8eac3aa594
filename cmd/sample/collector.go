package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/promptset"
)

const (
	// errorExamples is how many of the rows with errors are named in the final report.
	errorExamples = 5
	// Bounds of what is read and not written: rows that run, and rows that wait for an earlier one.
	rowsInFlight = 8192
	bytesWaiting = 128 << 20
)

// rowWriter puts finished rows into the order of the input and writes them; *promptset.Writer is the real one.
type rowWriter interface {
	Add(row *promptset.Row, results []promptset.Result) error
	Pending() (rows int, bytes int64)
}

// collector gathers the completions of each row and hands rows that are finished to the writer. One goroutine begins rows
// and another one adds completions.
type collector struct {
	w        rowWriter
	inFlight int // bound of rows

	mu            sync.Mutex
	room          sync.Cond
	begun         int64
	waiting       int   // rows that the writer holds back
	waitingBytes  int64 // about how much they take
	tally         tally
	finishReasons map[string]int64
	errors        []string // the first few
	err           error    // of the writer; nothing is written after it
}

// pendingRow is a row whose completions are not all there.
type pendingRow struct {
	row     *promptset.Row
	results []promptset.Result
	left    int
}

func newCollector(w rowWriter, inFlight int) *collector {
	c := &collector{w: w, inFlight: inFlight, finishReasons: map[string]int64{}}
	c.room.L = &c.mu
	return c
}

// begin takes the next row, of which n completions will come. It waits while too much is in flight.
func (c *collector) begin(ctx context.Context, row *promptset.Row, n int) (*pendingRow, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	// With nothing running no completion would ever make room.
	for running := c.begun - c.tally.Rows; running > 0 && ctx.Err() == nil; running = c.begun - c.tally.Rows {
		if int(running)+c.waiting < c.inFlight && c.waitingBytes < bytesWaiting {
			break
		}
		c.room.Wait()
	}
	c.begun++
	return &pendingRow{row: row, left: n}, ctx.Err()
}

// fail takes the next row, which has one result: an error.
func (c *collector) fail(ctx context.Context, row *promptset.Row, err error) error {
	p, waitErr := c.begin(ctx, row, 1)
	if waitErr != nil {
		return waitErr
	}
	r := promptset.Result{FinishReason: string(engine.FinishError), Err: err.Error()}
	override(&r.Generation, row.Overrides.Generation)
	p.results = []promptset.Result{r}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finish(p)
}

// add adds one completion to its row, and hands the row to the writer when it is the last one. A request that the engine
// refuses as a whole has one completion, whatever its n.
func (c *collector) add(done *engine.Completion) error {
	p := done.Request.Tag.(*pendingRow)
	r := promptset.Result{
		Generation: done.Generation, Text: done.Text, TokenIDs: done.Tokens, Logprobs: done.Logprobs,
		FinishReason: string(done.FinishReason), PromptTokens: done.PromptTokens, CompletionTokens: len(done.Tokens),
	}
	if done.Err != nil {
		r.Err = done.Err.Error()
	}
	p.results = append(p.results, r)
	p.left--
	c.mu.Lock()
	defer c.mu.Unlock()
	if done.Err == nil {
		c.tally.Completions++
	}
	c.tally.CompletionTokens += int64(len(done.Tokens))
	if p.left > 0 && !refused(done.Err) {
		return c.err
	}
	return c.finish(p)
}

func refused(err error) bool {
	return errors.Is(err, engine.ErrEmptyPrompt) || errors.Is(err, engine.ErrPromptTooLong) || errors.Is(err, engine.ErrInvalidRequest)
}

// finish hands a row to the writer and counts it.
func (c *collector) finish(p *pendingRow) error {
	if c.err != nil {
		return c.err
	}
	slices.SortFunc(p.results, func(a, b promptset.Result) int { return a.Generation - b.Generation })
	failure := ""
	for _, r := range p.results {
		c.finishReasons[r.FinishReason]++
		if failure == "" {
			failure = r.Err
		}
	}
	c.tally.Rows++
	c.tally.PromptTokens += int64(p.results[0].PromptTokens)
	if failure != "" {
		c.tally.RowsWithErrors++
		if len(c.errors) < errorExamples {
			c.errors = append(c.errors, rowError(p.row, failure))
		}
	}
	c.err = c.w.Add(p.row, p.results)
	c.waiting, c.waitingBytes = c.w.Pending()
	c.room.Broadcast()
	return c.err
}

// counts returns what is done so far, and how many rows were begun and are not finished.
func (c *collector) counts() (done tally, running int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally, c.begun - c.tally.Rows
}
