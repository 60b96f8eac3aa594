package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/jsonl"
)

var errNothingRead = endWith(Misused, "`input` is -, and there is nothing on standard input: give rows as JSONL")

// readsStandard says that the job's rows are those of standard input.
func (s *Spec) readsStandard() bool { return slices.Contains(s.Inputs, Standard) }

// files are where the job's inputs are. What comes from standard input is copied into the job's folder first: a
// resumed job reads it again.
func (t *Task) files(ctx context.Context) (promptset.Files, error) {
	if !t.readsStandard() {
		return promptset.Anywhere(), nil
	}
	if t.copied == "" {
		if err := t.keepStandard(ctx); err != nil {
			return nil, err
		}
	}
	return promptset.WithStandardInput(promptset.Anywhere(), t.copied), nil
}

// keepStandard copies standard input into the job's folder. Where it is empty, the copy of an earlier process stands
// for it.
func (t *Task) keepStandard(ctx context.Context) error {
	work, err := t.workFolder()
	if err != nil {
		return err
	}
	var state *jobstate.State
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		state, err = jobstate.Open(t.FS, work)
		return err
	})
	if err != nil {
		return err
	}
	defer state.Close()
	was := state.Job()
	if was == nil {
		if was, err = BegunJob(ctx, t.Output); err != nil {
			return err
		}
	}
	before := standardOf(was)
	if err := state.DropInputs(before); err != nil { // of processes that were killed before their job had begun
		return err
	}
	t.say("reading rows from standard input")
	digest, err := state.CopyInput(t.rowsOfInput(ctx))
	switch {
	case ctx.Err() != nil:
		return endWith(Interrupted, "interrupted: standard input was not read to its end")
	case err != nil:
		return fmt.Errorf("cannot read standard input: %w", err)
	case digest == "" && (before == "" || t.New):
		return errNothingRead
	case digest == "":
		digest = before
		t.say("standard input is empty: going on with the rows that the job in %s has read from it", t.Output)
		if read := was.Inputs[0].Rows; t.Extend && t.Limit > read {
			t.say("warning: `limit` is %d, and the job has read %s from standard input: give all rows again for more",
				t.Limit, plural.Count(read, "row"))
		}
	}
	t.copied = jobstate.InputCopy(work, digest)
	if _, err := os.Stat(t.copied); err != nil {
		return fmt.Errorf("standard input is empty, and what the job has read from it is not kept here: give the same "+
			"rows again (%w)", err)
	}
	return nil
}

// standardOf is the digest of what a job has read from standard input; "" is nothing.
func standardOf(job *jobstate.Description) string {
	if job == nil || len(job.Inputs) != 1 || job.Inputs[0].Name != promptset.StandardInput {
		return ""
	}
	return job.Inputs[0].Digest
}

// dropStandard removes what was read from standard input and is no input of the folder's job.
func (s *savedJob) dropStandard() error {
	if !s.shard.Whole() {
		return nil
	}
	return s.state.DropInputs(standardOf(s.state.Job()))
}

// copyStandard copies standard input to a file of this process, which the returned function removes.
func (t *Task) copyStandard(ctx context.Context) (remove func(), err error) {
	if !t.readsStandard() {
		return func() {}, nil
	}
	f, err := os.CreateTemp("", "sample-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("cannot copy standard input: %w", err)
	}
	remove = func() { os.Remove(f.Name()) }
	n, err := io.Copy(f, t.rowsOfInput(ctx))
	if err = errors.Join(err, f.Close()); err != nil {
		err = fmt.Errorf("cannot copy standard input: %w", err)
	} else if n == 0 {
		err = errNothingRead
	}
	if err != nil {
		remove()
		return nil, err
	}
	t.copied = f.Name()
	return remove, nil
}

// rowsOfInput gives the rows of standard input that the job takes, until ctx is done. A read of the input may outlast
// it.
func (t *Task) rowsOfInput(ctx context.Context) io.Reader {
	if t.Input == nil {
		return strings.NewReader("")
	}
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		err := jsonl.CopyRows(in, t.Input, t.Limit)
		if err == nil && t.Limit > 0 {
			t.endInput()
		}
		in.CloseWithError(err)
		stop()
	}()
	return out
}

// endInput closes standard input, of which the job takes no more: who writes more is told so.
func (t *Task) endInput() {
	if c, ok := t.Input.(io.Closer); ok {
		_ = c.Close() // that it stays open is no harm to the job
	}
}
