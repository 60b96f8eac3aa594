package check

import (
	"context"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// Reused is how completions would come to be.
type Reused struct {
	Generated int64 `json:"generated"`
	Copied    int64 `json:"copied"`   // of other outputs
	Repeated  int64 `json:"repeated"` // equal to another one of the job
}

// reuseCheck finds the completions that other outputs have.
type reuseCheck struct {
	Reused
	namer    *reuse.Namer
	sources  []*reuse.Output
	distinct reuse.Distinct
	own      bool // what comes of a request depends on the row's id
}

// newReuseCheck opens the outputs that the job copies from. An engine would settle on what a job settled on that has
// the same settings, as far as they are given.
func newReuseCheck(ctx context.Context, p *process.Process, opened *prepare.Opened, maxModelLen int) (*reuseCheck,
	error) {
	c := &reuseCheck{distinct: reuse.Distinct{Judge: reuse.Judge{Messages: p.Messages}},
		own: opened.Job.Tools.Used()}
	j, columns := opened.Job, opened.Job.ColumnsOf(opened.Reader.Schema())
	if p.Store != "" {
		return nil, outcome.Errorf(outcome.Misused, "`store` is for a run: what a store has is not told before; leave "+
			"it out")
	}
	if len(p.Reuse) == 0 {
		c.namer = reuse.NewNamer(reuse.Basis{}, maxModelLen, columns, j.Hidden.Form(j.Columns))
		return c, nil
	}
	if c.own {
		return nil, outcome.Errorf(outcome.Misused, "`reuse` with tools: what is copied depends on the conversations, "+
			"which only a run knows; leave it out")
	}
	if apart := j.Format == promptset.FormatOpenAI || slices.Contains(columns, spec.ReasoningColumn) ||
		slices.Contains(columns, spec.ToolCallsColumn); apart {
		return nil, outcome.Errorf(outcome.Misused, "`reuse` with the columns reasoning and tool_calls, or `format` "+
			"openai: what is copied depends on how completions are taken apart, which only a run knows; leave it out")
	}
	if err := reuse.CheckPlaces(ctx, p.Reuse); err != nil {
		return nil, err
	}
	known := *opened.Description
	var err error
	if known.Arithmetic, err = opened.Arithmetic(); err != nil {
		return nil, err
	}
	cfg := j.Engine.Config()
	if cfg.DType != dtypes.InvalidDType {
		known.Settled.DType = strings.ToLower(cfg.DType.String())
	}
	if cfg.KVDType != dtypes.InvalidDType {
		known.Settled.KVDType = strings.ToLower(cfg.KVDType.String())
	}
	basis, err := reuse.Agreeing(ctx, p.FS, p.Reuse, reuse.BasisOf(&known))
	if err != nil {
		return nil, err
	}
	c.namer = reuse.NewNamer(basis, maxModelLen, columns, j.Hidden.Form(j.Columns))
	for _, place := range p.Reuse {
		source, err := reuse.OpenOutput(ctx, p.FS, place, basis, j.ExcludedColumns(), p.Printf)
		if err != nil {
			return nil, err
		}
		source.Tell(p)
		c.sources = append(c.sources, source)
	}
	return c, nil
}

// add takes the next request.
func (c *reuseCheck) add(row *promptset.Row, r *engine.Request) {
	named := c.namer.Name(r, "", c.own)
	left := c.distinct.Add(row, &named)
	c.Repeated += int64(r.N - len(left))
	for _, s := range c.sources {
		n := len(left)
		left = s.Lacks(named.Keys, left)
		c.Copied += int64(n - len(left))
	}
	c.Generated += int64(len(left))
}
