package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
)

// settle opens the output folder, and settles the job as the one there is.
func settle(ctx context.Context, p *Process, opened *Opened) (saved *savedJob, err error) {
	if !p.Shard.Whole() {
		if err := opened.checkLineage(ctx, p.Shard); err != nil {
			return nil, err
		}
	}
	// The lock may be that of a process that dies.
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		saved, err = openSaved(ctx, p, opened)
		return err
	})
	if err != nil {
		if saved, err = openFinished(ctx, p, opened, err); err != nil {
			return nil, err
		}
	}
	saved.tellDamaged(p.Messages)
	return saved, nil
}

// runRest generates and publishes what is missing of a job, or of a shard.
func runRest(ctx context.Context, saved *savedJob, started time.Time) (*Report, error) {
	warnOfInput(ctx, saved.process, saved.opened)
	g := newGenerator(saved.process, saved.job, saved.opened)
	defer g.release()
	u, err := g.beginRest(ctx, saved)
	if err != nil {
		return nil, err
	}
	return g.publish(ctx, u, started, g.generate(ctx, noMore{}))
}

// noMore is the source of a run, whose one unit is begun before the generating.
type noMore struct{}

func (noMore) Next(context.Context) (next, error) { return next{}, nil }

// beginRest opens the engine, claims the job, and begins all that is missing of it as one unit.
func (g *generator) beginRest(ctx context.Context, saved *savedJob) (*unit, error) {
	p := g.process
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	resized, err := g.claim(ctx, saved)
	if resized && p.several() {
		return nil, errors.New("another shard was faster and settled on other sizes: start all processes of this " +
			"shard again, which then take those")
	}
	if resized {
		if err = g.open(ctx); err == nil { // with what the faster process settled on
			_, err = g.claim(ctx, saved)
		}
	}
	if err != nil {
		return nil, err
	}
	g.job = saved.job
	plan := g.session.Plan()
	u, err := g.openUnit(ctx, saved, func() {
		p.sayPlan(plan)
		saved.announce(plan)
		p.Observer.keep(p.FS, saved.state.Dir(), p.New)
		p.Observer.started(plan, saved.rows, saved.before.Rows)
	})
	if err != nil {
		return nil, err
	}
	u.out.before, u.listener = saved.before, &onlyUnit{progress: p.Progress, flight: &g.flight}
	g.flight.begin(u)
	p.Progress.Start(saved.rows)
	return u, nil
}

// onlyUnit is told how the one unit of a run goes.
type onlyUnit struct {
	progress Progress
	flight   *flight
	showing  sync.Mutex // the progress: rows are begun by one goroutine and completed by another
}

func (o *onlyUnit) moved(_ context.Context, u *unit) {
	o.showing.Lock()
	defer o.showing.Unlock()
	done, drawn, _ := u.out.counts()
	o.progress.Update(done, drawn)
}

func (o *onlyUnit) unread(_ context.Context, _ *unit, err error) { o.flight.fail(err) }
func (o *onlyUnit) broken(_ context.Context, _ *unit, err error) { o.flight.fail(err) }

// publish closes what is open after the generating, whose error is runErr, and says what the run came to.
func (g *generator) publish(ctx context.Context, u *unit, started time.Time, runErr error) (*Report, error) {
	p, saved := g.process, u.saved
	runErr = u.namesRows(runErr)
	u.rows.stop()
	done, drawn, _ := u.out.counts()
	p.Progress.Finish(done, drawn)
	interrupted := ctx.Err() != nil && !p.Hosts.lost()
	// The writer's error has been that of the run.
	if err := u.writer.Close(); runErr == nil {
		runErr = err
	}
	if err := saved.journal.Close(); err != nil && (runErr == nil || interrupted) {
		runErr, interrupted = err, false
	}
	unpublished := len(u.writer.Unpublished())
	if runErr == nil && !interrupted {
		runErr = savePrefix(ctx, p, g.session, g.builder.Common.Tokens)
	}
	if runErr == nil && !interrupted && unpublished == 0 {
		runErr = saved.clearJournals() // of shards too, whose parts a run of the whole job has done
	}
	report := g.report(u, started, interrupted)
	report.Parts, report.Standing = saved.mine, saved.standingOfShard()
	partly := ""
	if report.RowsInPart > 0 {
		partly = fmt.Sprintf(", with completions of %d more", report.RowsInPart)
	}
	kept := fmt.Sprintf("%d of %d rows are finished and kept in %s%s; run the same command again to go on", report.Rows,
		saved.rows, g.job.Output, partly)
	switch {
	case interrupted:
		return report, endWith(Interrupted, "interrupted: %s", kept)
	case runErr != nil:
		return report, fmt.Errorf("%w (%s)", runErr, kept)
	case unpublished > 0:
		return report, notFinished(unpublished, kept)
	}
	return report, rowsWithErrors(report.RowsWithErrors, report.Rows, g.job.Output)
}

// notFinished is the error for parts that are missing for no reason.
func notFinished(parts int, kept string) error {
	return fmt.Errorf("%s not finished, and nothing says why: this is a fault, please report it (%s)",
		plural.Count(parts, "part")+plural.Of(parts, " was", " were"), kept)
}

// alreadyFinished says that there is nothing to do.
func (s *savedJob) alreadyFinished(started time.Time) (*Report, error) {
	p := s.process
	// The last process may have died between the last part and this.
	if err := errors.Join(s.extend(), s.dropStandard(), s.clearJournals()); err != nil {
		return nil, err
	}
	report := newReport(p, s.job, s.opened.model.Fingerprint, started)
	report.AlreadyFinished, report.Parts, report.Standing = true, s.mine, s.standingOfShard()
	report.Counts, report.RowsBefore, report.RowsPlanned = s.before, s.before.Rows, s.rows
	if _, err := os.Stat(p.SavePrefix); p.SavePrefix != "" && err != nil {
		return report, fmt.Errorf(
			"`save-prefix` %s was not written: the job is finished and nothing was run; `new` generates it again",
			p.SavePrefix)
	}
	// As for the run that finished it, whose exit code may have been lost with it.
	return report, rowsWithErrors(report.RowsWithErrors, report.Rows, s.job.Output)
}

// kernelLevel is in the description of a backend; what of it decides bytes is in the job's arithmetic.
var kernelLevel = regexp.MustCompile(`kernels \w+, `)

// announce says what an earlier process did of the job.
func (s *savedJob) announce(plan engine.Plan) {
	if !s.resumed {
		return
	}
	rows, completions := s.journaled()
	what := "the job in " + s.job.Output
	if !s.shard.Whole() {
		what = fmt.Sprintf("shard %s of %s", s.shard, what)
	}
	// Other shards may have begun the job, and this one nothing yet.
	if published := s.mine - len(s.missing); s.shard.Whole() || published+completions > 0 {
		s.process.say("going on with %s: %d of %d parts are published, and the journal has %s of %d more %s",
			what, published, s.mine, plural.Count(completions, "completion"), rows, plural.Noun(rows, "row"))
	}
	if was := s.state.Job().Device; kernelLevel.ReplaceAllString(was, "") != kernelLevel.ReplaceAllString(plan.Backend,
		"") {
		s.process.tell("warning: the job was begun on %q and goes on with %q: completions may differ in their last "+
			"digits from those of a single run", was, plan.Backend)
	}
}
