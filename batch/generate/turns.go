package generate

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// conversing describes how completions of a unit call tools.
type conversing struct {
	*conversation.Tools
	pure bool        // equal conversations have equal results
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

// dialogs are the completions of a row that may call tools, by generation.
type dialogs struct {
	c   *collector
	p   *pendingRow
	all map[int]*dialog
}

// inOrder returns the completions in order of generation.
func (s *dialogs) inOrder() (all []*dialog) {
	for _, g := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[g])
	}
	return all
}

// converse takes up a row that lacks completions. Which of a row whose verdicts end it are started is decided later. An
// error means that nothing more can be started.
func (u *Unit) converse(p *pendingRow) error {
	c := u.Out
	c.mu.Lock()
	if p.ended { // by the verdict on a completion from before
		c.mu.Unlock()
		return nil
	}
	p.dialogs = &dialogs{c, p, map[int]*dialog{}}
	c.turns.rows++
	var lacks []int
	for _, request := range p.requests {
		for g := request.FirstGeneration; p.judged == nil && g < request.FirstGeneration+request.N; g++ {
			if !p.has(g) && !p.follows[g] {
				lacks = append(lacks, g)
			}
		}
	}
	c.mu.Unlock()
	return u.openDialogs(p, lacks)
}

// openDialogs starts completions of a row. Calls that an earlier process left without an answer are made.
func (u *Unit) openDialogs(p *pendingRow, generations []int) error {
	var opened []*dialog
	var failed error
	for _, g := range generations {
		d, err := u.Out.conversing.Open(u.builder, p.row, g, p.requestOf(g), u.retriesErrors())
		opened, failed = append(opened, &dialog{Conversation: d}), errors.Join(failed, err)
	}
	u.Out.mu.Lock()
	defer u.Out.mu.Unlock()
	if failed != nil && !p.ended { // of a row that has ended by verdicts the log may have nothing any more
		return failed
	}
	for _, d := range opened {
		if p.ended {
			return nil
		}
		p.dialogs.all[d.Generation()] = d
		if failure := d.Err(); failure != nil {
			if err := p.dialogs.end(d, d.Result(failure), failure); err != nil {
				return err
			}
		} else if d.Calls() {
			p.dialogs.call(d)
		}
	}
	return nil
}

// turnRequests returns the requests of the turns that a row wants.
func (u *Unit) turnRequests(ctx context.Context, p *pendingRow) (all []*engine.Request) {
	c := u.Out
	if p.judged != nil {
		asked, err := u.asks(ctx, p)
		if err == nil {
			err = u.openDialogs(p, asked)
		}
		if err != nil {
			c.end(err)
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return nil
	}
	var first []int
	for _, d := range p.dialogs.inOrder() {
		if d.turn != turnWanted {
			continue
		}
		if d.IsNew() {
			first = append(first, d.Generation())
		} else if request, err := d.Next(u.builder, p.requestOf(d.Generation())); err == nil {
			all = append(all, request)
		} else if p.dialogs.end(d, d.Result(err), err) != nil {
			return nil
		} else {
			continue
		}
		d.turn = turnAsked
		c.turns.asked++
	}
	return append(requestsOf(p.requests, first), all...)
}

// add adds a turn to the completion that it belongs to, and has the tools called that the turn calls. The caller holds
// the collector's lock.
func (s *dialogs) add(r *completion.Result, done *engine.Completion) error {
	c, d, refused := s.c, s.all[done.Generation], ask.Refused(done.Err)
	if c.turns.asked--; refused {
		c.turns.asked -= done.Request.N - 1
	}
	if s.p.ended || c.err != nil {
		return unlessEnded(c.err)
	}
	switch {
	case done.Err != nil && d.IsNew():
		d.turn = turnsEnded
		return c.take(s.p, r, done)
	case errors.Is(done.Err, engine.ErrPromptTooLong):
		return s.end(d, d.Full(), nil)
	case done.Err != nil:
		return s.end(d, d.Result(done.Err), done.Err)
	}
	more, err := d.Take(r, done.Request.Tokens)
	switch {
	case err != nil:
		return s.giveUp(err)
	case !more:
		return s.end(d, d.Result(nil), nil)
	}
	s.call(d)
	return nil
}

// giveUp lets nothing be written any more, because of an error of the log. The caller holds the collector's lock.
func (s *dialogs) giveUp(err error) error {
	s.c.err = err
	s.c.room.Broadcast()
	return err
}

// call has tools answer the last turn of a completion. The caller holds the collector's lock.
func (s *dialogs) call(d *dialog) {
	d.turn = turnOfTools
	d.Call(func(number int, a tools.Answer, err error) { s.c.conversing.told(s.answer(d, number, a, err)) })
}

// answer takes what a tool answered, or why the completion ends. The error is the writer's, the journal's or the log's.
func (s *dialogs) answer(d *dialog, number int, a tools.Answer, failure error) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.p.ended || c.err != nil || d.turn != turnOfTools {
		return unlessEnded(c.err)
	}
	if own := (*tools.CallError)(nil); errors.As(failure, &own) {
		if err := d.Fail(); err != nil {
			return s.giveUp(err)
		}
		return s.end(d, d.Result(failure), failure)
	} else if failure != nil {
		return s.giveUp(failure)
	}
	if !d.Answer(number, a) {
		return nil
	}
	d.turn = turnWanted
	if !slices.Contains(c.turns.ready, s.p) {
		c.turns.ready = append(c.turns.ready, s.p)
	}
	c.room.Broadcast()
	return nil
}

// end takes a completion that is whole, or has an error. The caller holds the collector's lock.
func (s *dialogs) end(d *dialog, r completion.Result, failure error) error {
	c := s.c
	d.turn = turnsEnded
	if s.p.failed == nil {
		s.p.failed = failure
	}
	if !slices.Contains(c.results.Columns, spec.ToolCallsColumn) {
		r.ToolCalls = "" // a completion that is read back has none
	}
	defer c.room.Broadcast()
	switch {
	case s.p.judged != nil:
		c.waves.given(s.p.judged, r.Generation, 1)
		if r.Err != "" {
			c.judgingOf(s.p).release(r.Generation)
		}
		return c.judgingOf(s.p).addWhole(&r)
	case r.Err == "":
		return c.lead(s.p, &r, reuse.Generated)
	}
	waiting := c.repeats.forget(s.p, r.Generation)
	if _, err := c.put(s.p, &r, nil, nil, reuse.Generated); err != nil {
		return err
	}
	return c.serve(waiting, r, nil)
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
		if p.dialogs == nil {
			continue
		}
		for _, d := range p.dialogs.all {
			if d.turn == turnAsked {
				d.turn = turnWanted
			}
		}
	}
}

// converseUnit returns how a unit's completions call tools, nil if they do not. ctx is what a report to the unit's
// listener may take.
func converseUnit(ctx context.Context, g *Generator, u *Unit, log *tools.Log) (*conversing, error) {
	settings := &g.Job.Tools
	if !settings.Used() {
		return nil, nil
	}
	tell := g.tellUnit(ctx, u)
	if g.record != nil {
		return &conversing{g.record.tools(settings), false, tell}, nil
	}
	if g.caller == nil {
		caller, err := tools.NewCaller(settings)
		if err != nil {
			return nil, err
		}
		g.caller = caller
	}
	calls := &conversation.Tools{Calls: g.caller.Begin(log), Settings: settings}
	_, impure := settings.Impure()
	return &conversing{calls, !impure, func(err error) {
		if u.Out.failed() != errEnded { // the last calls of an interrupted run may end after it has reported
			tell(err)
		}
	}}, nil
}
