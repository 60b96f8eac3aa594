package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Submission is the result of [Queue.Submit].
type Submission string

// Results of submitting a job.
const (
	Submitted Submission = "submitted" // its units are in the queue now
	Going     Submission = "going"     // they were, and some are not done
	Over      Submission = "over"      // nothing is left to do except parked units
)

// publishAhead is how many units are published before the server has confirmed the first.
const publishAhead = 512

// Submit puts a job into the queue, with the units that are to be done. Submitting a job again does nothing while it is
// in the queue; when it is over or was cancelled, its units that are neither done nor parked are queued again. If a
// submitter died, the next one finishes what it started. The error is an [*OutputTakenError] if another job that is not
// over has the job's output, and ErrCancelled if the job was cancelled meanwhile.
func (q *Queue) Submit(ctx context.Context, job Job, units []Unit) (Submission, error) {
	if job.ID == "" || job.ID != CleanName(job.ID) {
		return "", fmt.Errorf("%q is not a valid job name", job.ID)
	}
	if job.AckWait == 0 {
		job.AckWait = DefaultAckWait
	}
	if job.MaxTries == 0 {
		job.MaxTries = DefaultMaxTries
	}
	for {
		done, err := q.submit(ctx, job, units)
		if !errors.Is(err, errChanged) { // by another submitter
			return done, err
		}
	}
}

func (q *Queue) submit(ctx context.Context, job Job, units []Unit) (Submission, error) {
	var was Job
	revision, err := q.bucket.get(ctx, jobKey(job.ID), &was)
	if err != nil {
		return "", err
	}
	claimed, ours, err := q.claims.owner(ctx, job)
	if err != nil {
		return "", err
	}
	queued := revision > 0 && was.Ready && !was.Cancelled
	if queued {
		if left, err := q.units.left(ctx, was); err != nil || left {
			if err == nil && !ours { // a version without claims submitted it
				err = q.claims.take(ctx, job, claimed)
			}
			return Going, err
		}
	}
	parked, err := q.parked(ctx, job.ID)
	if err != nil {
		return "", err
	}
	if queued && !slices.ContainsFunc(units, func(u Unit) bool { return !parked[u.Number] }) {
		return Over, nil
	}
	job.Units, job.Ready, job.Cancelled, job.Born, job.Epoch = len(units), false, false, was.Born, was.Epoch
	if revision == 0 {
		job.Born = rand.Text()
	}
	if revision == 0 || was.Ready || was.Cancelled {
		job.Epoch++
	}
	existed := revision > 0
	if revision, err = q.bucket.swap(ctx, jobKey(job.ID), job, revision); err != nil {
		return "", err
	}
	if err := q.claims.take(ctx, job, claimed); err != nil {
		was.ID = job.ID
		return "", errors.Join(err, q.withdraw(ctx, was, existed, revision))
	}
	if err := q.forget(ctx, job.ID); err != nil {
		return "", err
	}
	if err := q.fill(ctx, job, units, parked); err != nil {
		return "", err
	}
	job.Ready = true
	if _, err = q.bucket.swap(ctx, jobKey(job.ID), job, revision); errors.Is(err, errChanged) {
		last, lastErr := q.units.lastUnit(ctx)
		if now, jobErr := q.bucket.job(ctx, job.ID); lastErr == nil && jobErr == nil && now.Cancelled {
			return "", errors.Join(fmt.Errorf("%s: %w while it was submitted", job.ID, ErrCancelled),
				q.units.purgeUnits(ctx, job.ID, last))
		}
	}
	return Submitted, err
}

// parked returns the numbers of the job's units that are parked.
func (q *Queue) parked(ctx context.Context, jobID string) (map[int]bool, error) {
	parked := map[int]bool{}
	err := q.bucket.each(ctx, jobID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err == nil && r.State == Parked {
			parked[r.Unit.Number] = true
		}
		return nil
	})
	return parked, err
}

// forget removes the records of units that will be done again, and the reasons why workers refused the job.
func (q *Queue) forget(ctx context.Context, jobID string) error {
	purge := func(entry jetstream.KeyValueEntry) error {
		return q.bucket.purge(ctx, entry.Key())
	}
	if err := q.bucket.each(ctx, jobID+".refused.*", purge); err != nil {
		return err
	}
	return q.bucket.each(ctx, jobID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err == nil && r.State == Parked {
			return nil
		}
		return purge(entry)
	})
}

// fill publishes the units that are not parked.
func (q *Queue) fill(ctx context.Context, job Job, units []Unit, parked map[int]bool) error {
	if _, err := q.units.consumer(ctx, job); err != nil {
		return err
	}
	for start := 0; start < len(units); start += publishAhead {
		chunk := units[start:min(start+publishAhead, len(units))]
		if err := q.units.publish(ctx, job, chunk, parked, fmt.Sprint(job.Epoch)); err != nil {
			return err
		}
	}
	return nil
}

// Retry queues the parked units again, and returns their number.
func (q *Queue) Retry(ctx context.Context, id string) (n int, err error) {
	job, err := q.bucket.job(ctx, id)
	if err != nil {
		return 0, err
	}
	if job.Cancelled {
		return 0, fmt.Errorf("%s: %w: submit it again first", id, ErrCancelled)
	}
	claimed, _, err := q.claims.owner(ctx, job)
	if err == nil {
		err = q.claims.take(ctx, job, claimed)
	}
	if errors.Is(err, errChanged) { // by another job, which is not over
		return 0, q.Free(ctx, job)
	}
	if err != nil {
		return 0, err
	}
	err = q.bucket.each(ctx, id+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err != nil || r.State != Parked {
			return err
		}
		// If the process dies after this, Submit queues the unit.
		r.State, r.Tries, r.Worker, r.Life = Waiting, 0, "", ""
		revision, err := q.bucket.swap(ctx, entry.Key(), r, entry.Revision())
		if errors.Is(err, errChanged) {
			return nil
		}
		if err != nil {
			return err
		}
		n++
		return q.units.publish(ctx, job, []Unit{r.Unit}, nil, fmt.Sprintf("%d-%d", job.Epoch, revision))
	})
	return n, err
}

// withdraw restores the record that a job had before this call wrote one, whose revision is now.
func (q *Queue) withdraw(ctx context.Context, was Job, existed bool, now uint64) error {
	if existed {
		_, err := q.bucket.swap(ctx, jobKey(was.ID), was, now)
		return err
	}
	return q.server.again(ctx, func(ctx context.Context) error {
		err := q.bucket.kv.Purge(ctx, jobKey(was.ID), jetstream.LastRevision(now))
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return nil // another submitter has replaced it
		}
		return err
	})
}
