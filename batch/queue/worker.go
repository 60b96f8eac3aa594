package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/quire/quire/data/tally"
)

// Life is what a worker reports of itself.
type Life struct {
	Name    string       `json:"name"`
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Units   int          `json:"units"` // units that it has
	Figures tally.Counts `json:"figures"`
	// RowsPerSecond and TokensPerSecond are averages over its last minute.
	RowsPerSecond   float64 `json:"rows_per_second"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// Worker takes units of one job.
type Worker struct {
	q        *Queue
	job      Job
	name     string
	life     string // distinguishes this process from an earlier one with the same name
	consumer jetstream.Consumer

	mu   sync.Mutex
	held map[int]*Lease // by unit; protected by mu
}

// Worker starts to work on a job. It gives back the units that an earlier worker of that name still holds, so that
// nobody waits for them. No two live workers may have the same name.
func (q *Queue) Worker(ctx context.Context, job Job, name string) (*Worker, error) {
	w := &Worker{q: q, job: job, name: name, life: nuid.Next(), held: map[int]*Lease{}}
	var err error
	if w.consumer, err = q.units.consumer(ctx, job); err != nil {
		return nil, err
	}
	err = q.bucket.each(ctx, job.ID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err != nil || r.State != Running || r.Worker != name ||
			r.Reply == "" {
			return err
		}
		// The answer to a delivery is a message in plain words. The worker that takes the unit next counts it as lost.
		return q.server.again(ctx, func(context.Context) error { return q.server.nc.Publish(r.Reply, []byte("-NAK")) })
	})
	if err == nil { // if it could not before, it can now
		err = q.bucket.purge(ctx, refusalKey(job.ID, name))
	}
	return w, err
}

// Beat reports that the worker lives. Close removes the report. The error is ErrCancelled or ErrNoJob if the worker
// should stop, because the job was cancelled or removed from the queue.
func (w *Worker) Beat(ctx context.Context, l Life) error {
	if job, err := w.q.bucket.job(ctx, w.job.ID); err != nil || job.Cancelled {
		return cmp.Or(err, ErrCancelled)
	}
	l.Name = w.name
	return w.q.bucket.put(ctx, workerKey(w.job.ID, w.name), l)
}

// Close gives back all units that the worker has.
func (w *Worker) Close(ctx context.Context) error {
	w.mu.Lock()
	var all []*Lease
	for _, l := range w.held {
		all = append(all, l)
	}
	w.mu.Unlock()
	var err error
	for _, l := range all {
		err = errors.Join(err, l.GiveBack(ctx, 0))
	}
	return errors.Join(err, w.q.bucket.purge(ctx, workerKey(w.job.ID, w.name)))
}

// Next waits for a unit, for at most wait. It returns nil if there is none.
func (w *Worker) Next(ctx context.Context, wait time.Duration) (*Lease, error) {
	var msg jetstream.Msg
	start := time.Now()
	err := w.q.server.againWithin(ctx, wait+callTimeout, func(ctx context.Context) error {
		// Not with ctx: a unit that comes after its end would be lost for AckWait.
		left := wait - time.Since(start)
		batch, err := w.consumer.Fetch(1, jetstream.FetchMaxWait(max(left, 10*time.Millisecond)))
		if err != nil {
			return err
		}
		for msg = range batch.Messages() {
		}
		if err = batch.Error(); msg != nil || err == nil || errors.Is(err, jetstream.ErrNoMessages) {
			return nil
		}
		if _, gone := w.q.units.stream.Consumer(ctx, w.job.ID); errors.Is(gone, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("%s: %w", w.job.ID, ErrNoJob)
		}
		return err
	})
	if err != nil || msg == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		_ = msg.Nak()
		return nil, ctx.Err()
	}
	return w.take(ctx, msg)
}

// take records that the worker has the unit.
func (w *Worker) take(ctx context.Context, msg jetstream.Msg) (*Lease, error) {
	l := &Lease{w: w, msg: msg}
	if err := json.Unmarshal(msg.Data(), &l.Unit); err != nil {
		return nil, msg.Term() // not one of ours
	}
	w.mu.Lock()
	if ours := w.held[l.Number]; ours != nil {
		// The server took this worker for dead, but it still has the unit.
		ours.mu.Lock()
		ours.msg = msg
		ours.mu.Unlock()
		w.mu.Unlock()
		return nil, nil
	}
	w.mu.Unlock()
	for {
		var r record
		revision, err := w.q.bucket.get(ctx, unitKey(w.job.ID, l.Number), &r)
		if err != nil {
			return nil, err
		}
		l.before = r
		switch r.State {
		case Done:
			return nil, l.ack(ctx)
		case Parked:
			return nil, msg.Term()
		case Running:
			if r.Life == w.life { // a write of ours whose answer was lost
				break
			}
			r.Tries++
			if r.Error == "" {
				r.Error = "its worker " + r.Worker + " died, or was not heard of any more"
			}
		}
		parked := r.Tries >= w.job.MaxTries
		r.Unit, r.Worker, r.Life, r.Reply, r.Since = l.Unit, w.name, w.life, msg.Reply(),
			time.Now().UTC().Truncate(time.Second)
		if r.State = Running; parked {
			r.State, r.Reply = Parked, ""
		}
		revision, err = w.q.bucket.swap(ctx, unitKey(w.job.ID, l.Number), r, revision)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if parked {
			w.q.server.log.Error("parked a unit", "unit", l.Unit.String(), "err", r.Error)
			return nil, msg.Term()
		}
		l.record, l.revision, l.Suspect = r, revision, r.Tries > 1
		break
	}
	w.mu.Lock()
	w.held[l.Number] = l
	w.mu.Unlock()
	beat, end := context.WithCancel(context.Background())
	l.end = end
	go l.heartbeat(beat)
	return l, nil
}
