package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
)

// Opened is a job with its inputs, and what is known of its model.
type Opened struct {
	job         *Job
	reader      *promptset.Reader
	model       Identity
	description *jobstate.Description
	parts       promptset.Parts
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
	j, err := j.withGeneration(p, model.Generation)
	if err != nil {
		return nil, err
	}
	if err := checkOwn(ctx, p, j); err != nil {
		return nil, err
	}
	p.sayDefaults(j)
	return j, nil
}

// canAnswer refuses inputs whose rows the output's format has no lines for.
func (s *Spec) canAnswer(r *promptset.Reader) error {
	name := r.NoRequests()
	if s.Format != promptset.FormatOpenAI || name == "" {
		return nil
	}
	return endWith(Misused, "`format` is openai, which answers the lines of OpenAI's batch files, and %s is none (its "+
		"lines have no custom_id, method, url and body): give `format` parquet or jsonl", name)
}

// arithmetic names what computes the job, before it is settled.
func (o *Opened) arithmetic() (string, error) { return o.job.Engine.arithmetic(o.model.DType, "") }

// as is the same for the job as it was settled since.
func (o *Opened) as(j *Job) *Opened {
	settled := *o
	settled.job = j
	return &settled
}
