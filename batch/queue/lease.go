package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/quire/quire/data/tally"
)

// Lease is a unit that a worker has. It renews itself until Done, Fail, GiveBack or Busy.
type Lease struct {
	Unit
	// Suspect reports whether workers died or were lost while they had the unit. No other unit should run with it,
	// because that would be lost, too.
	Suspect bool

	w      *Worker
	end    context.CancelFunc // ends the heartbeats
	before record             // when the unit was handed out; does not change

	// mu protects the fields below, which the heartbeats and the worker share.
	mu  sync.Mutex
	msg jetstream.Msg // the last delivery: only its acks count
	// record is what the bucket has, and revision its revision: every write states the revision that it replaces. It is
	// 0 when another worker has the unit, and then nothing is written any more.
	record   record
	revision uint64
	figures  tally.Counts // counts of what is done
	over     bool         // the worker is done with the unit, and notes nothing more
}

// heartbeat renews the lease every quarter of AckWait, and notes the progress.
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
			l.w.q.server.log.Debug("a heartbeat failed", "unit", l.Number, "err", err.Error())
			continue
		}
		l.Note(ctx)
	}
}

// Note records the progress at once: if the worker dies, it may have done more than any worker before it, which starts
// the count of tries again.
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
	text, err := l.w.q.server.encode(r)
	if err != nil {
		return
	}
	revision, err := l.w.q.bucket.kv.Update(one, unitKey(l.w.job.ID, l.Number), text, l.revision)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		// Or the write came through and its answer did not.
		var now record
		if revision, err := l.w.q.bucket.get(one, unitKey(l.w.job.ID, l.Number), &now); err != nil ||
			now.Life != l.w.life || now.State != Running {
			l.revision = 0
			l.w.q.server.log.Warn("lost the lease of a unit to another worker", "unit",
				l.Unit.String())
		} else {
			l.record, l.revision = now, revision
		}
		return
	}
	if err == nil {
		l.record, l.revision = r, revision
	}
}

// Progress sets what of the unit is done. The next heartbeat records it.
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

// ack takes the unit out of the queue. If the answer does not come, the unit is handed out again, and found done.
func (l *Lease) ack(ctx context.Context) error {
	return l.w.q.server.again(ctx, func(ctx context.Context) error {
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

// Done records that the unit is done, with its figures. Its output must be durable by then. The heartbeats end when the
// server knows.
func (l *Lease) Done(ctx context.Context, f tally.Counts) error {
	l.mu.Lock()
	r := l.record
	l.over = true
	l.mu.Unlock()
	defer l.finish()
	r.State, r.Figures, r.Reply, r.Error, r.Tries = Done, f, "", "", 0
	if err := l.w.q.bucket.put(ctx, unitKey(l.w.job.ID, l.Number), r); err != nil {
		return err
	}
	return l.ack(ctx)
}

// Fail records that the unit failed, with the cause. The unit is handed out again after a pause, or parked.
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
		l.w.q.server.log.Error("parked a unit", "unit", l.Unit.String(), "err", r.Error)
		return l.w.q.server.again(ctx, func(context.Context) error { return l.message().Term() })
	}
	return l.w.q.server.again(ctx, func(context.Context) error {
		return l.message().NakWithDelay(retryPause(l.w.job.AckWait, r.Tries))
	})
}

// GiveBack gives the unit back through no fault of the unit. It is handed out again after a pause.
func (l *Lease) GiveBack(ctx context.Context, pause time.Duration) error {
	defer l.finish()
	if _, _, err := l.leave(ctx, func(r *record) { r.State = Waiting }); err != nil {
		return err
	}
	return l.w.q.server.again(ctx, func(context.Context) error {
		if pause > 0 {
			return l.message().NakWithDelay(pause)
		}
		return l.message().Nak()
	})
}

// Busy returns the unit to its last worker, which lives and works on it, though the queue took it for dead. Nothing
// counts as failed. If that worker does not renew its lease, the unit is handed out again after the pause.
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
	return l.w.q.server.again(ctx, func(context.Context) error { return l.message().NakWithDelay(pause) })
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
		_, err = l.w.q.bucket.swap(ctx, unitKey(l.w.job.ID, l.Number), r, revision)
		if !errors.Is(err, errChanged) {
			return r, r.State == Parked, err
		}
		// Another worker wrote, or this one and the answer was lost, or another one had the unit and gave it back.
		var now record
		revision, err = l.w.q.bucket.get(ctx, unitKey(l.w.job.ID, l.Number), &now)
		if err != nil || now.Life != l.w.life || now.State != Running {
			return r, false, err
		}
		r = now
	}
}

// retryPause returns how long a unit waits after a number of failures.
func retryPause(ackWait time.Duration, tries int) time.Duration {
	return min(ackWait/16<<min(tries, 10), time.Minute)
}
