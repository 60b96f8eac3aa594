package generate

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/batch/watch"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// replayer is an engine that generates completions again with the versions of the weights that they had.
type replayer interface {
	Replay(ctx context.Context, requests iter.Seq[*engine.Request],
		open engine.OpenVersion) iter.Seq2[*engine.Completion, error]
}

// replayed is a completion that is generated again.
type replayed struct {
	unit    *Unit
	row     *pendingRow
	running bool // the row is started; else its results are put into the journal alone
	versions.UnderWay
}

// replay generates the completions that were under way in an earlier engine, with the versions of the weights that they
// had, before anything else starts.
func replay(ctx context.Context, g *Generator) error {
	earlier := g.watcher.Earlier(g.Session)
	defer earlier.Close()
	rows := map[*engine.Request]*replayed{}
	var requests []*engine.Request
	for _, u := range g.Active.List() {
		more, err := u.underWay(ctx, g.Opened, earlier, rows)
		if err != nil {
			return err
		}
		requests = append(requests, more...)
	}
	if len(requests) == 0 {
		return nil
	}
	sampler, ok := g.Session.Sampler.(replayer)
	if !ok {
		return errors.New("this engine cannot take other weights")
	}
	g.Process.Statusf("%s that had started %s generated again with the weights that they had",
		plural.Count(len(requests), "completion"), plural.Of(len(requests), "is", "are"))
	device := process.WatchDevice(g.Process, g.Session, func() bool { return false })
	defer device.Stop()
	refused := map[string]int{}
	for c, err := range sampler.Replay(ctx, slices.Values(requests), earlier.Open) {
		if device.Alive(); err != nil {
			return err
		}
		r := rows[c.Request]
		if ask.Refused(c.Err) { // it begins again, and the row has the error if it is refused then, too
			refused[c.Err.Error()]++
			r.unit.Out.underWay.End(r.Row, r.Generation)
			continue
		}
		if err := r.unit.keep(r, c); err != nil {
			return err
		}
		r.unit.Listener.Progressed(ctx, r.unit)
	}
	for why, n := range refused {
		g.Process.Printf("warning: %s that had started will have other weights: %s", plural.Count(n, "completion"), why)
	}
	g.engines = g.engines.Then(g.Session.Stats())
	return earlier.Reset(ctx, g.Session)
}

// underWay makes the requests for completions of a unit that were under way, and adds them to rows. Completions whose
// weights are not there any more begin again, as if they had not.
func (u *Unit) underWay(ctx context.Context, opened *prepare.Opened, earlier *watch.Earlier,
	rows map[*engine.Request]*replayed) (requests []*engine.Request, err error) {
	list := u.Out.underWay.UnderWay()
	if len(list) == 0 {
		return nil, nil
	}
	started := map[int64]*pendingRow{}
	for _, p := range u.Out.unfinished() {
		started[p.row.Index] = p
	}
	var reader *rowReader
	missing, gone := map[string]error{}, map[string]int{}
	read := map[int64]*pendingRow{}
	for _, c := range list {
		lost := ""
		for _, run := range c.Runs {
			if _, known := missing[run.Version]; !known {
				missing[run.Version] = earlier.Find(ctx, run.Version, u.Out.underWay.Names(run.Version))
			}
			if missing[run.Version] != nil {
				lost = run.Version
			}
		}
		p := started[c.Row]
		if p == nil && lost == "" {
			if p = read[c.Row]; p == nil {
				if reader == nil {
					reader = newRowReader(opened.Reader, opened.Parts.Rows)
				}
				row, err := reader.row(ctx, c.Row)
				if err != nil {
					return nil, err
				}
				p = &pendingRow{row: row, requests: u.requestsAgain(ctx, row)}
				read[c.Row] = p
			}
		}
		r := requestAgain(p, &c)
		if lost != "" || r == nil {
			if u.Out.underWay.End(c.Row, c.Generation); lost != "" {
				gone[lost]++
			}
			continue
		}
		rows[r] = &replayed{unit: u, row: p, running: started[c.Row] != nil, UnderWay: c}
		requests = append(requests, r)
	}
	for version, n := range gone {
		u.process.Printf("warning: %s that had started will have other weights: weights %.12s are not there: %v",
			plural.Count(n, "completion"), version, missing[version])
	}
	return requests, ctx.Err()
}

// requestsAgain makes the requests of a row of which an earlier process generated something; none if they can't be made
// now.
func (u *Unit) requestsAgain(ctx context.Context, row *promptset.Row) []*engine.Request {
	if row.Err != nil {
		return nil
	}
	if u.lineage != nil && u.lineage.Of(row.Index) >= 0 {
		if parent, err := u.lineage.Known(u.lineage.Of(row.Index)); parent == nil || err != nil || parent.Failed() {
			return nil
		}
	}
	from, err := u.lineage.parentOf(ctx, row)
	if err != nil {
		return nil
	}
	requests, _ := u.builder.Requests(row, from)
	return requests
}

// requestAgain makes the request for a completion of a row; nil if the row does not want it any more.
func requestAgain(p *pendingRow, c *versions.UnderWay) *engine.Request {
	if p == nil || len(p.requests) == 0 {
		return nil
	}
	r := *p.requestOf(c.Generation)
	if c.Generation < r.FirstGeneration || c.Generation >= r.FirstGeneration+r.N {
		return nil
	}
	r.FirstGeneration, r.N, r.Weights = c.Generation, 1, c.Runs
	return &r
}

// keep takes a completion that was generated again.
func (u *Unit) keep(r *replayed, done *engine.Completion) error {
	if r.running && r.row.judged == nil {
		return u.Out.add(r.row, done)
	}
	c := u.Out
	result := c.results.Of(r.row.row, done)
	c.mu.Lock()
	at, err := c.append(r.row, &result)
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case r.running:
		return c.restore(r.row, []completion.Result{result})
	case u.Saved != nil:
		u.Saved.Add(r.Row, r.Generation, at)
	}
	return nil
}

// noteVersions has requests of a row tell which weights generate their completions, and journals that.
func (u *Unit) noteVersions(row int64, r *engine.Request, names func(version string) []string) {
	c := u.Out
	r.Started = func(generation, first int, version string) {
		note := versions.Note{Generation: generation, First: first, Version: version, Names: names(version)}
		c.underWay.Add(row, note)
		if _, err := c.journal.Put(row, note.AppendBinary(nil)); err != nil {
			c.end(err)
		}
	}
}
