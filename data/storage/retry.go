package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// patience is how long a server's failures are tolerated. Tests shorten it.
var patience = struct {
	tries     int           // consecutive tries without progress
	firstWait time.Duration // doubled after each try, half of it random
	maxWait   time.Duration
	stall     time.Duration // a request is cancelled and repeated after so long without a byte
}{tries: 9, firstWait: 200 * time.Millisecond, maxWait: 20 * time.Second, stall: 30 * time.Second}

// attempt is one try of an operation.
type attempt struct {
	ctx      context.Context
	progress func() // reports that bytes arrived or were sent; may be called from any goroutine
}

// again repeats op until it succeeds, fails permanently, or fails too often without progress.
func again(ctx context.Context, op func(a attempt) error) error {
	waits := &backoff.ExponentialBackOff{InitialInterval: patience.firstWait, Multiplier: 2,
		MaxInterval: patience.maxWait, RandomizationFactor: 0.5}
	waits.Reset()
	for try := 1; ; try++ {
		moved, err := once(ctx, op)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !transient(err):
			return err
		}
		if moved {
			try = 1
			waits.Reset()
		}
		if try >= patience.tries {
			return fmt.Errorf("%w (given up after %d tries)", err, try)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waits.NextBackOff()):
		}
	}
}

// once runs op and cancels it if it stalls.
func once(parent context.Context, op func(a attempt) error) (moved bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	timer := time.AfterFunc(patience.stall, func() { cancel(errStalled) })
	defer timer.Stop()
	var came atomic.Bool
	err = op(attempt{ctx: ctx, progress: func() {
		came.Store(true)
		timer.Reset(patience.stall)
	}})
	moved = came.Load()
	if err != nil && parent.Err() == nil && errors.Is(context.Cause(ctx), errStalled) {
		err = fmt.Errorf("%w (%v)", errStalled, patience.stall)
	}
	return moved, err
}
