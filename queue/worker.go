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

	"github.com/quire/quire/tally"
)

// Life is what a worker says of itself.
type Life struct {
	Name    string       `json:"name"`
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Units   int          `json:"units"` // that it has
	Figures tally.Counts `json:"figures"`
	// RowsPerSecond and TokensPerSecond are of its last minute.
	RowsPerSecond   float64 `json:"rows_per_second"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// Worker takes units of one job.
type Worker struct {
	q        *Queue
	job      Job
	name     string
	life     string
	consumer jetstream.Consumer

	mu   sync.Mutex
	held map[int]*Lease
}

// Worker begins to work on a job. What an earlier worker of that name still holds is given back, so that nobody waits
// for it: no two workers that live may have the same name.
func (q *Queue) Worker(ctx context.Context, job Job, name string) (*Worker, error) {
	w := &Worker{q: q, job: job, name: name, life: nuid.Next(), held: map[int]*Lease{}}
	var err error
	if w.consumer, err = q.consumer(ctx, job); err != nil {
		return nil, err
	}
	err = q.each(ctx, job.ID+".unit.*", func(entry jetstream.KeyValueEntry) error {
		var r record
		if err := json.Unmarshal(entry.Value(), &r); err != nil || r.State != Running || r.Worker != name ||
			r.Reply == "" {
			return err
		}
		// An answer to a delivery is a message; the protocol has it in plain words. Who takes the unit counts it as
		// lost.
		return q.again(ctx, func(context.Context) error { return q.nc.Publish(r.Reply, []byte("-NAK")) })
	})
	if err == nil { // if it could not before, it can now
		err = q.again(ctx, func(ctx context.Context) error { return q.kv.Purge(ctx, refusalKey(job.ID, name)) })
	}
	return w, err
}

// Beat tells how the worker is. It is forgotten when the worker ends with Close. The error is ErrCancelled or ErrNoJob
// when the worker should stop: the job was cancelled, or taken out of the queue.
func (w *Worker) Beat(ctx context.Context, l Life) error {
	if job, err := w.q.Job(ctx, w.job.ID); err != nil || job.Cancelled {
		return cmp.Or(err, ErrCancelled)
	}
	l.Name = w.name
	return w.q.put(ctx, workerKey(w.job.ID, w.name), l)
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
	return errors.Join(err, w.q.again(ctx,
		func(ctx context.Context) error { return w.q.kv.Purge(ctx, workerKey(w.job.ID, w.name)) }))
}

// Lease is a unit that a worker has. It tells the server so until one of Done, Fail and GiveBack.
type Lease struct {
	Unit
	// Suspect says that workers died or were lost while they had it: it should be alone in flight, for the sake of the
	// others.
	Suspect bool

	w   *Worker
	end context.CancelFunc

	mu       sync.Mutex
	msg      jetstream.Msg
	record   record
	before   record       // what it was when the unit was handed out
	revision uint64       // of the record; 0 when another worker has the unit now
	figures  tally.Counts // of what is done
	over     bool
}

// Next waits for a unit, for as long as wait. It returns nil when there is none.
func (w *Worker) Next(ctx context.Context, wait time.Duration) (*Lease, error) {
	var msg jetstream.Msg
	start := time.Now()
	err := w.q.againWithin(ctx, wait+callTimeout, func(ctx context.Context) error {
		// Not with ctx: a unit that comes when it is over would be lost for AckWait.
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
		if _, gone := w.q.stream.Consumer(ctx, w.job.ID); errors.Is(gone, jetstream.ErrConsumerNotFound) {
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

// take notes who has the unit.
func (w *Worker) take(ctx context.Context, msg jetstream.Msg) (*Lease, error) {
	l := &Lease{w: w, msg: msg}
	if err := json.Unmarshal(msg.Data(), &l.Unit); err != nil {
		return nil, msg.Term() // not one of ours
	}
	w.mu.Lock()
	if ours := w.held[l.Number]; ours != nil {
		// We were thought dead, and have it still.
		ours.mu.Lock()
		ours.msg = msg
		ours.mu.Unlock()
		w.mu.Unlock()
		return nil, nil
	}
	w.mu.Unlock()
	for {
		var r record
		revision, err := w.q.get(ctx, unitKey(w.job.ID, l.Number), &r)
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
		revision, err = w.q.swap(ctx, unitKey(w.job.ID, l.Number), r, revision)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if parked {
			w.q.log.Error("parked a unit", "unit", l.Unit.String(), "err", r.Error)
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

// heartbeat says every quarter of AckWait that the worker is at it, and notes how far.
func (l *Lease) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(l.w.job.AckWait / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		msg := l.msg
		l.mu.Unlock()
		if err := msg.InProgress(); err != nil {
			l.w.q.log.Debug("a heartbeat failed", "unit", l.Number, "err", err.Error())
			continue
		}
		l.Note(ctx)
	}
}

// Note writes down how far the unit is, at once: what died before may have done more than anybody before it.
func (l *Lease) Note(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.record
	r.Figures = l.figures
	if l.over || l.revision == 0 || r.Figures == l.record.Figures {
		return
	}
	if l.figures.Rows > r.Best {
		r.Best, r.Tries, r.Error = l.figures.Rows, 0, ""
	}
	one, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := l.w.q.encode(r)
	if err != nil {
		return
	}
	revision, err := l.w.q.kv.Update(one, unitKey(l.w.job.ID, l.Number), text, l.revision)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		// Or ours came through and its answer did not.
		var now record
		if is, err := l.w.q.get(one, unitKey(l.w.job.ID, l.Number), &now); err != nil || now.Life != l.w.life ||
			now.State != Running {
			l.revision = 0
			l.w.q.log.Warn("lost the lease of a unit to another worker", "unit",
				l.Unit.String())
		} else {
			l.record, l.revision = now, is
		}
		return
	}
	if err == nil {
		l.record, l.revision = r, revision
	}
}

// Progress tells what of the unit is done; the server hears of it with the next heartbeat.
func (l *Lease) Progress(f tally.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures = f
}

// finish ends the heartbeats.
func (l *Lease) finish() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.end()
	l.w.mu.Lock()
	delete(l.w.held, l.Number)
	l.w.mu.Unlock()
}

// ack takes the unit out of the queue. Where the answer does not come the unit is handed out again, and found done.
func (l *Lease) ack(ctx context.Context) error {
	return l.w.q.again(ctx, func(ctx context.Context) error {
		err := l.message().DoubleAck(ctx)
		if errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return nil
		}
		return err
	})
}

func (l *Lease) message() jetstream.Msg {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.msg
}

// Done says that the unit is done, and what it came to. Its output must last by then. The heartbeats end when the
// server knows.
func (l *Lease) Done(ctx context.Context, f tally.Counts) error {
	l.mu.Lock()
	r := l.record
	l.over = true
	l.mu.Unlock()
	defer l.finish()
	r.State, r.Figures, r.Reply, r.Error, r.Tries = Done, f, "", "", 0
	if err := l.w.q.put(ctx, unitKey(l.w.job.ID, l.Number), r); err != nil {
		return err
	}
	return l.ack(ctx)
}

// Fail says that the unit can't be done now, and why. It is handed out again after a pause, or parked.
func (l *Lease) Fail(ctx context.Context, cause error) error {
	defer l.finish()
	r, parked, err := l.leave(ctx, func(r *record) {
		r.Tries++
		r.Error = cause.Error()
		if r.State = Waiting; r.Tries >= l.w.job.MaxTries {
			r.State = Parked
		}
	})
	if err != nil {
		return err
	}
	if parked {
		l.w.q.log.Error("parked a unit", "unit", l.Unit.String(), "err", r.Error)
		return l.w.q.again(ctx, func(context.Context) error { return l.message().Term() })
	}
	return l.w.q.again(ctx, func(context.Context) error {
		return l.message().NakWithDelay(retryPause(l.w.job.AckWait, r.Tries))
	})
}

// GiveBack says that the worker does not do the unit, through no fault of the unit. It is handed out again after a
// pause.
func (l *Lease) GiveBack(ctx context.Context, pause time.Duration) error {
	defer l.finish()
	if _, _, err := l.leave(ctx, func(r *record) { r.State = Waiting }); err != nil {
		return err
	}
	return l.w.q.again(ctx, func(context.Context) error {
		if pause > 0 {
			return l.message().NakWithDelay(pause)
		}
		return l.message().Nak()
	})
}

// Busy says that the unit's last worker lives and is at it, though the queue gave it up. The unit is that worker's
// again, nothing counts as failed, and it is handed out again when the pause is over and nothing is heard of that
// worker.
func (l *Lease) Busy(ctx context.Context, pause time.Duration) error {
	defer l.finish()
	_, _, err := l.leave(ctx, func(r *record) {
		if *r = l.before; r.State == "" {
			r.Unit, r.State = l.Unit, Waiting
		}
	})
	if err != nil {
		return err
	}
	return l.w.q.again(ctx, func(context.Context) error { return l.message().NakWithDelay(pause) })
}

// leave changes the record of a unit that the worker no longer has.
func (l *Lease) leave(ctx context.Context, change func(r *record)) (r record, parked bool, err error) {
	l.mu.Lock()
	l.over = true
	r, revision, rows := l.record, l.revision, l.figures.Rows
	l.mu.Unlock()
	if revision == 0 {
		return r, false, nil // another worker has it
	}
	for {
		if rows > r.Best {
			r.Best, r.Tries = rows, 0
		}
		r.Reply, r.Figures = "", tally.Counts{}
		change(&r)
		_, err = l.w.q.swap(ctx, unitKey(l.w.job.ID, l.Number), r, revision)
		if !errors.Is(err, errChanged) {
			return r, r.State == Parked, err
		}
		// By another worker, or by us, and the answer was lost; or another one had the unit and gave it back to us.
		var now record
		if revision, err = l.w.q.get(ctx, unitKey(l.w.job.ID, l.Number), &now); err != nil || now.Life != l.w.life ||
			now.State != Running {
			return r, false, err
		}
		r = now
	}
}
