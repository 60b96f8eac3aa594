package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Submission says what came of [Queue.Submit].
type Submission string

// What came of submitting a job.
const (
	Submitted Submission = "submitted" // its units are in the queue now
	Going     Submission = "going"     // they were, and some are not done
	Over      Submission = "over"      // nothing is left to do, but what is parked
)

// publishAhead is how many units are published before the server has said that it has the first.
const publishAhead = 512

// Submit puts a job into the queue; units are those that are to be done. The same job again is no other one: while it
// is in the queue nothing happens, and when it is over, or was cancelled, units that are not done, nor parked, are
// queued again. A submitter that died is finished. The error is an [*OutputTakenError] where another job that is not
// over has the job's output, and ErrCancelled where the job was cancelled meanwhile.
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
	revision, err := q.get(ctx, jobKey(job.ID), &was)
	if err != nil {
		return "", err
	}
	claimed, ours, err := q.owner(ctx, job)
	if err != nil {
		return "", err
	}
	queued := revision > 0 && was.Ready && !was.Cancelled
	if queued {
		if left, err := q.Left(ctx, was); err != nil || left {
			if err == nil && !ours { // it was submitted by a version that knew of no claims
				err = q.claim(ctx, job, claimed)
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
	if revision, err = q.swap(ctx, jobKey(job.ID), job, revision); err != nil {
		return "", err
	}
	if err := q.claim(ctx, job, claimed); err != nil {
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
	if _, err = q.swap(ctx, jobKey(job.ID), job, revision); errors.Is(err, errChanged) {
		last, lastErr := q.lastUnit(ctx)
		if now, jobErr := q.Job(ctx, job.ID); lastErr == nil && jobErr == nil && now.Cancelled {
			return "", errors.Join(fmt.Errorf("%s: %w while it was submitted", job.ID, ErrCancelled),
				q.purgeUnits(ctx, job.ID, last))
		}
	}
	return Submitted, err
}

// parked returns the numbers of the job's units that are parked.
func (q *Queue) parked(ctx context.Context, jobID string) (map[int]bool, error) {
	parked := map[int]bool{}
	err := q.each(ctx, jobID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err == nil && r.State == Parked {
			parked[r.Unit.Number] = true
		}
		return nil
	})
	return parked, err
}

// forget removes the records of units that are to be done again, and the reasons why workers refused the job.
func (q *Queue) forget(ctx context.Context, jobID string) error {
	purge := func(entry jetstream.KeyValueEntry) error {
		return q.again(ctx, func(ctx context.Context) error { return q.kv.Purge(ctx, entry.Key()) })
	}
	if err := q.each(ctx, jobID+".refused.*", purge); err != nil {
		return err
	}
	return q.each(ctx, jobID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err == nil && r.State == Parked {
			return nil
		}
		return purge(entry)
	})
}

// fill publishes the units that are not parked.
func (q *Queue) fill(ctx context.Context, job Job, units []Unit, parked map[int]bool) error {
	if _, err := q.consumer(ctx, job); err != nil {
		return err
	}
	for at := 0; at < len(units); at += publishAhead {
		chunk := units[at:min(at+publishAhead, len(units))]
		if err := q.publish(ctx, job, chunk, parked, fmt.Sprint(job.Epoch)); err != nil {
			return err
		}
	}
	return nil
}

// publish puts units into the stream, each once however often it is tried: the server remembers ids for an hour,
// whatever became of the messages.
func (q *Queue) publish(ctx context.Context, job Job, units []Unit, except map[int]bool, epoch string) error {
	return q.again(ctx, func(ctx context.Context) error {
		var acks []jetstream.PubAckFuture
		for _, u := range units {
			if except[u.Number] {
				continue
			}
			text, err := json.Marshal(u)
			if err != nil {
				return err
			}
			ack, err := q.js.PublishAsync(subject(job.ID, u.Number), text,
				jetstream.WithMsgID(fmt.Sprintf("%s.%s.%s.%d", job.ID, job.Born, epoch, u.Number)))
			if err != nil {
				return err
			}
			acks = append(acks, ack)
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// consumer makes the job's consumer, if there is none.
func (q *Queue) consumer(ctx context.Context, job Job) (c jetstream.Consumer, err error) {
	err = q.again(ctx, func(ctx context.Context) error {
		c, err = q.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: job.ID, FilterSubject: subjects + job.ID + ".>", AckPolicy: jetstream.AckExplicitPolicy,
			// How often is counted here: a unit that is given back in good order did not fail.
			AckWait: job.AckWait, MaxDeliver: -1, MaxAckPending: 100_000,
		})
		return err
	})
	return c, err
}

// Left says that units of a job wait, or are held by workers.
func (q *Queue) Left(ctx context.Context, job Job) (left bool, err error) {
	err = q.again(ctx, func(ctx context.Context) error {
		c, err := q.stream.Consumer(ctx, job.ID)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			left = false
			return nil
		}
		if err != nil {
			return err
		}
		info := c.CachedInfo() // of this moment
		if left = info.NumPending > 0 || info.NumAckPending > 0; left {
			return nil
		}
		// The server counts for a consumer what was published a moment ago a moment later.
		_, err = q.stream.GetLastMsgForSubject(ctx, subjects+job.ID+".>")
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		left = true
		return err
	})
	return left, err
}

// Retry queues the units again that are parked, and returns how many those are.
func (q *Queue) Retry(ctx context.Context, id string) (n int, err error) {
	job, err := q.Job(ctx, id)
	if err != nil {
		return 0, err
	}
	if job.Cancelled {
		return 0, fmt.Errorf("%s: %w: submit it again first", id, ErrCancelled)
	}
	claimed, _, err := q.owner(ctx, job)
	if err == nil {
		err = q.claim(ctx, job, claimed)
	}
	if errors.Is(err, errChanged) { // by another job, which is not over
		return 0, q.Free(ctx, job)
	}
	if err != nil {
		return 0, err
	}
	err = q.each(ctx, id+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err != nil || r.State != Parked {
			return err
		}
		// A process that dies behind this leaves a unit that Submit queues.
		r.State, r.Tries, r.Worker, r.Life = Waiting, 0, "", ""
		revision, err := q.swap(ctx, entry.Key(), r, entry.Revision())
		if errors.Is(err, errChanged) {
			return nil
		}
		if err != nil {
			return err
		}
		n++
		return q.publish(ctx, job, []Unit{r.Unit}, nil, fmt.Sprintf("%d-%d", job.Epoch, revision))
	})
	return n, err
}

// Remove takes a job out of the queue, with all that is known of it. Workers that have units of it end them in vain.
func (q *Queue) Remove(ctx context.Context, id string) error {
	job, err := q.Job(ctx, id)
	if err != nil {
		return err
	}
	claimed, ours, _ := q.owner(ctx, job)
	return q.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		// The job goes first: no worker begins it any more.
		if err := q.kv.Purge(ctx, jobKey(id)); err != nil {
			return err
		}
		if ours && claimed > 0 {
			// Another job that has the output meanwhile keeps it.
			_ = q.kv.Purge(ctx, outputKey(job.Output), jetstream.LastRevision(claimed))
		}
		if err := q.stream.DeleteConsumer(ctx, id); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		if err := q.stream.Purge(ctx, jetstream.WithPurgeSubject(subjects+id+".>")); err != nil {
			return err
		}
		return q.each(ctx, id+".>", func(entry jetstream.KeyValueEntry) error { return q.kv.Purge(ctx, entry.Key()) })
	})
}

// each calls f with every value of the bucket whose key matches.
func (q *Queue) each(ctx context.Context, keys string, f func(jetstream.KeyValueEntry) error) error {
	var all []jetstream.KeyValueEntry
	err := q.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		all = nil
		// A watch outlives the server, but the answer of one that died never comes: not to the request for a watch, and
		// maybe not what it had yet to send.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silence := time.AfterFunc(callTimeout, cancel)
		defer silence.Stop()
		w, err := q.kv.Watch(ctx, keys, jetstream.IgnoreDeletes())
		if err != nil {
			return unanswered(ctx, err)
		}
		defer w.Stop()
		for {
			select {
			case entry, ok := <-w.Updates():
				if !ok {
					return nats.ErrTimeout
				}
				silence.Reset(callTimeout)
				if entry == nil { // all that was there
					return nil
				}
				all = append(all, entry)
			case <-ctx.Done():
				return unanswered(ctx, ctx.Err())
			}
		}
	})
	for _, entry := range all {
		if err != nil {
			break
		}
		err = f(entry)
	}
	return err
}

// unanswered is the error of a call whose context was cancelled since no answer came.
func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nats.ErrTimeout
	}
	return err
}

// Job returns a job of the queue, or ErrNoJob.
func (q *Queue) Job(ctx context.Context, id string) (Job, error) {
	var job Job
	if id != CleanName(id) || id == "" {
		return job, fmt.Errorf("%q: %w", id, ErrNoJob)
	}
	revision, err := q.get(ctx, jobKey(id), &job)
	if err == nil && revision == 0 {
		err = fmt.Errorf("%q: %w", id, ErrNoJob)
	}
	return job, err
}

// Jobs returns all jobs of the queue, the one that was submitted first before the others.
func (q *Queue) Jobs(ctx context.Context) (all []Job, err error) {
	err = q.each(ctx, "*.job", func(entry jetstream.KeyValueEntry) error {
		var job Job
		if err := json.Unmarshal(entry.Value(), &job); err != nil {
			return err
		}
		all = append(all, job)
		return nil
	})
	return all, err
}

// retryPause is how long a unit waits that failed so many times.
func retryPause(ackWait time.Duration, tries int) time.Duration {
	return min(ackWait/16<<min(tries, 10), time.Minute)
}
