package interactive

import (
	"context"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Conversation is a conversation with a model that somebody tries. Each message continues the tokens of those before
// it and of their answers, whose keys and values the engine's prefix cache has.
type Conversation struct {
	model  *Model
	system string
	before *lineage.Parent // the last message and its answer; nil at the beginning
	number int64           // number of the next message
}

// NewConversation begins a conversation. Without a chat template it returns why there is none.
func (t *Model) NewConversation() (*Conversation, error) {
	if t.session.Render == nil {
		return nil, t.session.NoTemplate
	}
	return &Conversation{model: t, system: t.Job.System}, nil
}

// System returns the system message, "" for none.
func (c *Conversation) System() string { return c.system }

// Restart begins again, with a system message or "".
func (c *Conversation) Restart(system string) { c.system, c.before, c.number = system, nil, 0 }

// Send generates the answer to a message of the user. If ctx ends that, the error is ctx's, and what was generated is
// the answer. An error of outcome [Partial] means that there is no answer and that the reason was reported: the
// conversation is unchanged.
func (c *Conversation) Send(ctx context.Context, message string, to Output) error {
	t := c.model
	var before promptset.Mapping // the messages before have all that comes before prompts
	if c.before == nil {
		before = t.Job.Mapping
		before.System = c.system
	}
	row := before.NewRow(c.number, "message", message, true)
	tell := &orderedOutput{to: to}
	first := t.builder.Parameters(row).Generation
	tell.add(int(c.number), first, 1)
	fail := func(err error) error {
		tell.end(0, "", engine.FinishError, err)
		return outcome.Errorf(outcome.Partial, "a message has no answer")
	}
	requests, err := t.builder.Requests(row, c.before)
	if err != nil {
		return fail(err)
	}
	var drawn engine.Partial // the engine's, until run returns
	r := requests[0]
	r.N, r.Progress = 1, func(p engine.Partial) {
		drawn = p
		tell.text(0, p.Text)
	}
	failed, err := t.run(ctx, requests, func(done *engine.Completion) {
		drawn.Tokens = done.Tokens
		tell.end(0, done.Text, done.FinishReason, done.Err)
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil:
		tell.end(0, drawn.Text, engine.FinishStop, nil)
	case failed > 0:
		return outcome.Errorf(outcome.Partial, "a message has no answer")
	}
	if len(drawn.Tokens) > 0 {
		c.before = &lineage.Parent{Prompt: r.Tokens,
			Results: []completion.Result{{Generation: first, TokenIDs: drawn.Tokens}}}
		c.number++
	}
	return err
}
