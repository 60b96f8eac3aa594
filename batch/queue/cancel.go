package queue

import (
	"context"
	"errors"
)

// ErrCancelled reports that a job was cancelled.
var ErrCancelled = errors.New("the job was cancelled")

// Cancel takes the units of a job out of the queue, and makes workers stop with the next [Worker.Beat]. What is known
// of the job stays, and submitting it again continues it. Cancel returns false if the job was over before. Cancelling
// again changes nothing.
func (q *Queue) Cancel(ctx context.Context, id string) (bool, error) {
	for {
		var job Job
		if _, err := q.bucket.job(ctx, id); err != nil {
			return false, err
		}
		last, err := q.units.lastUnit(ctx) // before the record: units of a later submission come after it
		if err != nil {
			return false, err
		}
		revision, err := q.bucket.get(ctx, jobKey(id), &job)
		if err != nil {
			return false, err
		}
		if !job.Cancelled {
			if over, err := q.units.over(ctx, job); err != nil || over {
				return false, err
			}
			job.Cancelled = true
			if _, err = q.bucket.swap(ctx, jobKey(id), job, revision); errors.Is(err, errChanged) { // by a submitter
				continue
			}
			if err != nil {
				return false, err
			}
		}
		return true, q.units.purgeUnits(ctx, id, last)
	}
}
