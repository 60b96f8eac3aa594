package distribute

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/tally"
)

// Submission is what became of a job that was put into a queue.
type Submission struct {
	*queue.Status
	Result  queue.Submission // result for the missing units
	Rows    int64            // of the job
	Retried int              // units that were parked, and are queued again
}

// errAtWork reports that workers have the job's output open.
var errAtWork = errors.New("workers are at the job")

// Submit is [Task.Submit] once the job is open.
func Submit(ctx context.Context, p *process.Process, opened *prepare.Opened, q *queue.Queue, units UnitOptions,
	retry bool) (
	*Submission, error) {
	if err := opened.CheckLineage(ctx, jobstate.Shard{}); err != nil {
		return nil, err
	}
	job, err := queueJob(ctx, opened, units, tally.Counts{})
	if err != nil {
		return nil, err
	}
	if err := q.Free(ctx, job); err != nil { // must come before New removes what the other job wrote
		return nil, outputTaken(opened, err)
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
		prepare.WarnAboutInput(ctx, p, opened)
	}
	s := &Submission{Result: done, Rows: opened.Parts.Rows}
	if retry {
		if s.Retried, err = q.Retry(ctx, job.ID); err != nil {
			return nil, outputTaken(opened, err)
		}
	}
	s.Status, err = q.Status(ctx, job.ID)
	return s, err
}

// Withdraw is [Task.Withdraw] once the job is open.
func Withdraw(ctx context.Context, opened *prepare.Opened, q *queue.Queue) (string, error) {
	id, err := jobName(opened.Job.Output, opened.Description)
	if err != nil {
		return "", err
	}
	if err := q.Remove(ctx, id); err != nil && !errors.Is(err, queue.ErrNoJob) {
		return "", err
	}
	return id, nil
}

// enqueue looks what is missing of the job, and queues that, unless workers are at it.
func enqueue(ctx context.Context, p *process.Process, opened *prepare.Opened, q *queue.Queue,
	job queue.Job) (done queue.Submission,
	err error) {
	var saved *resume.Saved
	err = prepare.RetryWhile(ctx, jobstate.ErrBusy, func() (err error) {
		if saved, err = resume.Open(ctx, p, opened); errors.Is(err, jobstate.ErrBusy) {
			// The folder is in use by workers if the queue has the job. Only the workers of a cancelled job are waited
			// for.
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
	saved.ReportDamage(p.Messages)
	missing := saved.Missing
	job.Before = saved.Before
	if err := saved.Close(); err != nil {
		return done, err
	}
	done, err = q.Submit(ctx, job, missingUnits(opened, missing))
	return done, outputTaken(opened, err)
}

// outputTaken words the error for an output that another job in the queue has.
func outputTaken(o *prepare.Opened, err error) error {
	var taken *queue.OutputTakenError
	if !errors.As(err, &taken) {
		return err
	}
	if taken.Other.Cancelled {
		return fmt.Errorf(
			"%s is the output of job %s, which was cancelled and which workers have not left yet: submit again in a "+
				"few seconds", o.Job.Output, taken.Other.ID)
	}
	what := ""
	if other, err := parseQueued(taken.Other.Config); err == nil {
		if differences := o.Description.Differences(other.Description); len(differences) > 0 {
			what = fmt.Sprintf(" (%s)", differences)
		}
	}
	return setting.Errorf(
		"%s is the output of job %s, which is in the queue and another job%s: wait for its end, choose another "+
			"`output`, or cancel it: \"sample cancel %s\"", o.Job.Output, taken.Other.ID, what, taken.Other.ID)
}
