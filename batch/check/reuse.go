package check

import (
	"context"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/reuse"
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
	sources  []lookup
	distinct reuse.Distinct
	// naming is how completions are taken apart, as a part of their names, and reports whether what comes of a request
	// depends on the row's id.
	naming func(row *promptset.Row, r *engine.Request) (form string, own bool)
}

// lookup is a place that may have completions.
type lookup interface {
	Lacks(k reuse.Keys, generations []int) []int
}

// newReuseCheck opens the places that the job copies from. An engine would settle on what a job settled on that has
// the same settings, as far as they are given.
func newReuseCheck(ctx context.Context, p *process.Process, opened *prepare.Opened, s *process.Session,
	b *ask.Builder, maxModelLen int) (*reuseCheck, error) {
	c := &reuseCheck{distinct: reuse.Distinct{Judge: reuse.Judge{Messages: p.Messages}}}
	j, columns := opened.Job, opened.Job.ColumnsOf(opened.Reader.Schema())
	if !copies(p) {
		c.naming = func(*promptset.Row, *engine.Request) (string, bool) { return "", j.Tools.Used() }
		c.namer = reuse.NewNamer(reuse.Basis{}, maxModelLen, columns, j.Forms())
		return c, nil
	}
	maker, err := results.NewMaker(p, j, s, opened.Reader.Schema(), columns)
	if err != nil {
		return nil, err
	}
	c.naming = maker.Naming
	if j.Tools.Used() {
		calls := &conversation.Tools{Settings: &j.Tools}
		c.naming = func(row *promptset.Row, r *engine.Request) (string, bool) {
			form, _ := maker.Naming(row, r)
			return form + calls.Naming(b, row), true
		}
	}
	if err := reuse.CheckPlaces(ctx, p.Reuse); err != nil {
		return nil, err
	}
	known := *opened.Description
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
	basis, err := reuse.Agreeing(ctx, p.FS, p.Reuse, p.Store, reuse.BasisOf(&known))
	if err != nil {
		return nil, err
	}
	c.namer = reuse.NewNamer(basis, maxModelLen, columns, j.Forms())
	for _, place := range p.Reuse {
		source, err := reuse.OpenOutput(ctx, p.FS, place, basis, j.ExcludedColumns(), p.Printf)
		if err != nil {
			return nil, err
		}
		source.Tell(p)
		c.sources = append(c.sources, source)
	}
	if p.Store != "" {
		store, err := reuse.OpenStore(ctx, p.Store, basis, p.Printf)
		if err != nil {
			return nil, err
		}
		c.sources = append(c.sources, store)
	}
	return c, nil
}

// copies reports whether the job copies completions from other places.
func copies(p *process.Process) bool { return len(p.Reuse) > 0 || p.Store != "" }

// add takes the next request.
func (c *reuseCheck) add(row *promptset.Row, r *engine.Request) {
	form, own := c.naming(row, r)
	named := c.namer.Name(r, form, own)
	left := c.distinct.Add(row, &named)
	c.Repeated += int64(r.N - len(left))
	for _, s := range c.sources {
		n := len(left)
		left = s.Lacks(named.Keys, left)
		c.Copied += int64(n - len(left))
	}
	c.Generated += int64(len(left))
}
