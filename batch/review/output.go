package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Output is the available completions of a job: in its parts, and, of parts that are not there yet, in its journal.
// Each completion is there once. It is as it was when it was opened: a job that runs continues undisturbed.
type Output struct {
	*promptset.Output
	Path string

	running *runningJob // nil for a single file, and if no job is known
}

// Open opens the output of a job, finished or not, or a single file. workDir is the --work-dir of the job, if it had
// one.
func Open(ctx context.Context, files vfs.FS, path, workDir string) (*Output, error) {
	o := &Output{Path: path}
	info, err := storage.Stat(ctx, path)
	if err == nil && !info.Folder {
		o.Output = promptset.OpenOutputFile(ctx, path)
		return o, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	missing := err
	place := folder.OpenToRead(ctx, files, path)
	// The journal is read before the parts: results that leave it meanwhile are in a part then.
	var jobErr error
	if o.running, jobErr = readRunning(ctx, files, path, workDir); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if o.Output, err = promptset.OpenOutput(place); errors.Is(err, fs.ErrNotExist) && o.running != nil {
		o.Output, err = &promptset.Output{}, nil
	}
	switch {
	case err != nil:
		return nil, cmp.Or(missing, err)
	case o.running != nil:
		return o, o.running.settle(ctx, o.Output, place)
	case len(o.Parts) > 0: // regardless of what is wrong with the job's description
		return o, nil
	case jobErr != nil:
		return nil, jobErr
	case missing != nil:
		return nil, missing
	}
	if work, err := process.WorkFolder(path, workDir); err == nil && jobstate.Running(work) {
		return nil, fmt.Errorf("%s has no completion yet: a process has started in it, and reads the "+
			"input, or loads the model", path)
	}
	return nil, fmt.Errorf("%s %w", path, promptset.ErrNoParts)
}

// Close ends reading.
func (o *Output) Close() error {
	if o.running == nil {
		return nil
	}
	return o.running.close()
}

// FindPrompts has the completions of answers to a batch file, which have no prompts, take them from the job's input.
// They have none if that is not what it was.
func (o *Output) FindPrompts(ctx context.Context) {
	b := o.running
	if b == nil || b.format != promptset.FormatOpenAI {
		return
	}
	if b.input == nil {
		b.input, _ = prepare.ReopenInputs(ctx, b.job, b.work)
	}
	b.prompts = b.input != nil
}

// Progress is how far the job is; nil if everything is there, and if no job is known.
func (o *Output) Progress() *Progress {
	if o.running == nil || len(o.running.missing) == 0 {
		return nil
	}
	return &o.running.Progress
}

// NoneYet is an error that reports why there is no completion, if there is none: how the job stands.
func (o *Output) NoneYet() error {
	p := o.Progress()
	if p == nil || len(o.Parts) > 0 || p.Completions > 0 {
		return nil
	}
	return fmt.Errorf("%s has no completion yet, of %d: %s", o.Path, p.Of, p.State)
}

// Completions yields the completions in the order of the output. A file that is an input is
// [completion.ErrNoCompletions].
func (o *Output) Completions(ctx context.Context) iter.Seq2[*promptset.Completion, error] {
	return func(yield func(*promptset.Completion, error) bool) {
		going := true
		each := func(c *promptset.Completion, err error) bool {
			going = yield(c, err) && err == nil
			return going
		}
		for _, part := range o.all() {
			switch {
			case part.Name == "":
				o.running.rows(ctx, part.Number, each)
			case o.running != nil && (o.running.prompts || o.running.adds(part.Number)):
				o.running.merge(ctx, o.Output.Rows(ctx, part), part, each)
			default:
				o.inPart(ctx, part, each)
			}
			if !going {
				return
			}
		}
	}
}

// all lists the parts, including the parts of the journal, which have no name.
func (o *Output) all() []folder.Part {
	parts := slices.Clone(o.Parts)
	if o.running != nil {
		for _, number := range o.running.missing {
			if !slices.ContainsFunc(o.Parts, func(p folder.Part) bool { return p.Number == number }) {
				parts = append(parts, folder.Part{Number: number})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b folder.Part) int { return cmp.Compare(a.Number, b.Number) })
	return parts
}

// inPart yields the completions of a part.
func (o *Output) inPart(ctx context.Context, part folder.Part, each func(*promptset.Completion, error) bool) {
	for c, err := range o.Output.Rows(ctx, part) {
		if err != nil {
			err = partError(part, err)
		}
		if !each(c, err) {
			return
		}
	}
}
