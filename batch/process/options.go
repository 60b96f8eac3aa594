package process

import (
	"cmp"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
)

// OneProcessReads is the error for standard input that comes with several processes.
const OneProcessReads = "`input` is -, which one process reads, and it comes with %s: write the rows to a file first"

// Options set how this process does a job. With the zero value it does the whole job and reports nothing meanwhile.
type Options struct {
	// WorkDir is the folder of the journal: by default in the output folder, and for an output in an object store in
	// the cache.
	WorkDir string
	// New removes what the output folder has before the job begins.
	New bool
	// Extend lets the job in the output folder grow into this one, which has more completions of a row or more rows.
	// RetryErrors tries the rows again that have errors there.
	Extend, RetryErrors bool
	// Input has the rows of [Standard] among the inputs; nil has none. An [io.Closer] is closed when as many rows are
	// read as the job's limit takes. Rows takes the completions if it is the output: each row's when they are finished,
	// or with InOrder in the order of the input.
	Input   io.Reader
	Rows    io.Writer
	InOrder bool
	// Shard is which parts of the job this process does.
	Shard jobstate.Shard
	// Reuse are outputs of other jobs, whose completions are copied where this job would generate the same.
	Reuse []string
	// Store is a place that keeps completions of all jobs; "" for none.
	Store string
	// MaxRestarts is how often a device that fails is started again without a completion in between.
	MaxRestarts int
	// Debug checks the device's tables after every step.
	Debug bool
	// DumpTables reports when the device's tables are written to files; nil for never.
	DumpTables *observe.TableDumps
	// ProfileDevice reports that the devices are profiled; nil for no.
	ProfileDevice *observe.DeviceProfile
	// SavePrefix is a file for the keys and values of the prefix that all prompts have in common. LoadPrefixes are
	// files of such prefixes, or their names in PrefixDir: see [Prefixes].
	SavePrefix   string
	LoadPrefixes []string
	PrefixDir    string
	// Contexts is how many contexts of callers may be open at once; 0 for none.
	Contexts int
	// ClientTimeout is how long the plugin may take to open its devices; 0 is xla.DefaultClientTimeout.
	ClientTimeout time.Duration
	// CallTimeout is how long a device may do nothing, as a call that never returns does, before the process is
	// [Options.Stuck]; 0 is for ever.
	CallTimeout time.Duration
	// Stuck is called if a call of the device does not return after the process was asked to end, another of its
	// [Hosts] was lost, or CallTimeout has passed. It must exit the process with the outcome of the error, because the
	// call cannot be interrupted. Everything finished is in the journal.
	Stuck func(err error)
	// Hosts are the processes that run the model together; nil for this one alone.
	Hosts *Hosts
	// Version of the program that does it, as the output's footers have it.
	Version string

	// FS has the output and the job's state: vfs.OS by default.
	FS vfs.FS
	// Messages takes lines for people: warnings, and unless Quiet is set how far the job is.
	Messages io.Writer
	// Spelling is how they name settings.
	Spelling setting.Spelling
	Quiet    bool
	Verbose  bool // the whole plan of the engine is printed
	Progress Progress
	// Observer receives what happens; Log is the engine's.
	Observer *observe.Observer
	Log      *slog.Logger
	// Fetching receives the progress of downloads.
	Fetching setup.Progress

	// Models opens models, by default from package models with an engine of package engine.
	Models Models
	// Opened is called with a model each time that it is opened; closing, unless it is nil, before it is closed.
	Opened func(*Session) (closing func(), err error)
	// TextOnly opens no engine, but what turns text into tokens.
	TextOnly bool

	// Timing is how long things wait; 0 is the wait of [DefaultTiming].
	Timing Timing

	PartGap int64 // storage.PartialOptions.Gap of weights, for tests
}

// Progress receives a job's counts, and the parts of them that this process generated and that it copied. Its calls do
// not overlap.
type Progress interface {
	Start(rows int64)
	Update(done, drawn, copied tally.Counts)
	Finish(done, drawn, copied tally.Counts)
}

type noProgress struct{}

func (noProgress) Start(int64) {}

func (noProgress) Update(done, drawn, copied tally.Counts) {}

func (noProgress) Finish(done, drawn, copied tally.Counts) {}

// Timing is how long things wait. Tests shorten it.
type Timing struct {
	// RestartPause is before the first restart of an engine; each further one waits twice as long, up to a minute.
	RestartPause time.Duration
	// StallAfter is how long nothing may come from the device before a warning is printed. It is printed again after
	// twice as long, and so on.
	StallAfter time.Duration
	// PollUnits is how long one question for a unit waits at the server, BeatEvery the time between heartbeats.
	PollUnits, BeatEvery time.Duration
	// BetweenJobs is how long a worker that found nothing to do waits, SetAside how long it leaves a job that it could
	// not work on.
	BetweenJobs, SetAside time.Duration
	// WatchEvery is the time between two looks for new weights.
	WatchEvery time.Duration
	// LostGrace is how long a process has to end when another of its group is lost, EndGrace when it is asked to end:
	// schedulers kill after 2 minutes, as the manifests state.
	LostGrace, EndGrace time.Duration
	// Journal bounds what a crash costs: finished work waits at most a second, and at most 16 MiB of it, to be on disk.
	Journal journal.Options
}

// DefaultTiming is how long things wait in production.
func DefaultTiming() Timing {
	return Timing{
		RestartPause: time.Second, StallAfter: 2 * time.Minute, PollUnits: time.Second, BeatEvery: 5 * time.Second,
		BetweenJobs: 2 * time.Second, SetAside: time.Minute, WatchEvery: 500 * time.Millisecond,
		LostGrace: 30 * time.Second, EndGrace: 100 * time.Second,
		Journal: journal.Options{SyncEvery: time.Second, SyncBytes: 4 << 20},
	}
}

func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	return Timing{
		RestartPause: cmp.Or(t.RestartPause, d.RestartPause), StallAfter: cmp.Or(t.StallAfter, d.StallAfter),
		PollUnits: cmp.Or(t.PollUnits, d.PollUnits), BeatEvery: cmp.Or(t.BeatEvery, d.BeatEvery),
		BetweenJobs: cmp.Or(t.BetweenJobs, d.BetweenJobs), SetAside: cmp.Or(t.SetAside, d.SetAside),
		WatchEvery: cmp.Or(t.WatchEvery, d.WatchEvery),
		LostGrace:  cmp.Or(t.LostGrace, d.LostGrace), EndGrace: cmp.Or(t.EndGrace, d.EndGrace),
		Journal: cmp.Or(t.Journal, d.Journal),
	}
}

// Backoff is the pause before the restart that follows so many failures.
func (t Timing) Backoff(failures int) time.Duration {
	return min(t.withDefaults().RestartPause<<min(failures-1, 6), time.Minute)
}

func (o Options) WithDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Messages == nil {
		o.Messages = io.Discard
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = &observe.Observer{Run: telemetry.NewRun(), Log: o.Log, Version: o.Version}
	}
	if o.Fetching == nil {
		o.Fetching = func(setup.Step) {}
	}
	if o.Stuck == nil {
		o.Stuck = func(error) {}
	}
	o.Version = cmp.Or(o.Version, "devel")
	o.Timing = o.Timing.withDefaults()
	return o
}

// validate checks the options, which may not contradict the job.
func (p *Process) validate(s *spec.Spec) error {
	switch prefixes := p.SavePrefix != "" || len(p.LoadPrefixes) > 0; {
	case p.ClientTimeout < 0:
		return spec.Invalid("client-timeout", "is %s, but must be more than 0", p.ClientTimeout)
	case p.CallTimeout < 0:
		return spec.Invalid("call-timeout", "is %s, but must be 0 (no limit) or more", p.CallTimeout)
	case p.MaxRestarts < 0:
		return spec.Invalid("max-restarts", "is %d, but must be 0 or more", p.MaxRestarts)
	case s.Accept.Score != "" && p.Several() && backend.Named(s.Engine.Backend).HasChips:
		return setting.Errorf("`accept-score` may not come with `num-processes` and `backend` %s: all processes open "+
			"the devices of a slice together, and the model of the verifier is process 0's alone; give `shard` for "+
			"more devices", s.Engine.Backend)
	case s.Watch != "" && p.Several():
		return setting.Errorf("`watch` may not come with `num-processes`: give `dp` or `shard` for more devices")
	case s.Encodes() && p.Several():
		return setting.Errorf("`num-processes` is for generated text, and `task` is %s: give `dp`, `workers` or "+
			"`shard` for more devices", s.Task)
	case prefixes && s.Engine.NoPrefixCache:
		return setting.Errorf("`save-prefix` and `load-prefix` need `prefix-cache` on")
	case prefixes && p.Several():
		return setting.Errorf("`save-prefix` and `load-prefix` may not come with `num-processes`: each process has a " +
			"part of the prefix, and the file has all")
	case p.InOrder && s.Output != spec.Standard:
		return setting.Errorf("`in-order` is for `output` -: an output folder has the order of the input")
	}
	if s.Output == spec.Standard {
		return p.validateStream()
	}
	if err := p.validateReuse(s); err != nil {
		return err
	}
	if err := p.validateChanges(s); err != nil {
		return err
	}
	switch {
	case s.ReadsStandard() && !p.Shard.Whole():
		return setting.Errorf(OneProcessReads, setting.Name("shard"))
	case s.ReadsStandard() && p.Several():
		return setting.Errorf(OneProcessReads, setting.Name("num-processes"))
	}
	if err := p.Hosts.validate(&s.Engine); err != nil || p.Shard.Whole() {
		return err
	}
	switch {
	case p.New:
		return setting.Errorf("`new` removes what all shards wrote, and may not come with `shard`: remove the folder " +
			"before the shards begin, or choose another `output`")
	case p.WorkDir != "" && !storage.IsRemote(s.Output):
		return setting.Errorf("`work-dir` may not come with `shard` and a local `output`: the shards know each " +
			"other's job by the output folder")
	}
	return nil
}

// validateReuse checks the outputs that completions are copied from.
func (p *Process) validateReuse(s *spec.Spec) error {
	for _, place := range p.Reuse {
		if strings.TrimSuffix(place, "/") == strings.TrimSuffix(s.Output, "/") {
			return spec.Invalid("reuse", "is %s, the job's own output, which it continues anyway: leave it out",
				storage.Redact(place))
		}
	}
	impure, calls := s.Tools.Impure()
	switch given := len(p.Reuse) > 0 || p.Store != ""; {
	case !given:
	case s.Encodes():
		return setting.Errorf("`reuse` and `store` are for completions, and a job with `task` %s has none", s.Task)
	case calls:
		return setting.Errorf("`reuse` and `store` come with tools only if all are declared pure, and %s is not: a "+
			"copied conversation makes no calls, and its answers may be old", impure)
	case s.Watch != "":
		return setting.Errorf("`reuse` and `store` may not come with `watch`: completions of other weights are not " +
			"copied; leave them out")
	}
	return nil
}

// validateStream refuses options that need an output folder.
func (p *Process) validateStream() error {
	for _, o := range []struct {
		given bool
		name  string
	}{{p.New, "new"}, {p.Extend, "extend"}, {p.RetryErrors, "retry-errors"}, {p.WorkDir != "", "work-dir"},
		{len(p.Reuse) > 0, "reuse"}, {p.Store != "", "store"},
		{!p.Shard.Whole(), "shard"}, {p.Several(), "num-processes"},
		{p.SavePrefix != "", "save-prefix"}, {p.DumpTables != nil && p.DumpTables.Folder == "", "dump-tables"}} {
		if o.given {
			return spec.Invalid(o.name, spec.NeedsFolder)
		}
	}
	return nil
}

// validateChanges checks the options for changes of a job.
func (p *Process) validateChanges(s *spec.Spec) error {
	field := setting.Name("extend")
	switch {
	case p.RetryErrors && !p.Extend:
		field = "retry-errors"
	case !p.Extend:
		return nil
	}
	switch {
	case p.New:
		return setting.Errorf("%s keeps what is there and `new` removes it: leave one out", field)
	case !p.Shard.Whole():
		return setting.Errorf("%s may not come with `shard`: change the job with one process that does all of it; "+
			"shards may continue it then", field)
	case p.Several():
		return setting.Errorf("%s may not come with `num-processes`", field)
	case storage.IsRemote(s.Output):
		return setting.Errorf("%s needs a local `output`: parts in an object store cannot be replaced by new ones at "+
			"once", field)
	case s.Format == promptset.FormatOpenAI:
		return setting.Errorf("%s may not come with `format` openai, whose answers do not have all of a completion: "+
			"give `format` parquet or jsonl", field)
	}
	return nil
}

// CheckCalls refuses calls of tools that workers could make twice. Their logs are in a local output, where the next
// worker of a unit continues them under its lock; those of an output in an object store are on their own machines.
func CheckCalls(s *spec.Spec) error {
	if name, once := s.Tools.Once(); once && storage.IsRemote(s.Output) {
		return outcome.Errorf(outcome.Misused, "the `output` is in an object store, and the calls of %s may be made "+
			"once: a worker that takes over the rows of another one does not know its calls. Declare all tools "+
			"idempotent, or give a local `output`, or one process or `shard`", name)
	}
	return nil
}

// RequireWhole refuses what only one process can do: changes of a job, and a job of rows from standard input.
func (p *Process) RequireWhole(s *spec.Spec, what setting.Name) error {
	switch {
	case p.Extend:
		return outcome.Errorf(outcome.Misused, "`extend` may not come with %s: change the job with one process first",
			what)
	case s.ReadsStandard():
		return outcome.Errorf(outcome.Misused, OneProcessReads, what)
	case len(p.Reuse) > 0 || p.Store != "":
		return outcome.Errorf(outcome.Misused, "`reuse` and `store` may not come with %s, which know nothing of the "+
			"places: give them to one process, or to each `shard`", what)
	case s.Watch != "":
		return outcome.Errorf(outcome.Misused, "`watch` may not come with %s: give `dp` or `shard` for more devices",
			what)
	case p.RetryErrors:
		return outcome.Errorf(outcome.Misused,
			"`retry-errors` may not come with %s: change the job with one process first", what)
	}
	return CheckCalls(s)
}
