package tools

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// Calls makes the calls of a unit, those of one turn and of different rows side by side, and logs them. Its methods may
// be called from several goroutines.
type Calls struct {
	*Log
	caller   *Caller
	recorded map[Place]string // if caller is nil: what calls answered that are not made again

	closing context.Context // done when no call is started any more
	close   context.CancelFunc
	mu      sync.Mutex     // no call is submitted while closing gets done
	made    sync.WaitGroup // calls that were submitted and have not ended
}

// Begin returns what makes the calls of a unit with this log.
func (c *Caller) Begin(log *Log) *Calls {
	s := &Calls{Log: log, caller: c}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Recorded returns what answers calls as a record has it, and makes none. A call that the record lacks is an error.
func Recorded(answers map[Place]string) *Calls {
	s := &Calls{recorded: answers}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Judge is [Caller.Judge].
func (c *Calls) Judge(call *Call, a Answer) (Answer, error) { return c.caller.Judge(call, a) }

// Close starts no call any more, waits for those that may not be made again, and ends the others. The log stays open.
func (c *Calls) Close() {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.made.Wait()
}

// Submit has a call made, and tells its answer: once, from another goroutine. With an error there is none, and the
// completion ends: by a [CallError] if tools of this job may not fail, or if the call was interrupted and may not be
// made again, else because the log can't be written. Nothing is told of calls that Close did not let start, or ended.
//
// The log has the call before it is made, and its answer before it is told.
func (c *Calls) Submit(call Call, state State, tell func(Answer, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return
	}
	c.made.Go(func() {
		if answer, err := c.make(&call, state); !errors.Is(err, errClosed) {
			tell(answer, err)
		}
	})
}

var errNotRecorded = errors.New("the record has no answer to the call")

var errClosed = errors.New("the calls have ended")

func (c *Calls) make(call *Call, state State) (Answer, error) {
	if c.caller == nil {
		content, ok := c.recorded[call.Place]
		if !ok {
			return Answer{}, &CallError{errNotRecorded}
		}
		return Answer{Content: content}, nil
	}
	t := cmp.Or(c.caller.tools[call.Name], c.caller.others)
	switch {
	case t == nil:
		return c.caller.Judge(call, unknown(call.Name, c.caller.names))
	case state == UnderWay && !t.Idempotent:
		return Answer{}, interrupted(call.Name)
	}
	select {
	case t.turns <- struct{}{}:
		defer func() { <-t.turns }()
	case <-c.closing.Done():
	}
	if c.closing.Err() != nil {
		return Answer{}, errClosed
	}
	if state == NotMade {
		if err := c.Log.started(call, !t.Idempotent); err != nil {
			return Answer{}, err
		}
	}
	answer, err := c.ask(t, call)
	if err != nil {
		return Answer{}, err
	}
	if err := c.Log.finished(call, &answer); err != nil {
		return Answer{}, err
	}
	return c.caller.Judge(call, answer)
}

// ask makes a call. A call that may not be made again is let finish.
func (c *Calls) ask(t *served, call *Call) (Answer, error) {
	question, err := call.question()
	if err != nil {
		return Answer{}, err
	}
	ctx := context.Background()
	if t.Idempotent {
		ctx = c.closing
	}
	answer, err := t.Ask(ctx, question)
	switch content := ""; {
	case err != nil && ctx.Err() != nil:
		return Answer{}, errClosed
	case err != nil:
		return failure(err), nil
	default:
		if content, err = contentOf(answer); err != nil {
			return failure(err), nil
		}
		return Answer{Content: content}, nil
	}
}
