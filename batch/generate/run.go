package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prefixes"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// Run generates and publishes what is missing of a job, or of a shard.
func Run(ctx context.Context, saved *resume.Saved, started time.Time) (*Report, error) {
	if err := reuse.CheckPlaces(ctx, saved.Process.Reuse); err != nil {
		return nil, err
	}
	prepare.WarnAboutInput(ctx, saved.Process, saved.Opened)
	g := NewGenerator(saved.Process, saved.Job, saved.Opened)
	defer g.Close()
	u, err := g.beginRest(ctx, saved)
	if err != nil {
		return nil, err
	}
	return g.publish(ctx, u, started, g.Generate(ctx, emptySource{}))
}

// emptySource is the source of a run, whose one unit is started before the generating.
type emptySource struct{}

func (emptySource) Next(context.Context) (NextUnit, error) { return NextUnit{}, nil }

// beginRest opens the engine, claims the job, and begins all that is missing of it as one unit.
func (g *Generator) beginRest(ctx context.Context, saved *resume.Saved) (*Unit, error) {
	p := g.Process
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	resized, err := g.Claim(ctx, saved)
	if resized && p.Several() {
		return nil, errors.New("another shard was faster and settled on other sizes: start all processes of this " +
			"shard again, which then take those")
	}
	if resized {
		if err = g.open(ctx); err == nil { // opens with what the faster process settled on
			_, err = g.Claim(ctx, saved)
		}
	}
	if err != nil {
		return nil, err
	}
	g.Job = saved.Job
	plan := g.Session.Plan()
	u, err := g.OpenUnit(ctx, saved, func() {
		p.ReportPlan(plan)
		announce(saved, plan)
		p.Observer.KeepSeries(p.FS, saved.State.Dir(), p.New)
		p.Observer.Started(plan, saved.Rows, saved.Before.Rows)
	})
	if err != nil {
		return nil, err
	}
	u.Out.before, u.Listener = saved.Before, &onlyUnit{progress: p.Progress, active: &g.Active}
	g.Active.Track(u)
	p.Progress.Start(saved.Rows)
	return u, nil
}

// onlyUnit receives the progress of a run's only unit.
type onlyUnit struct {
	progress process.Progress
	active   *ActiveUnits
	showing  sync.Mutex // the progress: rows are started by one goroutine and completed by another
}

func (o *onlyUnit) Progressed(_ context.Context, u *Unit) {
	o.showing.Lock()
	defer o.showing.Unlock()
	done, drawn, _ := u.Out.Counts()
	copied, _ := u.Out.Copied()
	o.progress.Update(done, drawn, copied)
}

func (o *onlyUnit) ReadFailed(_ context.Context, _ *Unit, err error) { o.active.Fail(err) }

func (o *onlyUnit) WriteFailed(_ context.Context, _ *Unit, err error) { o.active.Fail(err) }

// publish closes what is open after the generating, whose error is runErr, and reports what the run came to.
func (g *Generator) publish(ctx context.Context, u *Unit, started time.Time, runErr error) (*Report, error) {
	p, saved := g.Process, u.Saved
	runErr = u.nameRows(runErr)
	u.StopReading()
	u.EndCollecting()
	done, drawn, _ := u.Out.Counts()
	copied, _ := u.Out.Copied()
	p.Progress.Finish(done, drawn, copied)
	interrupted := ctx.Err() != nil && !p.Hosts.Lost()
	// The writer's error is already the error of the run.
	if err := u.Writer.Close(); runErr == nil {
		runErr = err
	}
	if err := u.Out.store.Flush(); runErr == nil {
		runErr = err
	}
	if err := saved.Journal.Close(); err != nil && (runErr == nil || interrupted) {
		runErr, interrupted = err, false
	}
	unpublished := len(u.Writer.Unpublished())
	if runErr == nil && !interrupted {
		runErr = prefixes.SavePrefix(ctx, p, g.Session, g.builder.Common.Tokens)
	}
	if runErr == nil && !interrupted && unpublished == 0 {
		runErr = saved.ClearJournals() // also of shards: a run of the whole job has done their parts
	}
	report := g.report(u, started, interrupted)
	report.Parts, report.Completeness = saved.PartCount, saved.ShardCompleteness()
	partly := ""
	if report.RowsInPart > 0 {
		partly = fmt.Sprintf(", with completions of %d more", report.RowsInPart)
	}
	kept := fmt.Sprintf("%d of %d rows are finished and kept in %s%s; run the same command again to continue",
		report.Rows,
		saved.Rows, g.Job.Output, partly)
	switch {
	case interrupted:
		return report, outcome.Errorf(outcome.Interrupted, "interrupted: %s", kept)
	case runErr != nil:
		return report, fmt.Errorf("%w (%s)", runErr, kept)
	case unpublished > 0:
		return report, NotFinished(unpublished, kept)
	}
	return report, outcome.RowsWithErrors(report.RowsWithErrors, report.Rows, g.Job.Output)
}

// NotFinished is the error for parts that are missing for no reason.
func NotFinished(parts int, kept string) error {
	return fmt.Errorf("%s not finished, and nothing says why: this is a fault, please report it (%s)",
		plural.Count(parts, "part")+plural.Of(parts, " was", " were"), kept)
}

// AlreadyFinished reports that there is nothing to do.
func AlreadyFinished(s *resume.Saved, started time.Time) (*Report, error) {
	p := s.Process
	// The last process may have died between the last part and this.
	if err := errors.Join(s.Change(), s.DropStandard(), s.ClearJournals()); err != nil {
		return nil, err
	}
	report := newReport(p, s.Job, s.Opened.Model.Fingerprint, started)
	report.AlreadyFinished, report.Parts, report.Completeness = true, s.PartCount, s.ShardCompleteness()
	report.Counts, report.RowsBefore, report.RowsPlanned = s.Before, s.Before.Rows, s.Rows
	if _, err := os.Stat(p.SavePrefix); p.SavePrefix != "" && err != nil {
		return report, setting.Errorf(
			"`save-prefix` %s was not written: the job is finished and nothing was run; `new` generates it again",
			p.SavePrefix)
	}
	// As for the run that finished it, whose exit code may have been lost with it.
	return report, outcome.RowsWithErrors(report.RowsWithErrors, report.Rows, s.Job.Output)
}

// announce reports what an earlier process did of the job.
func announce(s *resume.Saved, plan engine.Plan) {
	if !s.Resumed {
		return
	}
	rows, completions := s.CountJournaled()
	what := "the job in " + s.Job.Output
	if !s.Shard.Whole() {
		what = fmt.Sprintf("shard %s of %s", s.Shard, what)
	}
	// Other shards may have started the job, and this one nothing yet.
	if published := s.PartCount - len(s.Missing); s.Shard.Whole() || published+completions > 0 {
		s.Process.Statusf("continuing %s: %d of %d parts are published, and the journal has %s of %d more %s",
			what, published, s.PartCount, plural.Count(completions, "completion"), rows, plural.Noun(rows, "row"))
	}
	was, runtime := s.State.Job(), plan.Runtime
	if was.Runtime == "" { // a job of an older version
		runtime = plan.Backend
	}
	if cmp.Or(was.Runtime, was.Device) != runtime {
		s.Process.Printf("warning: the job was started on %q and continues with %q: completions may differ in their "+
			"last digits from those of a single run", was.Device, plan.Backend)
	}
}
