package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/folder"
)

// Run does a job: see [Task.Run].
func Run(ctx context.Context, spec Spec, options Options) (*Report, error) {
	t, err := NewTask(spec, options)
	if err != nil {
		return nil, err
	}
	return t.Run(ctx)
}

// Run does the job, or this process' shard of it: read, draw, write. Where the output folder has a part of it done, it
// does the rest. The report is nil where nothing was begun; an error of outcome [Partial] says that rows carry errors,
// one of outcome [Interrupted] that ctx has ended the run, which the same task goes on with.
func (t *Task) Run(ctx context.Context) (report *Report, err error) {
	started := time.Now()
	defer func() { t.Observer.endSeries(result(err)) }()
	defer t.endInTime(ctx, func() {})()
	ctx, leave, err := t.join(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(err) }()
	if t.Output == Standard {
		return t.runStream(ctx, started)
	}
	if err := t.needDevice(ctx); err != nil {
		return nil, err
	}
	// What is wrong with the files comes out before the model takes its time.
	job, err := t.openJob(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.agreeWithHosts(job.description); err != nil {
		return nil, err
	}
	if t.Hosts.follows() {
		return t.follow(ctx)
	}
	if !t.Shard.Whole() {
		if err := job.checkLineage(ctx, t.Shard); err != nil {
			return nil, err
		}
	}
	saved, err := t.openSavedPatiently(ctx, job)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := saved.close(); err == nil {
			err = cerr
		}
		t.New = false // what is there now is this job's, which the same task may go on with
	}()
	saved.tellDamaged(t.Messages)
	if len(saved.missing) == 0 {
		return t.alreadyFinished(saved, job.fingerprint, started)
	}
	if err := t.lead(saved); err != nil {
		return nil, err
	}
	warnOfInput(ctx, t, job)
	r := newRunner(t, job)
	defer r.release()
	one := &rest{single: single{runner: r}, saved: saved}
	r.source = one
	if err := one.begin(ctx); err != nil {
		return nil, err
	}
	return one.finish(ctx, started, r.draw(ctx))
}

// openSavedPatiently is openSaved, and waits for the lock of a process that dies.
func (t *Task) openSavedPatiently(ctx context.Context, job *openedJob) (saved *savedJob, err error) {
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		saved, err = t.openSaved(ctx, job.parts, job.description)
		return err
	})
	if err != nil {
		return t.openFinished(ctx, job, err)
	}
	return saved, nil
}

// openedJob is a job with its inputs, and what is known of its model.
type openedJob struct {
	reader      *promptset.Reader
	fingerprint string
	dtype       dtypes.DType // the model's own
	template    bool         // rows with messages can be run
	description *jobstate.Description
	parts       folder.Parts
	kin         *lineage // once it was read; nil where no row goes on from another
}

// Look looks into the inputs and the model's files, as all else does that needs them, and says what is wrong there.
func (t *Task) Look(ctx context.Context) error {
	_, err := t.openJob(ctx)
	return err
}

// openJob looks into the inputs and the model's files, once.
func (t *Task) openJob(ctx context.Context) (*openedJob, error) {
	if t.opened != nil {
		return t.opened, nil
	}
	if err := t.checkOutput(ctx); err != nil {
		return nil, err
	}
	j := &openedJob{}
	var err error
	if j.reader, err = t.openInputs(ctx); err != nil {
		return nil, err
	}
	if err := t.canAnswer(j.reader); err != nil {
		return nil, err
	}
	if err := t.canExclude(j.reader); err != nil {
		return nil, err
	}
	if err := t.canKeepPartitions(j.reader); err != nil {
		return nil, err
	}
	model, err := t.Models.Identify(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := t.needTokenizer(ctx, model, j.reader); err != nil {
		return nil, err
	}
	if err := t.needTemplate(model); err != nil {
		return nil, err
	}
	if err := t.takeGeneration(model.Generation); err != nil {
		return nil, err
	}
	if err := t.checkOwn(ctx); err != nil {
		return nil, err
	}
	t.sayDefaults()
	j.fingerprint, j.dtype, j.template = model.Fingerprint, model.DType, t.hasTemplate(model)
	t.takeCut(ctx)
	if j.parts = t.parts(j.reader.NumRows()); t.KeepPartitions {
		j.parts = inFolders(j.parts, InputsOf(j.reader))
	}
	if j.description, err = t.describe(j.reader, j.parts, j.fingerprint); err != nil {
		return nil, err
	}
	t.opened = j
	return j, nil
}

// canAnswer refuses inputs whose rows the output's format has no lines for.
func (t *Task) canAnswer(r *promptset.Reader) error {
	name := r.NoRequests()
	if t.Format != promptset.FormatOpenAI || name == "" {
		return nil
	}
	return endWith(Misused, "`format` is openai, which answers the lines of OpenAI's batch files, and %s is none (its "+
		"lines have no custom_id, method, url and body): give `format` parquet or jsonl", name)
}

// openInputs looks into the inputs. Names that no file has are an error of usage.
func (t *Task) openInputs(ctx context.Context) (*promptset.Reader, error) {
	if err := t.readMapping(); err != nil {
		return nil, err
	}
	files, err := t.files(ctx)
	if err != nil {
		return nil, err
	}
	reader, err := promptset.OpenMapped(ctx, files, t.Inputs, t.mapping)
	if wrong := (*promptset.FileError)(nil); errors.As(err, &wrong) && (wrong.Missing || wrong.NoPrompts) {
		if wrong.Advice != "" {
			err = fmt.Errorf("%w: %s", err, wrong.Advice)
		}
		return nil, endWith(Misused, "`input` %w", err)
	}
	if err == nil {
		t.Partitions = reader.Partitions()
	}
	return reader, err
}

// claim makes the job, with what the engine settled on, the folder's job, if there is none yet. errSettled says that
// another process was faster since the engine was opened, and that the task has taken its sizes; an error that the job
// there is another one, or computed in another way.
func (r *runner) claim(ctx context.Context, t *Task, saved *savedJob) error {
	plan, before := r.session.Plan(), r.task.Engine
	d := *r.job.description
	d.Settled, d.Device, d.Meta = settled(plan), plan.Backend, t.footer(r.session)
	var err error
	if d.Arithmetic, err = t.arithmetic(r.session.Device); err != nil {
		return err
	}
	if err := errors.Join(saved.claim(ctx, t, &d), saved.dropStandard()); err != nil {
		return err
	}
	if was := saved.state.Job().Settled; !sameSettled(settled(plan), was) {
		if err := r.task.settleAs(was, nil); err != nil {
			return err
		}
		if r.task.Engine != before { // else an engine that is opened again is the same
			return errSettled
		}
	}
	return saved.computes(t, d.Arithmetic)
}

// single is a source of one unit, which is begun before the drawing.
type single struct {
	*runner
	unit    *unit
	showing sync.Mutex // the progress: rows are begun by one goroutine and completed by another
}

// rest is the source of a run: all that is missing of its parts.
type rest struct {
	single
	saved *savedJob
}

// begin opens the engine and the unit.
func (s *rest) begin(ctx context.Context) error {
	t := s.task
	if err := s.open(ctx); err != nil {
		return err
	}
	err := s.claim(ctx, t, s.saved)
	if errors.Is(err, errSettled) {
		if t.several() {
			return errors.New("another shard was faster and settled on other sizes: start all processes of this " +
				"shard again, which then take those")
		}
		if err = s.open(ctx); err == nil { // with what the faster process settled on
			err = s.claim(ctx, t, s.saved)
		}
	}
	if err != nil {
		return err
	}
	plan := s.session.Plan()
	s.unit, err = s.openUnit(ctx, t, s.saved, func() {
		t.sayPlan(plan)
		s.saved.announce(t, plan)
		t.Observer.keep(t.FS, s.saved.state.Dir(), t.New)
		t.Observer.started(plan, s.saved.rows, s.saved.before.Rows)
	})
	if err != nil {
		return err
	}
	s.unit.out.before = s.saved.before
	s.runner.begin(s.unit)
	t.Progress.Start(s.saved.rows)
	return nil
}

func (s *single) ready(engine.Plan) {}

// next has nothing more: the unit is begun before the drawing.
func (s *single) next(context.Context) (*unit, error) { return nil, nil }

func (s *single) moved(_ context.Context, u *unit) {
	s.showing.Lock()
	defer s.showing.Unlock()
	done, drawn, _ := u.out.counts()
	s.task.Progress.Update(done, drawn)
}

func (s *single) unread(_ context.Context, _ *unit, err error) { s.fail(err) }
func (s *single) broken(_ context.Context, _ *unit, err error) { s.fail(err) }

// gaveUp names the rows that were in flight.
func (s *single) gaveUp(_ context.Context, err error) error { return s.unit.gaveUp(err) }

// finish closes what is open after the drawing, whose error is runErr, and says what the run came to.
func (s *rest) finish(ctx context.Context, started time.Time, runErr error) (*Report, error) {
	t, u := s.task, s.unit
	u.stop()
	done, drawn, _ := u.out.counts()
	t.Progress.Finish(done, drawn)
	interrupted := ctx.Err() != nil && !t.Hosts.lost()
	// The writer's error has been that of the run.
	if err := u.writer.Close(); runErr == nil {
		runErr = err
	}
	if err := s.saved.journal.Close(); err != nil && (runErr == nil || interrupted) {
		runErr, interrupted = err, false
	}
	unpublished := len(u.writer.Unpublished())
	if runErr == nil && !interrupted {
		runErr = t.savePrefix(ctx, s.session, s.builder.common.tokens)
	}
	if runErr == nil && !interrupted && unpublished == 0 {
		runErr = s.saved.clearJournals() // of shards too, whose parts a run of the whole job has done
	}
	report := s.report(u, started, interrupted)
	report.Parts, report.Standing = s.saved.mine, s.saved.standingOfShard()
	partly := ""
	if report.RowsInPart > 0 {
		partly = fmt.Sprintf(", with completions of %d more", report.RowsInPart)
	}
	kept := fmt.Sprintf("%d of %d rows are finished and kept in %s%s; run the same command again to go on", report.Rows,
		s.saved.rows, t.Output, partly)
	switch {
	case interrupted:
		return report, endWith(Interrupted, "interrupted: %s", kept)
	case runErr != nil:
		return report, fmt.Errorf("%w (%s)", runErr, kept)
	case unpublished > 0:
		return report, notFinished(unpublished, kept)
	}
	return report, rowsWithErrors(report.RowsWithErrors, report.Rows, t.Output)
}

// notFinished is the error for parts that are missing for no reason.
func notFinished(parts int, kept string) error {
	return fmt.Errorf("%s not finished, and nothing says why: this is a fault, please report it (%s)",
		plural.Count(parts, "part")+plural.Of(parts, " was", " were"), kept)
}

// alreadyFinished says that there is nothing to do.
func (t *Task) alreadyFinished(saved *savedJob, fingerprint string, started time.Time) (*Report, error) {
	// The last process may have died between the last part and this.
	if err := errors.Join(saved.extend(t), saved.dropStandard(), saved.clearJournals()); err != nil {
		return nil, err
	}
	report := t.report(fingerprint, started)
	report.AlreadyFinished, report.Parts, report.Standing = true, saved.mine, saved.standingOfShard()
	report.Counts, report.RowsBefore, report.RowsPlanned = saved.before, saved.before.Rows, saved.rows
	if _, err := os.Stat(t.SavePrefix); t.SavePrefix != "" && err != nil {
		return report, fmt.Errorf(
			"`save-prefix` %s was not written: the job is finished and nothing was run; `new` generates it again",
			t.SavePrefix)
	}
	// As for the run that finished it, whose exit code may have been lost with it.
	return report, rowsWithErrors(report.RowsWithErrors, report.Rows, t.Output)
}

// standingOfShard is how the whole job stands after a shard's work; nil where it is not known or this is the whole job.
func (s *savedJob) standingOfShard() *Standing {
	if s.shard.Whole() {
		return nil
	}
	all, err := s.standing()
	if err != nil {
		return nil
	}
	return &all
}

// kernelLevel is in the description of a backend; what of it decides bytes is in the job's arithmetic.
var kernelLevel = regexp.MustCompile(`kernels \w+, `)

// announce says what an earlier process did of the job.
func (s *savedJob) announce(t *Task, plan engine.Plan) {
	if !s.resumed {
		return
	}
	rows, completions := s.journaled()
	what := "the job in " + t.Output
	if !s.shard.Whole() {
		what = fmt.Sprintf("shard %s of %s", s.shard, what)
	}
	// Other shards may have begun the job, and this one nothing yet.
	if published := s.mine - len(s.missing); s.shard.Whole() || published+completions > 0 {
		t.say("going on with %s: %d of %d parts are published, and the journal has %s of %d more %s",
			what, published, s.mine, plural.Count(completions, "completion"), rows, plural.Noun(rows, "row"))
	}
	if was := s.state.Job().Device; kernelLevel.ReplaceAllString(was, "") != kernelLevel.ReplaceAllString(plan.Backend,
		"") {
		t.tell("warning: the job was begun on %q and goes on with %q: completions may differ in their last digits "+
			"from those of a single run", was, plan.Backend)
	}
}

// tell writes a line.
func (o *Options) tell(format string, args ...any) { tell(o.Messages, format, args...) }

func tell(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
