package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// unitStream is the units that wait or run, and their workers.
type unitStream struct {
	*server
	js     jetstream.JetStream
	stream jetstream.Stream
}

// publish puts units into the stream, each once however often it is tried: the server remembers ids for an hour, even
// if the messages are gone.
func (u *unitStream) publish(ctx context.Context, job Job, units []Unit, except map[int]bool, epoch string) error {
	return u.again(ctx, func(ctx context.Context) error {
		var acks []jetstream.PubAckFuture
		for _, unit := range units {
			if except[unit.Number] {
				continue
			}
			text, err := json.Marshal(unit)
			if err != nil {
				return err
			}
			ack, err := u.js.PublishAsync(subject(job.ID, unit.Number), text,
				jetstream.WithMsgID(fmt.Sprintf("%s.%s.%s.%d", job.ID, job.Born, epoch, unit.Number)))
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
func (u *unitStream) consumer(ctx context.Context, job Job) (c jetstream.Consumer, err error) {
	err = u.again(ctx, func(ctx context.Context) error {
		c, err = u.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: job.ID, FilterSubject: subjects + job.ID + ".>", AckPolicy: jetstream.AckExplicitPolicy,
			// Tries are counted in records: a unit that is given back in good order did not fail.
			AckWait: job.AckWait, MaxDeliver: -1, MaxAckPending: 100_000,
		})
		return err
	})
	return c, err
}

// left reports whether units of a job wait, or workers hold some.
func (u *unitStream) left(ctx context.Context, job Job) (left bool, err error) {
	err = u.again(ctx, func(ctx context.Context) error {
		c, err := u.stream.Consumer(ctx, job.ID)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			left = false
			return nil
		}
		if err != nil {
			return err
		}
		info := c.CachedInfo() // as of this call
		if left = info.NumPending > 0 || info.NumAckPending > 0; left {
			return nil
		}
		// The server counts a new message for a consumer only a moment after it was published.
		_, err = u.stream.GetLastMsgForSubject(ctx, subjects+job.ID+".>")
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		left = true
		return err
	})
	return left, err
}

// over reports whether no unit of a job waits, and no worker holds one.
func (u *unitStream) over(ctx context.Context, job Job) (bool, error) {
	if job.Cancelled {
		return true, nil
	}
	if !job.Ready {
		return false, nil
	}
	left, err := u.left(ctx, job)
	return !left, err
}

// lastUnit returns the sequence number of the unit that was published last, of any job.
func (u *unitStream) lastUnit(ctx context.Context) (last uint64, err error) {
	err = u.again(ctx, func(ctx context.Context) error {
		info, err := u.stream.Info(ctx)
		if err == nil {
			last = info.State.LastSeq
		}
		return err
	})
	return last, err
}

// purgeUnits removes the units of a job that were published up to last.
func (u *unitStream) purgeUnits(ctx context.Context, id string, last uint64) error {
	return u.againWithin(ctx, listTimeout, func(ctx context.Context) error {
		return u.stream.Purge(ctx, jetstream.WithPurgeSubject(subjects+id+".>"), jetstream.WithPurgeSequence(last+1))
	})
}

// now returns the server's time.
func (u *unitStream) now(ctx context.Context) (now time.Time, err error) {
	err = u.again(ctx, func(ctx context.Context) error {
		info, err := u.stream.Info(ctx)
		if err == nil {
			now = info.TimeStamp
		}
		return err
	})
	return now, err
}
