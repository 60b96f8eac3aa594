// Package reward judges completions by the scores of a second model, which has a head with one label.
package reward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/engine"
)

// Model is a verifier that accepts completions whose score is above a bound. Completions that wait while others are
// scored are scored together.
type Model struct {
	above float64
	chats bool // it has a chat template

	open    func(context.Context) (*process.Session, error)
	session *process.Session // nil after its device failed
	process *process.Process
	failed  func(failures int, err error)

	ctx     context.Context // ended by Close
	end     context.CancelFunc
	scoring sync.WaitGroup
	more    chan struct{} // has a value if something waits

	mu      sync.Mutex
	builder *ask.Builder
	waiting []*question
}

// question is a completion that waits for its score.
type question struct {
	request *engine.Request
	answer  chan answer // has room for one
}

type answer struct {
	score float32
	err   error
}

// Open opens the model that judges the completions of a job. If its device fails, it is opened again and scores what
// waits, as the engine generates again. failed is called by another goroutine if the device continues failing; nobody
// who waits gets a verdict then.
func Open(ctx context.Context, p *process.Process, j *spec.Job, failed func(failures int, err error)) (*Model, error) {
	job, own, files, err := prepare.Reward(ctx, p, j)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (*process.Session, error) { return p.Models.OpenSession(ctx, job, own) }
	session, err := open(ctx)
	if err != nil {
		return nil, fmt.Errorf("the model of the verifier: %w", err)
	}
	m := &Model{above: j.Accept.Above, chats: files.Template, open: open, session: session, process: p, failed: failed,
		builder: process.NewBuilder(job, session), more: make(chan struct{}, 1)}
	m.ctx, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.scoring.Go(m.run)
	return m, nil
}

// Verify scores a completion after its prompt. The verdict is the score.
func (m *Model) Verify(ctx context.Context, c *verdict.Completion) (verdict.Verdict, error) {
	row, err := m.scored(c)
	if err != nil {
		return verdict.Verdict{}, err
	}
	q, err := m.submit(row)
	if err != nil {
		return verdict.Verdict{}, fmt.Errorf("the model of the verifier: %w", err)
	}
	select {
	case a := <-q.answer:
		if a.err != nil {
			return verdict.Verdict{}, fmt.Errorf("the model of the verifier: %w", a.err)
		}
		return verdict.Verdict{Accepted: float64(a.score) > m.above,
			Text: strconv.FormatFloat(float64(a.score), 'g', -1, 32)}, nil
	case <-ctx.Done():
		return verdict.Verdict{}, ctx.Err()
	}
}

// scored returns the row whose score is that of a completion: the conversation with the completion as its last message,
// or for a model without a chat template the pair of the prompt and the completion.
func (m *Model) scored(c *verdict.Completion) (*promptset.Row, error) {
	row := &promptset.Row{Index: c.Row.Index, ID: c.Row.ID, Kind: promptset.KindMessages}
	switch text := c.Row.Kind == promptset.KindText && len(c.Row.More) == 0; {
	case c.Row.Parent.ID != "":
		return nil, errors.New("the row continues another one, and the verifier's model is to read all of a " +
			"conversation: give rows with all messages")
	case m.chats && c.Messages != "": // with calls, and the completion as its last message
		whole := &record.Builder{Row: row}
		if !whole.DecodeMessages(json.RawMessage(c.Messages)) {
			return nil, errors.New("the conversation is no list of messages")
		}
		return row, row.Err
	case m.chats && text:
		row.Messages = []promptset.Message{{Role: "user", Content: c.Row.Prompt}}
	case m.chats && c.Row.Kind == promptset.KindMessages:
		row.Messages = slices.Clone(c.Row.Messages)
	case m.chats:
		return nil, errors.New("the verifier's model reads a prompt and a completion: give rows with one prompt or " +
			"messages")
	case text:
		row.Kind, row.Prompt, row.Seconds = promptset.KindText, c.Row.Prompt, []string{c.Text}
		return row, nil
	default:
		return nil, errors.New("the verifier's model has no chat template, and reads a prompt and a completion as a " +
			"pair: give rows with one prompt")
	}
	row.Messages = append(row.Messages, promptset.Message{Role: "assistant", Content: c.Text})
	return row, nil
}

// submit has a row scored.
func (m *Model) submit(row *promptset.Row) (*question, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	requests, err := m.builder.Requests(row, nil)
	if err != nil {
		return nil, err
	}
	q := &question{requests[0], make(chan answer, 1)}
	m.waiting = append(m.waiting, q)
	select {
	case m.more <- struct{}{}:
	default:
	}
	return q, nil
}

// run scores what waits, until the model is closed or its device continues failing.
func (m *Model) run() {
	failures := 0
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.more:
		}
		m.mu.Lock()
		all := m.waiting
		m.waiting = nil
		m.mu.Unlock()
		for len(all) > 0 {
			left, err := m.score(all)
			if len(left) < len(all) {
				failures = 0
			}
			if all = left; len(all) == 0 {
				break
			}
			if m.ctx.Err() != nil {
				return
			}
			err = fmt.Errorf("the model of the verifier: %w", cmp.Or(err, errNoScore))
			if failures++; failures > m.process.MaxRestarts {
				m.failed(failures, err)
				return
			}
			m.restart(failures, err)
		}
	}
}

var errNoScore = errors.New("it gave no score")

// restart gives up the session and waits before the next one.
func (m *Model) restart(failures int, err error) {
	pause := m.process.Timing.Backoff(failures)
	m.process.Printf("warning: the device failed: %v; it is opened again in %s (try %d of %d without a score in "+
		"between)", err, pause, failures, m.process.MaxRestarts)
	if m.session != nil {
		m.session.Release()
		m.session = nil
	}
	select {
	case <-m.ctx.Done():
	case <-time.After(pause):
	}
}

// score answers questions, and returns those that it could not answer, with what failed.
func (m *Model) score(all []*question) (left []*question, err error) {
	if m.session == nil {
		session, err := m.open(m.ctx)
		if err != nil {
			return all, err
		}
		m.mu.Lock()
		m.session = session
		session.Serve(m.builder)
		m.mu.Unlock()
	}
	asked := map[*engine.Request]*question{}
	requests := make([]*engine.Request, len(all))
	for i, q := range all {
		asked[q.request], requests[i] = q, q.request
	}
	for done, runErr := range m.session.Run(m.ctx, slices.Values(requests)) {
		if err = runErr; err != nil {
			break
		}
		q := asked[done.Request]
		delete(asked, done.Request)
		if done.Err != nil {
			q.answer <- answer{err: done.Err}
		} else {
			q.answer <- answer{score: done.Vector[0]}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(q *question) bool { return asked[q.request] == nil }), err
}

// Close ends the scoring and gives the model back.
func (m *Model) Close() error {
	m.end()
	m.scoring.Wait()
	if m.session != nil {
		m.session.Release()
	}
	return nil
}
