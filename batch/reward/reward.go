// Package reward judges completions by the scores of a second model, which has a head with one label.
package reward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// Model is a verifier that accepts completions whose score is above a bound. Completions that wait while others are
// scored are scored together.
type Model struct {
	above   float64
	chats   bool // it has a chat template
	session *process.Session

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

// Open opens the model that judges the completions of a job.
func Open(ctx context.Context, p *process.Process, j *spec.Job) (*Model, error) {
	job, own, files, err := prepare.Reward(ctx, p, j)
	if err != nil {
		return nil, err
	}
	session, err := p.Models.OpenSession(ctx, job, own)
	if err != nil {
		return nil, fmt.Errorf("the model of the verifier: %w", err)
	}
	m := &Model{above: j.Accept.Above, chats: files.Template, session: session,
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

// run scores what waits, until the model is closed.
func (m *Model) run() {
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
		m.score(all)
	}
}

// score answers questions.
func (m *Model) score(all []*question) {
	asked := map[*engine.Request]*question{}
	requests := make([]*engine.Request, len(all))
	for i, q := range all {
		asked[q.request], requests[i] = q, q.request
	}
	failure := errors.New("it gave no score")
	for done, err := range m.session.Run(m.ctx, slices.Values(requests)) {
		if err != nil {
			failure = err
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
	for _, q := range asked {
		q.answer <- answer{err: failure}
	}
}

// Close ends the scoring and gives the model back.
func (m *Model) Close() error {
	m.end()
	m.scoring.Wait()
	m.session.Release()
	return nil
}
