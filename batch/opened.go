package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/folder"
)

// Opened is a job with its inputs, and what is known of its model.
type Opened struct {
	job         *Job
	reader      *promptset.Reader
	model       Identity
	description *jobstate.Description
	parts       folder.Parts
	graph       *lineage.Graph // once it was read; nil if no row goes on from another
}

// open looks into the inputs and the model's files.
func open(ctx context.Context, p *Process, j *Job) (*Opened, error) { return openWith(ctx, p, j, "") }

// openWith is open; copied has the rows of standard input, if they were copied already.
func openWith(ctx context.Context, p *Process, j *Job, copied string) (*Opened, error) {
	if err := j.checkOutput(ctx); err != nil {
		return nil, err
	}
	j, reader, err := j.openInputs(ctx, p, copied)
	if err != nil {
		return nil, err
	}
	if err := cmpOr(func() error { return j.canAnswer(reader) }, func() error { return j.canExclude(reader) },
		func() error { return j.canKeepPartitions(reader) }); err != nil {
		return nil, err
	}
	model, err := p.Models.Identify(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if err := j.needTokenizer(ctx, model, reader); err != nil {
		return nil, err
	}
	if j, err = j.withModel(ctx, p, model); err != nil {
		return nil, err
	}
	j = cutAsBegun(ctx, p, j)
	parts := j.parts(reader.NumRows())
	if j.KeepPartitions {
		parts = inFolders(parts, InputsOf(reader))
	}
	description, err := j.describe(reader, parts, model.Fingerprint)
	if err != nil {
		return nil, err
	}
	return &Opened{job: j, reader: reader, model: model, description: description, parts: parts}, nil
}

// openInputs looks into the inputs, and returns the job with the columns that their folders give. Names that no file
// has are an error of usage.
func (j *Job) openInputs(ctx context.Context, p *Process, copied string) (*Job, *promptset.Reader, error) {
	j, err := j.withMapping()
	if err != nil {
		return nil, nil, err
	}
	files := promptset.Anywhere()
	if j.readsStandard() {
		if copied == "" {
			if copied, err = keepStandard(ctx, p, j); err != nil {
				return nil, nil, err
			}
		}
		files = promptset.WithStandardInput(files, copied)
	}
	reader, err := promptset.OpenMapped(ctx, files, j.Inputs, j.mapping)
	if wrong := (*promptset.FileError)(nil); errors.As(err, &wrong) && (wrong.Missing || wrong.NoPrompts) {
		if wrong.Advice != "" {
			err = fmt.Errorf("%w: %s", err, wrong.Advice)
		}
		return nil, nil, endWith(Misused, "`input` %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	next := *j
	next.Partitions = reader.Partitions()
	return &next, reader, nil
}

// withModel is the job with the defaults of its model, which is one that it can be done with.
func (j *Job) withModel(ctx context.Context, p *Process, model Identity) (*Job, error) {
	if err := j.needTemplate(model); err != nil {
		return nil, err
	}
	j, err := j.withGeneration(model.Generation, p.tell)
	if err != nil {
		return nil, err
	}
	if err := checkOwn(ctx, p, j); err != nil {
		return nil, err
	}
	p.sayDefaults(j)
	return j, nil
}

// arithmetic names what computes the job, before it is settled.
func (o *Opened) arithmetic() (string, error) { return o.job.Engine.arithmetic(o.model.DType, "") }

// as is the same for the job as it was settled since.
func (o *Opened) as(j *Job) *Opened {
	settled := *o
	settled.job = j
	return &settled
}

// callInputs has rows name their files as the job did that was begun.
func (o *Opened) callInputs(was *jobstate.Description) {
	now, names := InputsOf(o.reader), make([]string, len(was.Inputs))
	for i, in := range was.Inputs {
		names[i] = in.Name
	}
	if jobstate.SameInputs(now, was.Inputs) && !slices.EqualFunc(now, was.Inputs,
		func(a, b jobstate.Input) bool { return a.Name == b.Name }) {
		o.reader.Call(names)
	}
}

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
