package engine

import (
	"fmt"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/tree"
)

// onDevice is the engine's device as the scheduler knows it.
type onDevice struct {
	e     *Engine
	stops room // without an arena where the device looks for no stops
}

// Run implements [schedule.Device].
func (d onDevice) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	if err := d.e.grow(in.Waiting, in.Ahead); err != nil {
		return nil, schedule.Spent{}, err
	}
	p := d.e.program(device.Run)
	if d.stops.Arena != nil {
		if err := d.e.placeStops(d.stops.Arena); err != nil {
			return nil, schedule.Spent{}, err
		}
	}
	got, err := d.run(p, in)
	if err != nil {
		return nil, schedule.Spent{}, err
	}
	if err := got.Status.Check(got.Rules, d.e.pinnedPages()); err != nil {
		return &got.OutputOf, schedule.Spent{}, fmt.Errorf("program %s: %w", p.Name, err)
	}
	d.e.expectTransfers(int(got.MinFree))
	spent := schedule.Spent{Device: d.e.ran}
	spent.Prefill, spent.Decode = device.Spent(got)
	d.e.traceSteps(got, spent)
	return &got.OutputOf, spent, nil
}

// run runs program run.
func (d onDevice) run(p *device.Compiled, in *schedule.Input) (*device.Output, error) {
	e := d.e
	if !e.graphs.Features.Has(MaskedTokens) {
		return execute[device.Output](e, p, tree.Arrays(e.graphs.Fill(in, d.row)))
	}
	states, err := e.masks.begin(in)
	if err != nil {
		return nil, err
	}
	input := e.graphs.Fill(in, d.row)
	copy(input.Masks.States, states.slots)
	copy(input.Asked.MaskStates, states.entries)
	patch, more := e.masks.arena.Take()
	for ; more; patch, more = e.masks.arena.Take() { // more than a call takes: it does nothing else
		nothing := e.graphs.NewInput()
		nothing.Masks.Patch, nothing.Tokens = *patch, nil
		if _, err := execute[device.Output](e, p, tree.Arrays(nothing)); err != nil {
			return nil, err
		}
	}
	input.Masks.Patch = *patch
	end := e.masks.fillAhead()
	got, err := execute[device.Output](e, p, tree.Arrays(input))
	end()
	if err != nil {
		return nil, err
	}
	if got.Waits[0] > 0 && got.Columns < int32(in.Columns) {
		e.stats.MaskReturns++
	}
	e.stats.MaskWaits += int(got.Waits[1])
	return got, e.masks.settle(states, &got.OutputOf, func(r *Request) []int32 {
		tokens, _ := e.stopTokens(r)
		return tokens
	})
}

// Save implements [schedule.Device].
func (d onDevice) Save(row, tokens int) (*schedule.Pages, error) {
	return d.e.swapper.save(row, tokens)
}

// Load implements [schedule.Device].
func (d onDevice) Load(row int, pages *schedule.Pages, from schedule.Origin) ([]int32, error) {
	return d.e.swapper.load(row, pages, from)
}

// Keep implements [schedule.Device].
func (d onDevice) Keep(pages []int32) (schedule.Block, error) { return d.e.swapper.keep(pages) }

// Restore implements [schedule.Device].
func (d onDevice) Restore(b schedule.Block, from, to, place int, hold []int32) ([]int32, error) {
	return d.e.swapper.restore(b.(*block), from, to, place, hold)
}

// Stage implements [schedule.Device].
func (d onDevice) Stage(blocks []schedule.Block) { d.e.swapper.stage(blocks) }

// IsStaged implements [schedule.Device].
func (d onDevice) IsStaged(blocks []schedule.Block) bool { return d.e.swapper.isStaged(blocks) }

// Bytes implements [schedule.Device].
func (d onDevice) Bytes(tokens int) int64 { return d.e.bytesOnHost(tokens) }

// row is the parameters of an entry's row.
func (d onDevice) row(entry schedule.Entry) device.Row {
	e, t := d.e, entry.Request.Tag.(tag)
	r := t.whole
	row := device.Row{ID: r.ID, Generation: entry.Generation, MinLen: len(r.Tokens) + r.Sampling.MinTokens,
		MaxLen: e.maxLen(r), Row: feature.Row{Sampling: r.Sampling, Prompt: r.Tokens, Biases: t.biases,
			Thought: r.Thinking, Breakers: t.breakers}}
	row.StopTokens, _ = e.stopTokens(r)
	if d.stops.Arena != nil {
		row.StopStates = d.stops.states(entry)
	}
	return row
}
