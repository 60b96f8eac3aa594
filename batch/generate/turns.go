package generate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// conversing describes how completions of a unit call tools.
type conversing struct {
	*conversation.Tools
	told func(error) // is called after each answer of a tool, with the error of the writer, the journal or the log
}

// turns are what the completions of started rows wait for. The collector's lock protects it.
type turns struct {
	rows  int           // rows whose completions have not all ended
	asked int           // turns that the engine was asked for and has not given
	ready []*pendingRow // rows with a turn that the engine can be asked for
}

// dialog is a completion of a row that may call tools, and whose turn it is. The collector's lock protects turn; the
// conversation is used by whoever has the turn.
type dialog struct {
	*conversation.Conversation
	turn turnOf
}

// turnOf is who has the turn in a dialog.
type turnOf int

const (
	turnWanted  turnOf = iota // the engine is to be asked for one
	turnAsked                 // the engine was asked
	turnOfTools               // tools are answering
	turnsEnded                // the completion is whole
)

// converse takes up the completions that a row lacks. Calls that an earlier process left without an answer are made.
func (u *Unit) converse(p *pendingRow) error {
	again := u.retriesErrors()
	dialogs := map[int]*dialog{}
	for _, request := range p.requests {
		for g := request.FirstGeneration; g < request.FirstGeneration+request.N; g++ {
			if p.has(g) {
				continue
			}
			c, err := u.Out.conversing.Open(u.builder, p.row, g, request, again)
			if err != nil {
				return u.Out.fail(p, err)
			}
			dialogs[g] = &dialog{Conversation: c}
		}
	}
	c := u.Out
	c.mu.Lock()
	defer c.mu.Unlock()
	p.dialogs = dialogs
	c.turns.rows++
	for _, g := range slices.Sorted(maps.Keys(dialogs)) {
		d := dialogs[g]
		if err := d.Err(); err != nil {
			if err := c.endDialog(p, d, d.Result(err), err); err != nil {
				return err
			}
		} else if d.Calls() {
			c.call(p, d)
		}
	}
	return nil
}

// turnRequests returns the requests of the turns that a row wants.
func (u *Unit) turnRequests(p *pendingRow) (all []*engine.Request) {
	c := u.Out
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return nil
	}
	var first []int
	for _, g := range slices.Sorted(maps.Keys(p.dialogs)) {
		d := p.dialogs[g]
		if d.turn != turnWanted {
			continue
		}
		d.turn = turnAsked
		if c.turns.asked++; d.IsNew() {
			first = append(first, g)
			continue
		}
		request, err := d.Next(u.builder, p.requestOf(g))
		if err != nil {
			c.turns.asked--
			if c.endDialog(p, d, d.Result(err), err) != nil {
				return nil
			}
			continue
		}
		all = append(all, request)
	}
	return append(requestsOf(p.requests, first), all...)
}

// addTurn adds a turn to the completion that it belongs to, and has the tools called that the turn calls. The caller
// holds the lock.
func (c *collector) addTurn(p *pendingRow, r *completion.Result, done *engine.Completion) error {
	d, refused := p.dialogs[done.Generation], ask.Refused(done.Err)
	if c.turns.asked--; refused {
		c.turns.asked -= done.Request.N - 1
	}
	if p.ended || c.err != nil {
		return unlessEnded(c.err)
	}
	switch {
	case done.Err != nil && d.IsNew():
		d.turn = turnsEnded
		_, err := c.put(p, r, done.Request, done.Err, reuse.Generated)
		return err
	case errors.Is(done.Err, engine.ErrPromptTooLong):
		return c.endDialog(p, d, d.Full(), nil)
	case done.Err != nil:
		return c.endDialog(p, d, d.Result(done.Err), done.Err)
	}
	more, err := d.Take(r, done.Request.Tokens)
	switch {
	case err != nil:
		return c.giveUp(err)
	case !more:
		return c.endDialog(p, d, d.Result(nil), nil)
	}
	c.call(p, d)
	return nil
}

// giveUp lets nothing be written any more, because of an error of the log. The caller holds the lock.
func (c *collector) giveUp(err error) error {
	c.err = err
	c.room.Broadcast()
	return err
}

// call has tools answer the last turn of a completion. The caller holds the lock.
func (c *collector) call(p *pendingRow, d *dialog) {
	d.turn = turnOfTools
	d.Call(func(number int, a tools.Answer, err error) { c.conversing.told(c.answer(p, d, number, a, err)) })
}

// answer takes what a tool answered, or why the completion ends. The error is the writer's, the journal's or the log's.
func (c *collector) answer(p *pendingRow, d *dialog, number int, a tools.Answer, failure error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended || c.err != nil || d.turn != turnOfTools {
		return unlessEnded(c.err)
	}
	if own := (*tools.CallError)(nil); errors.As(failure, &own) {
		if err := d.Fail(); err != nil {
			return c.giveUp(err)
		}
		return c.endDialog(p, d, d.Result(failure), failure)
	} else if failure != nil {
		return c.giveUp(failure)
	}
	if !d.Answer(number, a) {
		return nil
	}
	d.turn = turnWanted
	if !slices.Contains(c.turns.ready, p) {
		c.turns.ready = append(c.turns.ready, p)
	}
	c.room.Broadcast()
	return nil
}

// endDialog takes a completion that is whole, or has an error. The caller holds the lock.
func (c *collector) endDialog(p *pendingRow, d *dialog, r completion.Result, failure error) error {
	d.turn = turnsEnded
	if p.failed == nil {
		p.failed = failure
	}
	defer c.room.Broadcast()
	_, err := c.put(p, &r, p.requestOf(r.Generation), nil, reuse.Generated)
	return err
}

// next takes a row with a turn that the engine can be asked for; nil if there is none.
func (t *turns) next() *pendingRow {
	if len(t.ready) == 0 {
		return nil
	}
	p := t.ready[0]
	t.ready = t.ready[1:]
	return p
}

// end takes a finished row out.
func (t *turns) end(p *pendingRow) {
	if p.dialogs != nil {
		t.rows--
		t.ready = slices.DeleteFunc(t.ready, func(o *pendingRow) bool { return o == p })
	}
}

// askAgain forgets what an engine was asked for that is closed.
func (t *turns) askAgain(running map[*pendingRow]struct{}) {
	t.asked, t.ready = 0, nil
	for p := range running {
		for _, d := range p.dialogs {
			if d.turn == turnAsked {
				d.turn = turnWanted
			}
		}
	}
}

// converseUnit returns how a unit's completions call tools, nil if they do not. ctx is what a report to the unit's
// listener may take.
func (g *Generator) converseUnit(ctx context.Context, u *Unit, log *tools.Log, replies *replySplitter) (*conversing,
	error) {
	settings := &g.Job.Tools
	if !settings.Used() {
		return nil, nil
	}
	if replies == nil {
		return nil, conversation.ErrNoForm
	}
	if g.caller == nil {
		caller, err := tools.NewCaller(settings)
		if err != nil {
			return nil, err
		}
		g.caller = caller
	}
	return &conversing{&conversation.Tools{Settings: settings, Caller: g.caller, Log: log}, g.tellUnit(ctx, u)}, nil
}
