package batch

import (
	"context"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/queue"
)

// Task is a job as this process does it.
type Task struct {
	Job     *Job
	Process *Process

	opened *Opened // once the inputs were looked into
}

// NewTask is a job that is described and done in one place: see [Describe].
func NewTask(spec Spec, options Options) (*Task, error) {
	j, err := Describe(spec, options)
	if err != nil {
		return nil, err
	}
	return New(j, options), nil
}

// New makes the task of a job for this process, with options that the job was described with. Options about the
// process's surroundings may have been added.
func New(j *Job, o Options) *Task {
	return &Task{Job: j, Process: &Process{Options: withModels(o).withDefaults()}}
}

// Run does a job: see [Task.Run].
func Run(ctx context.Context, spec Spec, options Options) (*Report, error) {
	t, err := NewTask(spec, options)
	if err != nil {
		return nil, err
	}
	return t.Run(ctx)
}

// Run does the job, or this process' shard of it: read, generate, write. If the output folder has a part of it done, it
// does the rest. The report is nil if nothing was begun; an error of outcome [Partial] says that rows carry errors, one
// of outcome [Interrupted] that ctx has ended the run, which the same task goes on with.
func (t *Task) Run(ctx context.Context) (report *Report, err error) {
	started, p := time.Now(), t.Process
	defer func() { p.Observer.endSeries(result(err)) }()
	defer endInTime(ctx, p, func() {})()
	ctx, leave, err := join(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(err) }()
	if t.Job.Output == Standard {
		return runStream(ctx, p, t.Job, started)
	}
	if err := needDevice(ctx, p, t.Job); err != nil {
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
	if p.Hosts.follows() {
		return follow(ctx, p, opened.job)
	}
	saved, err := settle(ctx, p, opened)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := saved.close(); err == nil {
			err = cerr
		}
		t.Process = p.goesOn() // what is there now is this job's, which the same task may go on with
	}()
	if len(saved.missing) == 0 {
		return saved.alreadyFinished(started)
	}
	if err := lead(saved); err != nil {
		return nil, err
	}
	return runRest(ctx, saved, started)
}

// open looks into the inputs and the model's files, once.
func (t *Task) open(ctx context.Context) (_ *Opened, err error) {
	if t.opened == nil {
		t.opened, err = open(ctx, t.Process, t.Job)
	}
	return t.opened, err
}

// Look looks into the inputs and the model's files, as all else does that needs them, and says what is wrong there.
func (t *Task) Look(ctx context.Context) error {
	_, err := t.open(ctx)
	return err
}

// Check reads all rows of the job, makes their requests, and says what they come to. It opens no device: what only
// generating finds, such as a completion whose structure takes too much memory, is not found.
//
// With tokensPerSecond it says how long generating takes at most; 0 is the rate of like, if that has one. With like,
// which may be nil, it says what to expect. The error is of outcome [Partial] if rows have errors.
func (t *Task) Check(ctx context.Context, tokensPerSecond float64, like *Earlier) (*CheckReport, error) {
	copied, remove, err := copyStandard(ctx, t.Process, t.Job)
	if err != nil {
		return nil, err
	}
	defer remove()
	opened, err := openWith(ctx, t.Process, t.Job, copied)
	if err != nil {
		return nil, err
	}
	return check(ctx, t.Process, opened, tokensPerSecond, like)
}

// Distribute has the job done by a crew, which takes its units from a queue of its own. The queue lasts no longer than
// this call: what is done is told by the output folder.
func (t *Task) Distribute(ctx context.Context, units UnitOptions, crew Crew) (*CrewReport, error) {
	started := time.Now()
	if err := t.Process.wholeOnly(&t.Job.Spec, "`workers`"); err != nil {
		return nil, err
	}
	if err := needDevice(ctx, t.Process, t.Job); err != nil {
		return nil, err
	}
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return distribute(ctx, t.Process, opened, started, units, crew)
}

// Submit puts the job into a queue, which workers take the units of from. The same job again changes nothing while its
// units are in the queue, and queues those again whose parts are not there when it is over. With retry, units that are
// parked are queued again.
func (t *Task) Submit(ctx context.Context, q *queue.Queue, units UnitOptions, retry bool) (*Submission, error) {
	if t.Job.Output == Standard {
		return nil, endWith(Misused, "`output` is -, and workers write to a folder: give `output` FOLDER")
	}
	if t.Job.readsStandard() {
		return nil, endWith(Misused, oneReads, "sample submit")
	}
	opened, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return submit(ctx, t.Process, opened, q, units, retry)
}

// Withdraw takes the job out of a queue; its output stays. It returns the job's name.
func (t *Task) Withdraw(ctx context.Context, q *queue.Queue) (string, error) {
	opened, err := t.open(ctx)
	if err != nil {
		return "", err
	}
	return withdraw(ctx, opened, q)
}

// Try opens the model. The job has [Standard] for the input and the output.
func (t *Task) Try(ctx context.Context) (*Trial, error) { return try(ctx, t.Process, t.Job) }

// KeepPrefix writes the file of SavePrefix without a job: of what the prompts of the inputs have in common. It returns
// how many tokens that is, those of a last page that is not full included.
func (t *Task) KeepPrefix(ctx context.Context) (tokens int, err error) {
	return keepPrefix(ctx, t.Process, t.Job)
}

// Identify returns what is known of the job's model without loading it.
func (t *Task) Identify(ctx context.Context) (Identity, error) {
	return t.Process.Models.Identify(ctx, t.Job, t.Process)
}

// OpenSession makes the job's model ready to generate, with other parameters than the job's.
func (t *Task) OpenSession(ctx context.Context, j *Job) (*Session, error) {
	return t.Process.Models.Open(ctx, j, t.Process)
}

// OpenModel opens the job's model, whose weights are not read yet. Of a model in an object store or on the hub that
// several hosts run together, each host reads what its own devices have.
func (t *Task) OpenModel(ctx context.Context) (*models.Checkpoint, error) {
	return openModel(ctx, t.Process, t.Job)
}

// OpenDevices makes the job's backend, with the kernels that it asks for, fetching the CPU's plugin if need be.
func (t *Task) OpenDevices(ctx context.Context) (compute.Backend, error) {
	return openDevices(ctx, t.Process, &t.Job.Engine)
}

// OpenTopology makes a backend that compiles the job's programs for devices that need not be here; keep says to keep
// them in the cache of compiled programs.
func (t *Task) OpenTopology(ctx context.Context, name string, keep bool) (*xla.Backend, error) {
	return openTopology(ctx, t.Process, t.Job.Engine.Kernels, name, keep)
}

// PlanConfig is what the programs of the job's engine follow from, all but the backend: those of [RealModels.Open]. The
// job that it returns has the defaults that the model's files ask for. A draft model in the config is the caller's to
// close.
func (t *Task) PlanConfig(ctx context.Context, model *models.Checkpoint) (*Job, engine.Config, error) {
	return planConfig(ctx, t.Process, t.Job, model)
}
