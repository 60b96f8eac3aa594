package generate

import (
	"context"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/promptset"
)

// ancestry is what audited rows continue, as the published parts have it. A nil ancestry has nothing.
type ancestry struct {
	*lineage.Graph
	publishedParents
	known map[int64]*lineage.Parent
}

// openAncestry opens what audited rows continue; nil if no row continues another one.
func openAncestry(ctx context.Context, g *Generator, saved *resume.Saved) (*ancestry, error) {
	graph, err := g.Opened.Lineage(ctx)
	if graph == nil || err != nil {
		return nil, err
	}
	return &ancestry{graph, newPublishedParents(g.Opened, saved, g.builder, graph), map[int64]*lineage.Parent{}}, nil
}

// parentOf returns what a row continues; nil is nothing.
func (a *ancestry) parentOf(ctx context.Context, row *promptset.Row) (*lineage.Parent, error) {
	if a == nil {
		return nil, nil
	}
	parent, err := a.Parent(row)
	if parent < 0 || err != nil {
		return nil, err
	}
	return a.find(ctx, parent)
}

// find returns what others need of a row.
func (a *ancestry) find(ctx context.Context, row int64) (p *lineage.Parent, err error) {
	if p = a.known[row]; p != nil {
		return p, nil
	}
	var from *lineage.Parent
	if parent := a.Of(row); parent >= 0 {
		if from, err = a.find(ctx, parent); err != nil {
			return nil, err
		}
	}
	if p, err = a.published(ctx, row, from); err == nil {
		a.known[row] = p
	}
	return p, err
}
