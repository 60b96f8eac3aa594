package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrCancelled says that a job was cancelled.
var ErrCancelled = errors.New("the job was cancelled")

// Cancel takes the units of a job out of the queue, and has workers stop at those that they are at, within a sign of
// life of theirs ([Worker.Beat]). What is known of the job stays, and submitting it again goes on with it. It returns
// false for a job that was over before: there is nothing to cancel. Cancelling again changes nothing.
func (q *Queue) Cancel(ctx context.Context, id string) (bool, error) {
	for {
		var job Job
		if _, err := q.Job(ctx, id); err != nil {
			return false, err
		}
		last, err := q.lastUnit(ctx) // before the record: units of a later submission come after it
		if err != nil {
			return false, err
		}
		revision, err := q.get(ctx, jobKey(id), &job)
		if err != nil {
			return false, err
		}
		if !job.Cancelled {
			if over, err := q.over(ctx, job); err != nil || over {
				return false, err
			}
			job.Cancelled = true
			if _, err = q.swap(ctx, jobKey(id), job, revision); errors.Is(err, errChanged) { // by a submitter
				continue
			}
			if err != nil {
				return false, err
			}
		}
		return true, q.purgeUnits(ctx, id, last)
	}
}

// lastUnit is the place in the stream of the unit that was published last, of any job.
func (q *Queue) lastUnit(ctx context.Context) (last uint64, err error) {
	err = q.again(ctx, func(ctx context.Context) error {
		info, err := q.stream.Info(ctx)
		if err == nil {
			last = info.State.LastSeq
		}
		return err
	})
	return last, err
}

// purgeUnits takes the units of a job out of the queue that were published up to last.
func (q *Queue) purgeUnits(ctx context.Context, id string, last uint64) error {
	return q.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		return q.stream.Purge(ctx, jetstream.WithPurgeSubject(subjects+id+".>"), jetstream.WithPurgeSequence(last+1))
	})
}

// Refusal is a worker that could not work on a job, and why.
type Refusal struct {
	Worker     string  `json:"worker"`
	Host       string  `json:"host"`
	Error      string  `json:"error"`
	SecondsAgo float64 `json:"seconds_ago"` // by the server's clock
}

func refusalKey(job, name string) string { return job + ".refused." + name }

// Refuse notes that a worker can't work on a job, for [Queue.Status]. The note goes when the worker begins to, or the
// job is submitted again.
func (q *Queue) Refuse(ctx context.Context, id string, r Refusal) error {
	if _, err := q.Job(ctx, id); err != nil {
		return err
	}
	return q.put(ctx, refusalKey(id, r.Worker), r)
}
