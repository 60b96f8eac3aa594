package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/tally"
)

// Submission is what became of a job that was put into a queue.
type Submission struct {
	*queue.Status
	Result  queue.Submission // of the units that are missing
	Rows    int64            // of the job
	Retried int              // units that were parked, and are queued again
}

// errAtWork says that workers have the job's output open.
var errAtWork = errors.New("workers are at the job")

// submit is [Task.Submit] once the job is open.
func submit(ctx context.Context, p *Process, opened *Opened, q *queue.Queue, units UnitOptions, retry bool) (
	*Submission, error) {
	if err := opened.checkLineage(ctx, jobstate.Shard{}); err != nil {
		return nil, err
	}
	job, err := opened.queueJob(ctx, units, tally.Counts{})
	if err != nil {
		return nil, err
	}
	if err := q.Free(ctx, job); err != nil { // before New removes what the other job wrote
		return nil, opened.taken(err)
	}
	if p.New {
		if err := q.Remove(ctx, job.ID); err != nil && !errors.Is(err, queue.ErrNoJob) {
			return nil, err
		}
	}
	done, err := enqueue(ctx, p, opened, q, job)
	if err != nil {
		return nil, err
	}
	if done == queue.Submitted {
		warnOfInput(ctx, p, opened)
	}
	s := &Submission{Result: done, Rows: opened.parts.Rows}
	if retry {
		if s.Retried, err = q.Retry(ctx, job.ID); err != nil {
			return nil, opened.taken(err)
		}
	}
	s.Status, err = q.Status(ctx, job.ID)
	return s, err
}

// withdraw is [Task.Withdraw] once the job is open.
func withdraw(ctx context.Context, opened *Opened, q *queue.Queue) (string, error) {
	id, err := jobName(opened.job.Output, opened.description)
	if err != nil {
		return "", err
	}
	if err := q.Remove(ctx, id); err != nil && !errors.Is(err, queue.ErrNoJob) {
		return "", err
	}
	return id, nil
}

// enqueue looks what is missing of the job, and queues that, unless workers are at it.
func enqueue(ctx context.Context, p *Process, opened *Opened, q *queue.Queue, job queue.Job) (done queue.Submission,
	err error) {
	var saved *savedJob
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		if saved, err = openSaved(ctx, p, opened); errors.Is(err, jobstate.ErrBusy) {
			// By workers, if the queue has the job: only those of one that was cancelled are waited for.
			if was, known := q.Job(ctx, job.ID); known != nil {
				return fmt.Errorf("%v: %w", err, known)
			} else if !was.Cancelled {
				return errAtWork
			}
		}
		return err
	})
	switch {
	case errors.Is(err, errAtWork):
		return queue.Going, nil
	case errors.Is(err, jobstate.ErrBusy):
		return done, fmt.Errorf(
			"job %s was cancelled, and workers of it have not stopped yet: submit it again in some seconds", job.ID)
	case err != nil:
		return done, err
	}
	saved.tellDamaged(p.Messages)
	missing := saved.missing
	job.Before = saved.before
	if err := saved.close(); err != nil {
		return done, err
	}
	done, err = q.Submit(ctx, job, opened.units(missing))
	return done, opened.taken(err)
}

// taken words the error for an output that another job in the queue has.
func (o *Opened) taken(err error) error {
	var taken *queue.OutputTakenError
	if !errors.As(err, &taken) {
		return err
	}
	if taken.Other.Cancelled {
		return fmt.Errorf(
			"%s is the output of job %s, which was cancelled and which workers have not left yet: submit again in a "+
				"few seconds", o.job.Output, taken.Other.ID)
	}
	what := ""
	if other, err := parseQueued(taken.Other.Config); err == nil {
		if differences := o.description.Differences(other.Description); len(differences) > 0 {
			what = fmt.Sprintf(" (%s)", differences)
		}
	}
	return fmt.Errorf(
		"%s is the output of job %s, which is in the queue and another job%s: wait for its end, choose another "+
			"`output`, or cancel it: \"sample cancel %s\"", o.job.Output, taken.Other.ID, what, taken.Other.ID)
}
