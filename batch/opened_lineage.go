package batch

import (
	"context"
	"fmt"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
)

// parentElsewhereError says that a row goes on from one that another process may draw.
type parentElsewhereError struct {
	row    *promptset.Row
	parent int64
	unit   string
}

func (e *parentElsewhereError) Error() string {
	return e.row.Error(fmt.Sprintf("(id %s) its parent %s, row %d of the job, is in another %s, and processes do not "+
		"wait for one another: run this job with one process, or give `part-rows` so that each row is in the part of "+
		"its parent", visible.Quoted(e.row.ID), visible.Quoted(e.row.Parent.ID), e.parent, e.unit)).Error()
}

// lineage is which row of the job each row goes on from; nil if none does.
func (o *Opened) lineage(ctx context.Context) (*lineage.Graph, error) {
	if o.graph != nil {
		return o.graph, nil
	}
	var err error
	o.graph, err = lineage.Read(ctx, o.reader, o.parts.Rows)
	return o.graph, err
}

// checkLineage refuses rows that go on from rows of other units than their own, for processes that do the units apart.
func (o *Opened) checkLineage(ctx context.Context, shard jobstate.Shard) error {
	l, err := o.lineage(ctx)
	if l == nil || err != nil {
		return err
	}
	unit, of := "part", func(row int64) int { return o.parts.Of(row) }
	if !shard.Whole() {
		unit, of = "shard", func(row int64) int { return o.parts.Of(row) % shard.Count }
	}
	for row := range l.Rows() {
		parent := l.Of(row)
		if parent < 0 || of(row) == of(parent) {
			continue
		}
		reader := o.reader.Beside()
		for r := range reader.Range(ctx, row, row+1) {
			return endWith(Misused, "%w", &parentElsewhereError{r, parent, unit})
		}
		return reader.Err()
	}
	return nil
}
