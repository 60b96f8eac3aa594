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

// OutputTakenError says that another job of the queue, which is not over, writes to the job's output.
type OutputTakenError struct {
	Output string
	Other  Job
}

// Error names both.
func (e *OutputTakenError) Error() string {
	return fmt.Sprintf("%s is the output of job %s, which has not ended", e.Output, e.Other.ID)
}

// claim is whose an output is. A job has an output from the time its record says that it is not over, and its claim
// was written after that: a submitter that wrote its claim on what it read before another job's record changed finds
// the claim changed, too.
type claim struct {
	Job string `json:"job"`
}

// outputKey is where the claim of an output is. No job's keys are like that: names of jobs have no slash.
func outputKey(output string) string {
	sum := sha256.Sum256([]byte(output))
	return "output/" + hex.EncodeToString(sum[:16])
}

// Free returns an [*OutputTakenError] if another job that is not over has the job's output.
func (q *Queue) Free(ctx context.Context, job Job) error {
	_, _, err := q.owner(ctx, job)
	return err
}

// owner looks whose the job's output is: ours says that it is this job's; the error is that of Free.
func (q *Queue) owner(ctx context.Context, job Job) (revision uint64, ours bool, err error) {
	if job.Output == "" {
		return 0, true, nil
	}
	var c claim
	if revision, err = q.get(ctx, outputKey(job.Output), &c); err != nil || revision == 0 || c.Job == job.ID {
		return revision, revision > 0, err
	}
	other, err := q.Job(ctx, c.Job)
	if errors.Is(err, ErrNoJob) {
		return revision, false, nil
	}
	if err != nil {
		return revision, false, err
	}
	over, err := q.over(ctx, other)
	if err == nil && other.Cancelled {
		over, err = q.leftByWorkers(ctx, other.ID)
	}
	if err == nil && !over {
		err = &OutputTakenError{Output: job.Output, Other: other}
	}
	return revision, false, err
}

// over says that nothing of a job waits or is held by workers.
func (q *Queue) over(ctx context.Context, job Job) (bool, error) {
	if job.Cancelled {
		return true, nil
	}
	if !job.Ready {
		return false, nil
	}
	left, err := q.Left(ctx, job)
	return !left, err
}

// AliveWithin is the age of the last heartbeat up to which a worker counts as alive.
const AliveWithin = 20 * time.Second

// leftByWorkers says that no worker is at a job: one that has not heard yet that the job was cancelled may still write
// to its output.
func (q *Queue) leftByWorkers(ctx context.Context, id string) (bool, error) {
	now, err := q.now(ctx)
	if err != nil {
		return false, err
	}
	left := true
	err = q.each(ctx, id+".worker.*", func(entry jetstream.KeyValueEntry) error {
		left = left && now.Sub(entry.Created()) > AliveWithin
		return nil
	})
	return left, err
}

// claim makes the output the job's, in place of the claim that was read; errChanged says that it is another one now.
func (q *Queue) claim(ctx context.Context, job Job, was uint64) error {
	if job.Output == "" {
		return nil
	}
	_, err := q.swap(ctx, outputKey(job.Output), claim{job.ID}, was)
	if errors.Is(err, errChanged) {
		var now claim
		// by another submitter of the same job
		if _, err := q.get(ctx, outputKey(job.Output), &now); err != nil || now.Job == job.ID {
			return err
		}
	}
	return err
}

// withdraw puts back what the bucket had of a job before this call wrote its record, whose revision is now.
func (q *Queue) withdraw(ctx context.Context, was Job, existed bool, now uint64) error {
	if existed {
		_, err := q.swap(ctx, jobKey(was.ID), was, now)
		return err
	}
	return q.again(ctx, func(ctx context.Context) error {
		err := q.kv.Purge(ctx, jobKey(was.ID), jetstream.LastRevision(now))
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return nil // it is another submitter's now
		}
		return err
	})
}
