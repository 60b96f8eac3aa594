package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
)

// queuedJob is what a job in the queue tells its workers.
type queuedJob struct {
	// Dir is where relative names begin.
	Dir string `json:"dir"`
	// Flags are those of "sample run" that were given, on the command line or in a config file.
	Flags       map[string][]string   `json:"flags"`
	Description *jobstate.Description `json:"description"`
}

// unitOptions say how units of a job are treated, and how many processes of this machine do them.
type unitOptions struct {
	workers  int
	ackWait  time.Duration
	maxTries int
}

func (o *unitOptions) define(s *pflag.FlagSet) {
	s.IntVar(&o.workers, "workers", 0,
		"`N` do the job with N processes of this machine, which take its parts from a queue; 0 does it in this one")
	s.DurationVar(&o.ackWait, "ack-wait", 0,
		"`TIME` a worker that is silent about a unit for so long is taken for dead, and another one gets it "+
			"(default: 10s with --workers, 1m with sample submit)")
	s.IntVar(&o.maxTries, "max-tries", queue.DefaultMaxTries,
		"`N` a unit that fails, or whose worker dies, so often without a row more being done is parked: the others "+
			"go on")
}

func (o *unitOptions) check() error {
	switch {
	case o.workers < 0 || o.workers > maxWorkers:
		return fmt.Errorf("--workers is %d, but must be 0 (this process) to %d", o.workers, maxWorkers)
	case o.ackWait != 0 && o.ackWait < time.Second:
		return fmt.Errorf("--ack-wait is %s, but must be 1s or more", o.ackWait)
	case o.maxTries < 1:
		return fmt.Errorf("--max-tries is %d, but must be 1 or more", o.maxTries)
	}
	return nil
}

// ofAProcess are flags of "sample run" that belong to one process and no job.
var ofAProcess = []string{
	"config", "new", "work-dir", "shard", "workers", "ack-wait", "max-tries", "max-restarts", "progress", "report",
	"metrics", "log-format", "log-level", "pprof", "dump-hlo", "save-prefix",
	"load-prefix",
}

func newSubmit() *subcommand {
	var o runOptions
	var q queueOptions
	var f *flags
	var retry, remove bool
	return &subcommand{
		name:    "submit",
		args:    "[FILE...]",
		summary: "put a job into a queue, for workers on any number of machines",
		about: `
The job is that of "sample run" with the same flags, and its files will be the same. It is cut into units, each of which makes one
part of the output (--part-rows says how long those are), and goes to NATS JetStream. Workers take the units: "sample worker".
"sample status" tells how far they are. The name of the job is printed.

Workers need the model, the inputs and the output under the same names: URLs, or paths on a file system that they share.

The same job again is no other one: nothing happens while its units are in the queue, and when it is over, or was cancelled ("sample
cancel"), units whose parts are not there are queued again. Units that are parked stay so without --retry. While the queue has a job, no
other one with its output is taken.`,
		example: `
sample submit --model hf://org/name -i s3://bucket/prompts/ -o s3://bucket/out -n 8 --nats tls://nats.example.com:4222
sample submit --config job.yaml --retry
sample submit --config job.yaml --remove`,
		flags: func(fl *flags) {
			f = fl
			o.define(f)
			f.group("Queue", func(s *pflag.FlagSet) {
				s.BoolVar(&retry, "retry", false, "queue units again that are parked")
				s.BoolVar(&remove, "remove", false, "take the job out of the queue; its output stays")
			})
			f.group("NATS", func(s *pflag.FlagSet) { q.define(s, 15*time.Second) })
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if err := o.prepare(f, args); err != nil {
				return err
			}
			if err := o.refuse(f, "sample submit", "config", "new", "work-dir", "ack-wait", "max-tries"); err != nil {
				return &exitError{exitUsage, fmt.Errorf("submit: %w", err)}
			}
			return submitJob(ctx, env, &o, f, &q, retry, remove)
		},
	}
}

// prepare reads the config file and checks the flags. Arguments are inputs, as those of --input are.
func (o *runOptions) prepare(f *flags, args []string) error {
	for _, name := range args {
		if err := f.set.Set("input", name); err != nil {
			return &exitError{exitUsage, fmt.Errorf("%s: %w", f.set.Name(), placeOr(err))}
		}
	}
	if o.config != "" {
		if err := applyConfig(o.config, f, "config"); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	err := o.check()
	if err == nil {
		o.secrets = o.withSecrets()
		err = o.hideParameters()
	}
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("%s: %w", f.set.Name(), err)}
	}
	return nil
}

// refuse refuses flags that belong to one process, but for some.
func (o *runOptions) refuse(f *flags, where string, but ...string) error {
	for _, name := range ofAProcess {
		if flag := f.set.Lookup(name); flag != nil && flag.Changed && !slices.Contains(but, name) {
			return fmt.Errorf("--%s is of one process, and may not come with %s", name, where)
		}
	}
	return nil
}

// queued is what the workers need to know. Values of flags are as they are after hideParameters: without secrets.
func (o *runOptions) queued(f *flags, d *jobstate.Description) (json.RawMessage, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c := queuedJob{Dir: dir, Flags: map[string][]string{}, Description: d}
	f.set.Visit(func(flag *pflag.Flag) {
		run := newFlags("run")
		new(runOptions).define(run)
		if slices.Contains(ofAProcess, flag.Name) || flag.Name == "input" || run.set.Lookup(flag.Name) == nil {
			return
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			c.Flags[flag.Name] = list.GetSlice()
		} else {
			c.Flags[flag.Name] = []string{flag.Value.String()}
		}
	})
	return json.Marshal(c)
}

// options are those of a run of the whole job.
func (c *queuedJob) options() (*runOptions, error) {
	var o runOptions
	f := newFlags("run")
	o.define(f)
	for name, values := range c.Flags {
		if slices.Contains(ofAProcess, name) {
			return nil, fmt.Errorf("it has the flag %s, which is no job's", name)
		}
		for _, v := range values {
			if err := f.set.Set(name, v); err != nil {
				return nil, fmt.Errorf("the job's --%s is %q, which this version does not take: %w", name, v, err)
			}
		}
	}
	if c.Description == nil {
		return nil, errors.New("the job has no description")
	}
	for _, in := range c.Description.Inputs {
		o.inputs = append(o.inputs, in.Name)
	}
	return &o, o.check()
}

// local says that names of the job are relative to its folder.
func (c *queuedJob) local() bool {
	names := slices.Concat(c.Flags["output"], c.Flags["model"], c.Flags["chat-template"])
	for _, in := range c.Description.Inputs {
		names = append(names, in.Name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return !storage.IsRemote(name) &&
			!filepath.IsAbs(name)
	})
}

// outputPlace is one name for an output, however it was written.
func outputPlace(output string) (string, error) {
	if storage.IsRemote(output) {
		return strings.TrimRight(storage.Redact(output), "/"), nil
	}
	return filepath.Abs(output)
}

// jobName names the job: the same one for the same description and output.
func jobName(o *runOptions, d *jobstate.Description) (string, error) {
	output := storage.Redact(o.output)
	if !storage.IsRemote(o.output) {
		var err error
		if output, err = outputPlace(o.output); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, output...))
	return hex.EncodeToString(sum[:6]), nil
}

// openedJob is a job with its inputs, and what its output folder has of it.
type openedJob struct {
	reader      *promptset.Reader
	fingerprint string
	description *jobstate.Description
	parts       promptset.Parts
}

// openInputs looks into the inputs. Names that no file has are an error of usage.
func (o *runOptions) openInputs(ctx context.Context) (*promptset.Reader, error) {
	reader, err := promptset.OpenFrom(ctx, promptset.Anywhere(), o.inputs)
	if wrong := (*promptset.FileError)(nil); errors.As(err, &wrong) && wrong.Missing {
		return nil, &exitError{exitUsage, fmt.Errorf("--input %w", err)}
	}
	return reader, err
}

// openJob looks into the inputs and the model's files.
func openJob(ctx context.Context, env *environment, o *runOptions) (*openedJob, error) {
	j := &openedJob{}
	var err error
	if j.reader, err = o.openInputs(ctx); err != nil {
		return nil, err
	}
	model, err := env.identify(ctx, env, o)
	if err != nil {
		return nil, err
	}
	if err := o.needTokenizer(ctx, model, j.reader); err != nil {
		return nil, err
	}
	j.fingerprint = model.fingerprint
	j.parts = o.parts(j.reader.NumRows())
	j.description, err = o.describe(j.reader, j.parts, j.fingerprint)
	return j, err
}

// units are the parts that are missing.
func (j *openedJob) units(missing []int) []queue.Unit {
	sources := j.reader.Sources()
	units := make([]queue.Unit, len(missing))
	at, before := 0, int64(0)
	for i, part := range missing {
		from, to := j.parts.Range(part)
		for at+1 < len(sources) && from >= before+sources[at].Rows {
			before += sources[at].Rows
			at++
		}
		units[i] = queue.Unit{Number: part, From: from, To: to, File: sources[at].Name}
	}
	return units
}

// queueJob makes the queue's job. The description must be without what an engine settled.
func (j *openedJob) queueJob(o *runOptions, f *flags, before tally.Counts) (queue.Job, error) {
	id, err := jobName(o, j.description)
	if err != nil {
		return queue.Job{}, err
	}
	place, err := outputPlace(o.output)
	if err != nil {
		return queue.Job{}, err
	}
	config, err := o.queued(f, j.description)
	return queue.Job{
		ID: id, Name: storage.Redact(o.output), Output: place, Config: config, Rows: j.parts.Rows, Before: before,
		AckWait: o.units.ackWait, MaxTries: o.units.maxTries,
	}, err
}

// errAtWork says that workers have the job's output open.
var errAtWork = errors.New("workers are at the job")

// taken words the error for an output that another job in the queue has.
func (j *openedJob) taken(o *runOptions, err error) error {
	var taken *queue.OutputTakenError
	if !errors.As(err, &taken) {
		return err
	}
	what := ""
	var other queuedJob
	if json.Unmarshal(taken.Other.Config, &other) == nil && other.Description != nil {
		if differences := j.description.Differences(other.Description); len(differences) > 0 {
			what = fmt.Sprintf(" (%s)", strings.Join(differences, "; "))
		}
	}
	if taken.Other.Cancelled {
		return fmt.Errorf(
			"%s is the output of job %s, which was cancelled and which workers have not left yet: submit again in a "+
				"few seconds",
			o.output, taken.Other.ID)
	}
	return fmt.Errorf(
		"%s is the output of job %s, which is in the queue and another job%s: wait for its end, choose another "+
			"--output, or cancel it: \"sample cancel %s\"",
		o.output, taken.Other.ID, what, taken.Other.ID)
}

func submitJob(ctx context.Context, env *environment, o *runOptions, f *flags, qo *queueOptions, retry,
	remove bool) error {
	j, err := openJob(ctx, env, o)
	if err != nil {
		return err
	}
	q, err := qo.connect(ctx, env, o.logger(env))
	if err != nil {
		return err
	}
	defer q.Close()
	job, err := j.queueJob(o, f, tally.Counts{})
	if err != nil {
		return err
	}
	if err := q.Free(ctx, job); err != nil && !remove { // before --new removes what the other job wrote
		return j.taken(o, err)
	}
	if remove || o.anew {
		if err := q.Remove(ctx, job.ID); err != nil && !errors.Is(err, queue.ErrNoJob) {
			return err
		}
	}
	if remove {
		fmt.Fprintf(env.stdout, "%s is not in the queue any more; its output stays in %s\n", job.ID, o.output)
		return nil
	}
	done := queue.Going
	var saved *savedJob
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		if saved, err = openSaved(ctx, env.fs, o, j.parts, j.description); errors.Is(err, jobstate.ErrBusy) {
			// By workers, if the queue has the job: only those of one that was cancelled are waited for.
			if was, known := q.Job(ctx, job.ID); known != nil {
				return fmt.Errorf("%v: %w", err, known)
			} else if !was.Cancelled {
				return errAtWork
			}
		}
		return err
	})
	switch {
	case errors.Is(err, errAtWork):
	case errors.Is(err, jobstate.ErrBusy):
		return fmt.Errorf(
			"job %s was cancelled, and workers of it have not stopped yet: submit it again in some seconds", job.ID)
	case err != nil:
		return err
	default:
		saved.tellDamaged(env.stderr)
		missing := saved.missing
		job.Before = saved.before
		if err := saved.close(); err != nil {
			return err
		}
		if done, err = q.Submit(ctx, job, j.units(missing)); err != nil {
			return j.taken(o, err)
		}
	}
	if done == queue.Submitted {
		warnOfColumns(env.stderr, j.reader)
	}
	retried := 0
	if retry {
		if retried, err = q.Retry(ctx, job.ID); err != nil {
			return j.taken(o, err)
		}
	}
	s, err := q.Status(ctx, job.ID)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, job.ID)
	var notes []string
	switch {
	case done == queue.Submitted:
		notes = append(notes, fmt.Sprintf("%s of %s %s in the queue", plural.Count(s.Waiting, "unit"),
			plural.Count(j.parts.Rows-s.Job.Before.Rows, "row"), plural.Of(s.Waiting, "is", "are")))
	case done == queue.Going:
		notes = append(notes, "it is in the queue already")
	default:
		notes = append(notes, "nothing of it is left to do")
	}
	if retried > 0 {
		notes = append(notes, fmt.Sprintf("%s that %s parked %s queued again", plural.Count(retried, "unit"),
			plural.Of(retried, "was", "were"), plural.Of(retried, "is", "are")))
	}
	if s.Parked > 0 {
		notes = append(notes, fmt.Sprintf("%s %s parked; --retry queues %s again", plural.Count(s.Parked, "unit"),
			plural.Of(s.Parked, "is", "are"), plural.Of(s.Parked, "it", "them")))
	}
	fmt.Fprintf(env.stderr, "%s: %s\n", job.ID, strings.Join(notes, "; "))
	return nil
}
