package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// OutputTakenError reports that another job of the queue, which is not over, writes to the job's output.
type OutputTakenError struct {
	Output string
	Other  Job
}

// Error names the output and the job.
func (e *OutputTakenError) Error() string {
	return fmt.Sprintf("%s is the output of job %s, which has not ended", e.Output, e.Other.ID)
}

// claim names the job that has an output. A job has its output as soon as its record states that it is not over, and
// writes its claim after that. So if another job's record changed after a submitter read it, the submitter finds the
// claim changed, too.
type claim struct {
	Job string `json:"job"`
}

// claims is which job has which output.
type claims struct {
	bucket *bucket
	units  *unitStream
}

// outputKey returns the key of the claim of an output. No key of a job equals it: names of jobs have no slash.
func outputKey(output string) string {
	sum := sha256.Sum256([]byte(output))
	return "output/" + hex.EncodeToString(sum[:16])
}

// owner reports whether the job's output is ours, and the revision of the claim that it read. The error is an
// [*OutputTakenError] if another job that is not over has the output.
func (c *claims) owner(ctx context.Context, job Job) (revision uint64, ours bool, err error) {
	if job.Output == "" {
		return 0, true, nil
	}
	var now claim
	revision, err = c.bucket.get(ctx, outputKey(job.Output), &now)
	if err != nil || revision == 0 || now.Job == job.ID {
		return revision, revision > 0, err
	}
	other, err := c.bucket.job(ctx, now.Job)
	if errors.Is(err, ErrNoJob) {
		return revision, false, nil
	}
	if err != nil {
		return revision, false, err
	}
	over, err := c.units.over(ctx, other)
	if err == nil && other.Cancelled {
		over, err = c.leftByWorkers(ctx, other.ID)
	}
	if err == nil && !over {
		err = &OutputTakenError{Output: job.Output, Other: other}
	}
	return revision, false, err
}

// AliveWithin is the age of the last heartbeat up to which a worker counts as alive.
const AliveWithin = 20 * time.Second

// leftByWorkers reports whether no worker works on a job. A worker that has not yet heard that the job was cancelled
// may still write to its output.
func (c *claims) leftByWorkers(ctx context.Context, id string) (bool, error) {
	now, err := c.units.now(ctx)
	if err != nil {
		return false, err
	}
	left := true
	err = c.bucket.each(ctx, id+".worker.*", func(entry jetstream.KeyValueEntry) error {
		left = left && now.Sub(entry.Created()) > AliveWithin
		return nil
	})
	return left, err
}

// take claims the output for the job, in place of the claim that was read. The error is errChanged if that has changed.
func (c *claims) take(ctx context.Context, job Job, was uint64) error {
	if job.Output == "" {
		return nil
	}
	_, err := c.bucket.swap(ctx, outputKey(job.Output), claim{job.ID}, was)
	if errors.Is(err, errChanged) {
		var now claim
		// by another submitter of the same job
		if _, err := c.bucket.get(ctx, outputKey(job.Output), &now); err != nil || now.Job == job.ID {
			return err
		}
	}
	return err
}
