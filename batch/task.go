package batch

import (
	"context"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/check"
	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/interactive"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
)

// Task is a job as this process does it.
type Task struct {
	Job     *spec.Job
	Process *process.Process

	opened *prepare.Opened // once the inputs were looked into
}

// NewTask is a job that is described and done in one place: see [Describe].
func NewTask(spec spec.Spec, options process.Options) (*Task, error) {
	j, err := process.Describe(spec, options)
	if err != nil {
		return nil, err
	}
	return New(j, options), nil
}

// New makes the task of a job for this process, with options that the job was described with. Options about the
// process's surroundings may have been added.
func New(j *spec.Job, o process.Options) *Task {
	return &Task{Job: j, Process: &process.Process{Options: load.WithModels(o).WithDefaults()}}
}

// Run does a job: see [Task.Run].
func Run(ctx context.Context, spec spec.Spec, options process.Options) (*generate.Report, error) {
	t, err := NewTask(spec, options)
	if err != nil {
		return nil, err
	}
	return t.Run(ctx)
}

// Run does the job, or this process' shard of it: it reads, generates and writes. If the output folder has a part of it
// done, it does the rest. The report is nil if nothing was started. An error of outcome [Partial] reports that rows
// carry errors. An error of outcome [Interrupted] reports that ctx has ended the run, which running the same task again
// continues.
func (t *Task) Run(ctx context.Context) (report *generate.Report, err error) {
	started, p := time.Now(), t.Process
	defer func() { p.Observer.EndSeries(outcome.Word(err)) }()
	defer process.EndInTime(ctx, p, func() {})()
	ctx, leave, err := process.Join(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(err) }()
	if t.Job.Output == spec.Standard {
		return generate.Stream(ctx, p, t.Job, started)
	}
	if err := prepare.CheckNeeds(ctx, p, t.Job); err != nil {
		return nil, err
	}
	// What is wrong with the files comes out before the model takes its time.
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := agreeWithHosts(p, opened); err != nil {
		return nil, err
	}
	if p.Hosts.Follows() {
		return follow(ctx, p, opened.Job)
	}
	saved, err := resume.Settle(ctx, p, opened)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := saved.Close(); err == nil {
			err = cerr
		}
		t.Process = p.Continuing() // what is there now is this job's, which the same task may continue with
	}()
	if len(saved.Missing) == 0 {
		return generate.AlreadyFinished(saved, started)
	}
	if err := limitRows(ctx, saved, opened); err != nil {
		return nil, err
	}
	if err := lead(saved); err != nil {
		return nil, err
	}
	return generate.Run(ctx, saved, started)
}

// limitRows has the engine take sequences as long as the job's rows need, if nothing gave a limit.
func limitRows(ctx context.Context, saved *resume.Saved, opened *prepare.Opened) error {
	if saved.Resumed && !saved.Changes() {
		return nil // the job has its limit
	}
	limit, ok, err := prepare.LimitOfRows(ctx, saved.Process, opened)
	if err == nil && ok {
		saved.RaiseLimit(limit)
	}
	return err
}

// open looks into the inputs and the model's files, once.
func (t *Task) open(ctx context.Context) (_ *prepare.Opened, err error) {
	if t.opened == nil {
		t.opened, err = prepare.Open(ctx, t.Process, t.Job)
	}
	return t.opened, err
}

// Look looks into the inputs and the model's files, as all else does that needs them, and reports what is wrong there.
func (t *Task) Look(ctx context.Context) error {
	_, err := t.open(ctx)
	return err
}

// Audit generates random rows of the job's output again, and compares them with it. It changes nothing.
func (t *Task) Audit(ctx context.Context, rows int64, seed uint64) (*generate.Audited, error) {
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return generate.Audit(ctx, t.Process, opened, rows, seed)
}

// Check reads all rows of the job, makes their requests, and reports totals. It opens no device, so it does not find
// errors of generating, such as a completion whose structure takes too much memory.
//
// With tokensPerSecond it reports how long generating takes at most; 0 is the rate of like, if that has one. With like,
// which may be nil, it reports what to expect. The error is of outcome [Partial] if rows have errors.
func (t *Task) Check(ctx context.Context, tokensPerSecond float64, like *check.Earlier) (*check.Report, error) {
	copied, remove, err := prepare.CopyStandardInput(ctx, t.Process, t.Job)
	if err != nil {
		return nil, err
	}
	defer remove()
	opened, err := prepare.OpenCopied(ctx, t.Process, t.Job, copied)
	if err != nil {
		return nil, err
	}
	return check.Run(ctx, t.Process, opened, tokensPerSecond, like)
}

// Distribute has the job done by a crew, which takes its units from a queue of its own. The queue lasts no longer than
// this call: the output folder records what is done.
func (t *Task) Distribute(ctx context.Context, units distribute.UnitOptions,
	crew distribute.Workers) (*distribute.Report, error) {
	started := time.Now()
	if err := t.Process.RequireWhole(&t.Job.Spec, "workers"); err != nil {
		return nil, err
	}
	if err := prepare.CheckNeeds(ctx, t.Process, t.Job); err != nil {
		return nil, err
	}
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return distribute.Run(ctx, t.Process, opened, started, units, crew)
}

// Submit puts the job into a queue, which workers take the units of from. The same job again changes nothing while its
// units are in the queue, and queues those again whose parts are not there when it is over. With retry, units that are
// parked are queued again.
func (t *Task) Submit(ctx context.Context, q *queue.Queue, units distribute.UnitOptions,
	retry bool) (*distribute.Submission, error) {
	if t.Job.Output == spec.Standard {
		return nil, outcome.Errorf(outcome.Misused,
			"`output` is -, and workers write to a folder: give `output` FOLDER")
	}
	if t.Job.ReadsStandard() {
		return nil, outcome.Errorf(outcome.Misused, process.OneProcessReads, "sample submit")
	}
	if err := process.CheckCalls(&t.Job.Spec); err != nil {
		return nil, err
	}
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return distribute.Submit(ctx, t.Process, opened, q, units, retry)
}

// Withdraw takes the job out of a queue; its output stays. It returns the job's name.
func (t *Task) Withdraw(ctx context.Context, q *queue.Queue) (string, error) {
	opened, err := t.open(ctx)
	if err != nil {
		return "", err
	}
	return distribute.Withdraw(ctx, opened, q)
}

// Try opens the model. The job has [Standard] for the input and the output.
func (t *Task) Try(ctx context.Context) (*interactive.Model, error) {
	return interactive.Open(ctx, t.Process, t.Job)
}

// KeepPrefix writes the file of SavePrefix without a job: of what the prompts of the inputs have in common. It returns
// the number of its tokens, including the tokens of a last page that is not full.
func (t *Task) KeepPrefix(ctx context.Context) (tokens int, err error) {
	return keepPrefix(ctx, t.Process, t.Job)
}

// Identify returns what is known of the job's model without loading it.
func (t *Task) Identify(ctx context.Context) (process.Identity, error) {
	return t.Process.Models.Identify(ctx, t.Job, t.Process)
}

// OpenSession makes the job's model ready to generate, with other parameters than the job's.
func (t *Task) OpenSession(ctx context.Context, j *spec.Job) (*process.Session, error) {
	return t.Process.Models.OpenSession(ctx, j, t.Process)
}

// OpenModel opens the job's model, whose weights are not read yet. Of a model in an object store or on the hub that
// several hosts run together, each host reads what its own devices have.
func (t *Task) OpenModel(ctx context.Context) (*models.Checkpoint, error) {
	return load.OpenModel(ctx, t.Process, t.Job)
}

// OpenDevices makes the job's backend, with the kernels that it asks for, fetching the CPU's plugin if need be.
func (t *Task) OpenDevices(ctx context.Context) (compute.Backend, error) {
	return load.OpenDevices(ctx, t.Process, &t.Job.Engine)
}

// OpenTopology makes a backend that compiles the job's programs for devices that need not be here; keep says to keep
// them in the cache of compiled programs.
func (t *Task) OpenTopology(ctx context.Context, name string, keep bool) (*xla.Backend, error) {
	return load.OpenTopology(ctx, t.Process, t.Job.Engine.Kernels, name, keep)
}

// PlanConfig returns what determines the programs of the job's engine, except the backend: the config of
// [RealModels.Open]. The job that it returns has the defaults of the model's files. The caller closes a draft model in
// the config.
func (t *Task) PlanConfig(ctx context.Context, model *models.Checkpoint) (*spec.Job, engine.Config, error) {
	return load.PlanConfig(ctx, t.Process, t.Job, model)
}
