// Package prepare opens the inputs of a job, identifies its model, and reports what is wrong with the two before the
// model is loaded.
package prepare

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/quire/quire/batch/arithmetic"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/arch"
)

// Opened is a job with its inputs, and what is known of its model.
type Opened struct {
	Job         *spec.Job
	Reader      *promptset.Reader
	Model       process.Identity
	Description *jobstate.Description
	Parts       folder.Parts
	graph       *lineage.Graph // once it was read; nil if no row continues another
}

// Open looks into the inputs and the model's files.
func Open(ctx context.Context, p *process.Process, j *spec.Job) (*Opened, error) {
	return OpenCopied(ctx, p, j, "")
}

// OpenCopied is open; copied has the rows of standard input, if they were copied already.
func OpenCopied(ctx context.Context, p *process.Process, j *spec.Job, copied string) (*Opened, error) {
	if err := j.CheckOutput(ctx); err != nil {
		return nil, err
	}
	j, reader, err := OpenJobInputs(ctx, j, p, copied)
	if err != nil {
		return nil, err
	}
	if err := spec.FirstError(func() error { return j.CheckAnswers(reader) },
		func() error { return j.CheckExclude(reader) },
		func() error { return j.CheckChoices(reader) },
		func() error { return j.CheckPartitions(reader) }); err != nil {
		return nil, err
	}
	model, err := p.Models.Identify(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if err := checkTokenizer(ctx, j, model, reader); err != nil {
		return nil, err
	}
	if j, err = WithModel(ctx, j, p, model); err != nil {
		return nil, err
	}
	j = cutAsExisting(ctx, p, j)
	parts := j.Parts(reader.NumRows())
	if j.KeepPartitions {
		parts = spec.InFolders(parts, spec.InputsOf(reader))
	}
	description, err := j.Describe(reader, parts, model.Fingerprint)
	if err != nil {
		return nil, err
	}
	return &Opened{Job: j, Reader: reader, Model: model, Description: description, Parts: parts}, nil
}

// OpenJobInputs looks into the inputs, and returns the job with the columns that their folders give. Names that no file
// has are an error of usage.
func OpenJobInputs(ctx context.Context, j *spec.Job, p *process.Process, copied string) (*spec.Job, *promptset.Reader,
	error) {
	j, err := j.WithMapping()
	if err != nil {
		return nil, nil, err
	}
	files := promptset.Anywhere()
	if j.ReadsStandard() {
		if copied == "" {
			if copied, err = keepStandardInput(ctx, p, j); err != nil {
				return nil, nil, err
			}
		}
		files = promptset.WithStandardInput(files, copied)
	}
	reader, err := promptset.OpenMapped(ctx, files, j.Inputs, j.Mapping)
	if wrong := (*promptset.FileError)(nil); errors.As(err, &wrong) && (wrong.Missing || wrong.NoPrompts) {
		if wrong.Advice.String() != "" {
			err = setting.Errorf("%w: %s", err, wrong.Advice)
		}
		return nil, nil, outcome.Errorf(outcome.Misused, "`input` %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	next := *j
	next.Partitions = reader.Partitions()
	return &next, reader, nil
}

// WithModel is the job with the defaults of its model, which is one that it can be done with.
func WithModel(ctx context.Context, j *spec.Job, p *process.Process, model process.Identity) (*spec.Job, error) {
	if err := checkTemplate(&j.Spec, model); err != nil {
		return nil, err
	}
	switch {
	case model.Classifier != nil && (j.Task == completion.Embed || !j.Encodes()):
		return nil, headError(j.Task, model.Classifier)
	case j.Task == completion.Embed:
		return j.WithSentence(model.Sentence, model.VectorSize, p.Printf)
	case j.Encodes():
		return j.WithClassifier(model.Classifier)
	}
	j, err := j.WithGeneration(model.Generation, p.Printf)
	if err == nil {
		j, err = j.WithStates(model.Sentence, model.VectorSize, p.Printf)
	}
	if err != nil {
		return nil, err
	}
	if err := checkParameters(ctx, p, j); err != nil {
		return nil, err
	}
	p.ReportDefaults(j)
	if j.Accept.Score != "" {
		_, _, reward, err := Reward(ctx, p, j)
		if err != nil {
			return nil, err
		}
		next := *j
		next.Accept.ScoreModel = reward.Fingerprint
		j = &next
	}
	if len(model.Adapters) > 0 {
		next := *j
		next.AdapterDigests = model.Adapters
		j = &next
	}
	return j, nil
}

// headError is why a model with a head is not for a task that has no use for it.
func headError(task completion.Task, head *arch.Classifier) error {
	scores, tasks := "classes", "classify"
	switch {
	case head.Tokens:
		scores = "tokens"
	case head.Answers > 0:
		scores, tasks = "pairs", "rerank"
	case len(head.Labels) == 1:
		tasks = "classify or rerank"
	}
	return outcome.Errorf(outcome.Misused, "`task` is %s, and the model's head scores %s: give `task` %s, or a model "+
		"without the head", cmp.Or(task, spec.TaskGenerate), scores, tasks)
}

// Arithmetic names what computes the job, before it is settled.
func (o *Opened) Arithmetic() (string, error) {
	return arithmetic.Name(&o.Job.Engine, o.Model.DType, "")
}

// WithJob is the same for the job as it was settled since.
func (o *Opened) WithJob(j *spec.Job) *Opened {
	settled := *o
	settled.Job = j
	return &settled
}

// NameInputs has rows name their files as the job did that was started.
func (o *Opened) NameInputs(was *jobstate.Description) {
	now, names := spec.InputsOf(o.Reader), make([]string, len(was.Inputs))
	for i, in := range was.Inputs {
		names[i] = in.Name
	}
	if jobstate.SameInputs(now, was.Inputs) && !slices.EqualFunc(now, was.Inputs,
		func(a, b jobstate.Input) bool { return a.Name == b.Name }) {
		o.Reader.Call(names)
	}
}

// Lineage is which row of the job each row continues; nil if none does.
func (o *Opened) Lineage(ctx context.Context) (*lineage.Graph, error) {
	if o.graph != nil {
		return o.graph, nil
	}
	var err error
	o.graph, err = lineage.Read(ctx, o.Reader, o.Parts.Rows)
	return o.graph, err
}

// CheckLineage refuses rows that continue rows of other units than their own, for processes that do the units apart.
func (o *Opened) CheckLineage(ctx context.Context, shard jobstate.Shard) error {
	l, err := o.Lineage(ctx)
	if l == nil || err != nil {
		return err
	}
	unit, unitOf := "part", func(row int64) int { return o.Parts.Of(row) }
	if !shard.Whole() {
		unit, unitOf = "shard", func(row int64) int { return o.Parts.Of(row) % shard.Count }
	}
	for row := range l.Rows() {
		parent := l.Of(row)
		if parent < 0 || unitOf(row) == unitOf(parent) {
			continue
		}
		reader := o.Reader.Beside()
		for r := range reader.Range(ctx, row, row+1) {
			return outcome.Errorf(outcome.Misused, "%w", &parentElsewhereError{r, parent, unit})
		}
		return reader.Err()
	}
	return nil
}
