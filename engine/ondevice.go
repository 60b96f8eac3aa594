package engine

import (
	"fmt"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/tree"
)

// onDevice is the engine's device as the scheduler knows it. pinned is how many pages the run may not use.
type onDevice struct {
	e      *Engine
	pinned int
}

// Run implements [schedule.Device].
func (d onDevice) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	p := d.e.programs["run"]
	got, err := execute[hostOutput](d.e, p, tree.Arrays(d.e.fill(in)))
	if err != nil {
		return nil, schedule.Spent{}, err
	}
	if err := got.Status.check(got.Rules, d.pinned); err != nil {
		return nil, schedule.Spent{}, fmt.Errorf("program %s: %w", p.name, err)
	}
	return &got.OutputOf, schedule.Spent{Device: d.e.ran, Prefill: clocked(got.Clock, prefill),
		Decode: clocked(got.Clock, decode)}, nil
}

// Save implements [schedule.Device].
func (d onDevice) Save(row, tokens int) (*schedule.Pages, error) { return d.e.moves.save(row, tokens) }

// Load implements [schedule.Device].
func (d onDevice) Load(row int, pages *schedule.Pages, from schedule.Origin) error {
	return d.e.moves.load(row, pages, from)
}

// Stage implements [schedule.Device].
func (d onDevice) Stage(blocks []schedule.Block) { d.e.moves.stage(blocks) }

// IsStaged implements [schedule.Device].
func (d onDevice) IsStaged(blocks []schedule.Block) bool { return d.e.moves.isStaged(blocks) }

// Bytes implements [schedule.Device].
func (d onDevice) Bytes(tokens int) int64 { return d.e.bytesOnHost(tokens) }

// fill makes the arrays of what the scheduler offers.
func (e *Engine) fill(offer *schedule.Input) *hostInput {
	in := e.plan.newInput()
	copy(in.Release, offer.Release)
	copy(in.Tokens, offer.Tokens)
	copy(in.Starts, offer.Starts)
	in.Columns, in.EnoughFree = int32(offer.Columns), int32(offer.EnoughFree)
	w := &in.Waiting
	w.Count = int32(len(offer.Waiting))
	for i, entry := range offer.Waiting {
		e.setRow(w.Rows, i, entry.Request.Tag.(tag).whole, entry.Generation)
		w.Rows.PromptLens[i], w.Rows.MaxPages[i] = int32(entry.PromptLen), int32(entry.MaxPages)
		w.Starts[i], w.Sources[i], w.Held[i] = int32(entry.Start), int32(entry.Source), int32(entry.Held)
		w.First[i], w.Resume[i] = number(entry.First), number(entry.Resume)
	}
	a := &in.Ahead
	a.Count = int32(len(offer.Ahead))
	for i := range a.Rows {
		a.Rows[i], a.Sources[i] = schedule.None, schedule.None
	}
	for i, p := range offer.Ahead {
		a.Rows[i], a.Starts[i], a.Behind[i] = int32(p.Row), int32(p.Start), int32(p.Behind)
		a.PromptLens[i], a.MaxPages[i] = int32(p.PromptLen), int32(p.MaxPages)
		a.Sources[i], a.Held[i] = int32(p.Source), int32(p.Held)
	}
	return in
}

func number(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// sizes are those of the plan that the scheduler goes by.
func (p Plan) sizes() schedule.Sizes {
	return schedule.Sizes{Slots: p.slots, MaxSeqs: p.MaxSeqs, PrefixRows: p.Holders, Contexts: p.Contexts,
		Pages: p.Pages, PageSize: p.PageSize, MaxRounds: p.MaxRounds, PromptLimit: p.promptTokens(), Paged: p.layout.Paged,
		PrefixCache: p.PrefixCache, Reserve: p.Admission == Reserve, BlockPages: transferPages,
		Staged: blocksInFlight}
}
