package model

import (
	"time"

	"github.com/quire/quire/engine/schedule"
)

// maxCalls is more than any test needs.
const maxCalls = 10000

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
		out.Pages = d.pageFates()
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

// newScores makes the places for scores.
func (d *Device) newScores(out *schedule.Output) {
	if d.Tops > 0 {
		n := len(out.Tokens) * d.Tops
		out.TopIDs, out.TopLogprobs = make([]int32, n), make([]float32, n)
	}
	if k := d.ScorePlaces; k > 0 {
		out.Scores = schedule.Scored{Count: make([]int32, 1), Owners: make([]int32, k), Positions: make([]int32, k),
			Logprobs: make([]float32, k), TopIDs: make([]int32, k*d.Tops), TopLogprobs: make([]float32, k*d.Tops)}
	}
}
