package engine

import (
	"fmt"
	"time"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
)

// onDevice is the engine's device in a run, as the scheduler knows it.
type onDevice struct {
	core    *core.Core
	swapper *core.Swapper
	masks   *masks.Masks
	rows    *masks.Rows // rows of the slots
	room    admit.Room  // room for stops and adapters
	stats   *Stats
}

func newOnDevice(c *core.Core, swapper *core.Swapper, checker *admit.Checker, stats *Stats) onDevice {
	d := onDevice{core: c, swapper: swapper, masks: checker.Masks(), stats: stats,
		rows: masks.NewRows(checker.Masks(), c.Settled.Sizes.Slots,
			func(r *schedule.Request) *masks.Request { return admit.Of(r).Masks })}
	if n := checker.StopStates(); n > 0 {
		d.room.Arena = stopping.NewArena(n)
	}
	d.room.Adapters = checker.Adapters()
	d.room.Adapters.Begin()
	return d
}

// Run implements [schedule.Device].
func (d onDevice) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	if err := d.core.Grow(features(in), d.swapper.Wait); err != nil {
		return nil, schedule.Spent{}, err
	}
	p := d.core.Program(device.Run)
	if d.room.Arena != nil {
		if err := d.core.PlaceStops(d.room.Arena); err != nil {
			return nil, schedule.Spent{}, err
		}
	}
	if err := d.placeAdapters(); err != nil {
		return nil, schedule.Spent{}, err
	}
	output, err := d.run(p, in)
	if err != nil {
		return nil, schedule.Spent{}, err
	}
	if err := output.Status.Check(output.Rules, d.core.Pinned()); err != nil {
		return &output.OutputOf, schedule.Spent{}, fmt.Errorf("program %s: %w", p.Name, err)
	}
	d.core.ExpectTransfers(int(output.MinFree))
	began, elapsed := d.core.Ran()
	spent := schedule.Spent{Device: elapsed}
	spent.Prefill, spent.Decode, spent.Clocked = device.Spent(output)
	d.traceSteps(output, began, spent)
	return &output.OutputOf, spent, nil
}

// placeAdapters brings adapters to the device that the next call needs.
func (d onDevice) placeAdapters() error {
	list := d.room.Adapters.Pending()
	if len(list) == 0 {
		return nil
	}
	defer d.core.Span(schedule.HostTrack, "load adapters")("adapters", len(list))
	start := d.core.Now()
	for _, p := range list {
		if err := d.core.Adapters.Place(p.Slot, p.Adapter); err != nil {
			return err
		}
	}
	d.stats.AdapterLoads += len(list)
	d.stats.AdapterSeconds += d.core.Now().Sub(start).Seconds()
	return nil
}

// features returns the features that entries and prompts ahead ask for.
func features(in *schedule.Input) (all Features) {
	for _, entry := range in.Waiting {
		all |= admit.Of(entry.Request).Features
	}
	for _, p := range in.Ahead {
		if p.Score > 0 {
			all |= admit.ScoringFeatures(0, p.Score-1)
		}
	}
	return all
}

// run runs program run.
func (d onDevice) run(p *device.Compiled, in *schedule.Input) (*device.Output, error) {
	c := d.core
	if !c.Graphs().Features.Has(MaskedTokens) {
		return core.Execute[device.Output](c, p, tree.Arrays(c.Graphs().Fill(in, d.row)))
	}
	states, err := d.rows.Begin(in)
	if err != nil {
		return nil, err
	}
	input := c.Graphs().Fill(in, d.row)
	copy(input.Masks.States, states.Slots)
	copy(input.Asked.MaskStates, states.Entries)
	patch, more := d.masks.Arena.Take()
	for ; more; patch, more = d.masks.Arena.Take() { // more than a call takes: it does nothing else
		nothing := c.Graphs().NewInput()
		nothing.Masks.Patch, nothing.Tokens = *patch, nil
		if _, err := core.Execute[device.Output](c, p, tree.Arrays(nothing)); err != nil {
			return nil, err
		}
	}
	input.Masks.Patch = *patch
	end := d.masks.FillAhead()
	output, err := core.Execute[device.Output](c, p, tree.Arrays(input))
	end()
	if err != nil {
		return nil, err
	}
	if output.Waits[0] > 0 && output.Columns < int32(in.Columns) {
		d.stats.MaskReturns++
	}
	d.stats.MaskWaits += int(output.Waits[1])
	return output, d.rows.Settle(states, &output.OutputOf)
}

// Save implements [schedule.Device].
func (d onDevice) Save(row, tokens int) (*schedule.Pages, error) {
	return d.swapper.Save(row, tokens)
}

// Load implements [schedule.Device].
func (d onDevice) Load(row int, pages *schedule.Pages, from schedule.Origin) ([]int32, error) {
	return d.swapper.Load(row, pages, from)
}

// Keep implements [schedule.Device].
func (d onDevice) Keep(pages []int32) (schedule.Block, error) { return d.swapper.Keep(pages) }

// Restore implements [schedule.Device].
func (d onDevice) Restore(b schedule.Block, from, to, place int, hold []int32) ([]int32, error) {
	return d.swapper.Restore(b.(*core.Block), from, to, place, hold)
}

// Stage implements [schedule.Device].
func (d onDevice) Stage(blocks []schedule.Block) { d.swapper.Stage(blocks) }

// IsStaged implements [schedule.Device].
func (d onDevice) IsStaged(blocks []schedule.Block) bool { return d.swapper.IsStaged(blocks) }

// Bytes implements [schedule.Device].
func (d onDevice) Bytes(tokens int) int64 { return d.core.BytesOnHost(tokens) }

// row returns the row of an entry, with the stop states that it starts with.
func (d onDevice) row(entry schedule.Entry) device.Row {
	row := admit.Of(entry.Request).Row
	if d.room.Arena != nil {
		row.StopStates = d.room.States(entry)
	}
	return row
}

// stepsTrack has, below each call, how long its steps of each kind took in all: the device's clock adds them up, and
// does not record when each ran.
const stepsTrack = "steps of calls, added up by kind"

// traceSteps shows the steps of the call that ended last.
func (d onDevice) traceSteps(output *device.Output, start time.Time, spent schedule.Spent) {
	if d.core.Trace == nil || spent.Prefill+spent.Decode == 0 {
		return
	}
	rest := max(0, spent.Device-spent.Prefill-spent.Decode)
	prefill := start.Add(spent.Prefill)
	decode := prefill.Add(spent.Decode)
	d.core.Trace.Span(stepsTrack, "prefill", start, prefill, "steps", output.PrefillSteps,
		"tokens", output.PrefillTokens)
	d.core.Trace.Span(stepsTrack, "decode", prefill, decode, "steps", output.DecodeSteps, "tokens", output.DecodeTokens)
	d.core.Trace.Span(stepsTrack, "admission and the rest", decode, decode.Add(rest))
}
