package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/internal/visible"
)

// Caller makes the calls of a job, those of one turn and of different rows side by side. Its methods may be called
// from several goroutines.
type Caller struct {
	settings Settings
	tools    map[string]*served
	names    []string // for messages
	others   *served  // for tools that are not in tools; nil if there is none

	closing context.Context // done when no call is started any more
	close   context.CancelFunc
	calls   sync.WaitGroup
}

// served is a tool with what answers its calls.
type served struct {
	*Tool
	Answerer
	turns chan struct{} // has room for as many calls as are made at once
}

// NewCaller returns what makes the calls of a job with checked settings. It starts no process yet.
func NewCaller(s *Settings) (*Caller, error) {
	registry, err := ParseRegistry(s.Registry)
	if err != nil {
		return nil, err
	}
	c := &Caller{settings: *s, tools: map[string]*served{}, names: slices.Sorted(maps.Keys(registry))}
	c.closing, c.close = context.WithCancel(context.Background())
	for name, t := range registry {
		c.Serve(name, t, answererOf(t))
	}
	if s.Command != "" {
		t := &Tool{Command: s.Command, Parallel: s.Processes, Timeout: Duration(s.Timeout)}
		t.limit()
		c.others = &served{t, answererOf(t), make(chan struct{}, t.Parallel)}
	}
	return c, nil
}

// Serve has the calls of a tool answered. It comes before the first call.
func (c *Caller) Serve(name string, t *Tool, by Answerer) {
	t.limit()
	c.tools[name] = &served{t, by, make(chan struct{}, t.Parallel)}
}

func answererOf(t *Tool) Answerer {
	if t.URL != "" {
		return newEndpoint(t)
	}
	return newCommand(t)
}

// Submit has a call made, and tells its answer: once, from another goroutine. With an error there is none, and the
// completion ends: by a [CallError] if tools of this job may not fail, or if the call was interrupted and may not be
// made again, else because the log can't be written. Nothing is told of calls that a closed Caller has not started, nor
// of those that it ended.
//
// The log has the call before it is made, and its answer before it is told.
func (c *Caller) Submit(log *Log, call Call, state State, tell func(Answer, error)) {
	c.calls.Go(func() {
		if answer, err := c.make(log, &call, state); !errors.Is(err, errClosed) {
			tell(answer, err)
		}
	})
}

var errClosed = errors.New("the calls have ended")

func (c *Caller) make(log *Log, call *Call, state State) (Answer, error) {
	t := cmp.Or(c.tools[call.Name], c.others)
	switch {
	case t == nil:
		return c.Judge(call, unknown(call.Name, c.names))
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
		if err := log.started(call, !t.Idempotent); err != nil {
			return Answer{}, err
		}
	}
	answer, err := c.ask(t, call)
	if err != nil {
		return Answer{}, err
	}
	if err := log.finished(call, &answer); err != nil {
		return Answer{}, err
	}
	return c.Judge(call, answer)
}

// ask makes a call. A call that may not be made again is let finish when the job is interrupted.
func (c *Caller) ask(t *served, call *Call) (Answer, error) {
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

// Judge makes an error of the answer of a tool that failed, if the job's settings say so.
func (c *Caller) Judge(call *Call, a Answer) (Answer, error) {
	if a.Failed && c.settings.Failures == FailuresOfRow {
		return Answer{}, &CallError{fmt.Errorf("the call of %s: %s", visible.Quoted(call.Name),
			strings.TrimPrefix(a.Content, failed))}
	}
	return a, nil
}

// Close starts no call any more, waits for those that may not be made again, and ends the others and the processes.
func (c *Caller) Close() error {
	c.close()
	c.calls.Wait()
	var err error
	for _, t := range c.tools {
		err = errors.Join(err, t.Close())
	}
	if c.others != nil {
		err = errors.Join(err, c.others.Close())
	}
	return err
}
