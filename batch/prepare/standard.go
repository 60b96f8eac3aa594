package prepare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/internal/plural"
)

// lockPatience is how long a run waits for the lock of a job. A process that was killed holds it until the system has
// freed its memory, and restarting it at once should work.
const lockPatience = 2 * time.Second

// RetryWhile retries lock while it fails because the lock is taken, for up to lockPatience.
func RetryWhile(ctx context.Context, taken error, lock func() error) error {
	until := time.Now().Add(lockPatience)
	for {
		if err := lock(); !errors.Is(err, taken) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var errNothingRead = outcome.Errorf(outcome.Misused,
	"`input` is -, and there is nothing on standard input: give rows as JSONL")

// keepStandardInput copies standard input into the job's folder, since a resumed job reads it again, and returns where
// the copy is; "" if the job reads none. If standard input is empty, the copy of an earlier process stands for it.
func keepStandardInput(ctx context.Context, p *process.Process, j *spec.Job) (copied string, err error) {
	if !j.ReadsStandard() {
		return "", nil
	}
	work, err := p.WorkFolder(j)
	if err != nil {
		return "", err
	}
	var state *jobstate.State
	err = RetryWhile(ctx, jobstate.ErrBusy, func() (err error) {
		state, err = jobstate.Open(p.FS, work)
		return err
	})
	if err != nil {
		return "", err
	}
	defer state.Close()
	was := state.Job()
	if was == nil {
		if was, err = jobstate.ReadOutput(ctx, j.Output); err != nil {
			return "", err
		}
	}
	before := StandardDigest(was)
	if err := state.DropInputs(before); err != nil { // left by processes killed before their job started
		return "", err
	}
	p.Statusf("reading rows from standard input")
	digest, err := state.CopyInput(rowsOfInput(ctx, p, j.Limit))
	switch {
	case ctx.Err() != nil:
		return "", outcome.Errorf(outcome.Interrupted, "interrupted: standard input was not read to its end")
	case err != nil:
		return "", fmt.Errorf("cannot read standard input: %w", err)
	case digest == "" && (before == "" || p.New):
		return "", errNothingRead
	case digest == "":
		digest = before
		p.Statusf("standard input is empty: continuing with the rows that the job in %s has read from it", j.Output)
		if read := was.Inputs[0].Rows; p.Extend && j.Limit > read {
			p.Statusf("warning: `limit` is %d, and the job has read %s from standard input: give all rows again for "+
				"more",
				j.Limit, plural.Count(read, "row"))
		}
	}
	copied = jobstate.InputCopy(work, digest)
	if _, err := os.Stat(copied); err != nil {
		return "", fmt.Errorf("standard input is empty, and what the job has read from it is not kept here: give the "+
			"same rows again (%w)", err)
	}
	return copied, nil
}

// StandardDigest is the digest of what a job has read from standard input; "" is nothing.
func StandardDigest(job *jobstate.Description) string {
	if job == nil || len(job.Inputs) != 1 || job.Inputs[0].Name != promptset.StandardInput {
		return ""
	}
	return job.Inputs[0].Digest
}

// CopyStandardInput copies standard input to a file of this process, which remove removes; "" if the job reads none.
func CopyStandardInput(ctx context.Context, p *process.Process, j *spec.Job) (copied string, remove func(), err error) {
	if !j.ReadsStandard() {
		return "", func() {}, nil
	}
	f, err := os.CreateTemp("", "sample-*.jsonl")
	if err != nil {
		return "", nil, fmt.Errorf("cannot copy standard input: %w", err)
	}
	remove = func() { os.Remove(f.Name()) }
	n, err := io.Copy(f, rowsOfInput(ctx, p, j.Limit))
	if err = errors.Join(err, f.Close()); err != nil {
		err = fmt.Errorf("cannot copy standard input: %w", err)
	} else if n == 0 {
		err = errNothingRead
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}

// rowsOfInput gives the rows of standard input that a job takes, until ctx is done. A read of the input may outlast it.
func rowsOfInput(ctx context.Context, p *process.Process, limit int64) io.Reader {
	if p.Input == nil {
		return strings.NewReader("")
	}
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		err := jsonl.CopyRows(in, p.Input, limit)
		if err == nil && limit > 0 {
			EndInput(p)
		}
		in.CloseWithError(err)
		stop()
	}()
	return out
}

// EndInput closes standard input when the job takes no more of it, so that the writer gets an error.
func EndInput(p *process.Process) {
	if c, ok := p.Input.(io.Closer); ok {
		_ = c.Close() // an open input does not harm the job
	}
}
