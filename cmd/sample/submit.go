package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
)

// unitOptions say how units of a job are treated, and how many processes of this machine do them.
type unitOptions struct {
	workers int
	distribute.UnitOptions
}

func (o *unitOptions) define(s *pflag.FlagSet) {
	s.IntVar(&o.workers, "workers", 0,
		"`N` run N worker processes on this machine, which share the job's parts; 0 runs the job in this process")
	s.DurationVar(&o.AckWait, "ack-wait", 0,
		"`TIME` give a unit to another worker after this long without a heartbeat (default: 10s with --workers, 1m "+
			"with sample submit)")
	s.IntVar(&o.MaxTries, "max-tries", queue.DefaultMaxTries,
		"`N` park a unit after N failed attempts without progress; the others go on")
}

// maxWorkers bounds --workers, against mistyped numbers.
const maxWorkers = 1024

func (o *unitOptions) check() error {
	switch {
	case o.workers < 0 || o.workers > maxWorkers:
		return fmt.Errorf("--workers is %d, but must be 0 (this process) to %d", o.workers, maxWorkers)
	case o.AckWait != 0 && o.AckWait < time.Second:
		return fmt.Errorf("--ack-wait is %s, but must be 1s or more", o.AckWait)
	case o.MaxTries < 1:
		return fmt.Errorf("--max-tries is %d, but must be 1 or more", o.MaxTries)
	}
	return nil
}

// ofAProcess are flags of "sample run" that belong to one process and no job.
var ofAProcess = []string{
	"config", "new", "extend", "retry-errors", "work-dir", "shard", "workers", "ack-wait", "max-tries", "max-restarts",
	"client-timeout", "call-timeout", "maintenance", "progress", "report", "metrics", "log-format", "log-level",
	"pprof", "dump-hlo",
	"dump-tables", "dump-tables-to", "trace", "profile-device", "profile-calls", "save-prefix", "load-prefix",
	"prefix-dir",
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
The job is that of "sample run" with the same flags, and writes the same files. It is split into units, one for each
part of the output (--part-rows sets their length), and put into a queue on NATS JetStream. Workers take units from
it: see "sample worker". "sample status" shows their progress. The command prints the job's name.

Workers must reach the model, the inputs and the output under the same names: URLs, or paths on a shared file system.

Submitting the same job again does nothing while its units are in the queue. Once the job is over or cancelled ("sample
cancel"), it queues the units whose parts are missing again. Parked units stay parked unless --retry is given. While the
queue has a job, it refuses other jobs with the same output.`,
		short: []string{"model", "input", "output", "n-generations", "temperature", "max-tokens", "top-p", "seed",
			"stop", "system", "prompt-as", "prompt-column", "template", "json-schema", "columns", "exclude-columns",
			"format", "limit", "new", "part-rows", "config", "backend", "quiet", "nats", "retry", "remove"},
		example: `
sample submit -m /models/Qwen3-8B -i /data/chats.parquet -o /data/out --temperature 0    # then: sample worker
sample submit --model hf://org/name -i s3://bucket/prompts/ -o s3://bucket/out -n 8 --nats tls://nats.example.com:4222
sample submit --config job.yaml --retry
sample submit --config job.yaml --remove`,
		flags: func(fl *flags) {
			f = fl
			o.define(f)
			withoutStreams(f.set)
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
			return submitJob(ctx, env, &o, &q, retry, remove)
		},
	}
}

// read reads the config file. Arguments are inputs, as those of --input are, or prompts to try.
func (o *runOptions) read(f *flags, args []string) error {
	if len(args) > 0 {
		f.set.Lookup("input").Changed = true // so that a config file gives no others
	}
	if err := o.readConfig(f); err != nil {
		return err
	}
	if o.mayTry && len(args) > 0 && o.spec.Output == "" && len(o.spec.Inputs) == 0 {
		if err := o.takePrompts(f, args); err != nil {
			return fmt.Errorf("%s: %w", f.set.Name(), placeOr(err))
		}
		args = nil
	}
	for _, name := range args {
		if err := f.set.Set("input", name); err != nil {
			return fmt.Errorf("%s: %w", f.set.Name(), placeOr(err))
		}
	}
	return nil
}

// prepare reads the config file and checks the flags.
func (o *runOptions) prepare(f *flags, args []string) error {
	if err := o.read(f, args); err != nil {
		return &exitError{exitUsage, err}
	}
	wrong := func(err error) error { return &exitError{exitUsage, fmt.Errorf("%s: %w", f.set.Name(), placeOr(err))} }
	if err := errors.Join(o.takePipe(), o.takeStream(f)); err != nil {
		return wrong(err)
	}
	o.secrets = o.withSecrets()
	if o.mayTry && o.spec.Model != "" && len(o.spec.Inputs) == 0 && o.spec.Output == "" {
		return wrong(errors.New("there is nothing to generate: give --input FILE and --output FOLDER, or a prompt as " +
			"an argument"))
	}
	if err := o.check(); err != nil {
		return wrong(err)
	}
	return nil
}

// refuse refuses flags that belong to one process, but for some, and standard input.
func (o *runOptions) refuse(f *flags, where string, but ...string) error {
	if slices.Contains(o.spec.Inputs, spec.Standard) {
		return fmt.Errorf("--input is -, which one process reads, and it comes with %s: write the rows to a file first",
			where)
	}
	for _, name := range ofAProcess {
		if flag := f.set.Lookup(name); flag != nil && flag.Changed && !slices.Contains(but, name) {
			return fmt.Errorf("--%s is of one process, and may not come with %s", name, where)
		}
	}
	return nil
}

// submitJob puts the job into the queue, or takes it out, and prints its name.
func submitJob(ctx context.Context, env *environment, o *runOptions, qo *queueOptions, retry, remove bool) error {
	task := o.task(env, nil)
	if err := task.Look(ctx); err != nil { // before the server is asked
		return err
	}
	q, err := qo.connect(ctx, env, o.logger(env))
	if err != nil {
		return err
	}
	defer q.Close()
	if remove {
		id, err := task.Withdraw(ctx, q)
		if err == nil {
			fmt.Fprintf(env.stdout, "%s is not in the queue any more; its output stays in %s\n", id, task.Job.Output)
		}
		return err
	}
	s, err := task.Submit(ctx, q, o.units.UnitOptions, retry)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, s.Job.ID)
	if o.quiet {
		return nil
	}
	var notes []string
	switch {
	case s.Result == queue.Submitted:
		notes = append(notes, fmt.Sprintf("%s of %s %s in the queue", plural.Count(s.Waiting, "unit"),
			plural.Count(s.Rows-s.Job.Before.Rows, "row"), plural.Of(s.Waiting, "is", "are")))
	case s.Result == queue.Going:
		notes = append(notes, "it is in the queue already")
	default:
		notes = append(notes, "nothing of it is left to do")
	}
	if s.Retried > 0 {
		notes = append(notes, fmt.Sprintf("%s that %s parked %s queued again", plural.Count(s.Retried, "unit"),
			plural.Of(s.Retried, "was", "were"), plural.Of(s.Retried, "is", "are")))
	}
	if s.Parked > 0 {
		notes = append(notes, fmt.Sprintf("%s %s parked; --retry queues %s again", plural.Count(s.Parked, "unit"),
			plural.Of(s.Parked, "is", "are"), plural.Of(s.Parked, "it", "them")))
	}
	fmt.Fprintf(env.stderr, "%s: %s\n", s.Job.ID, strings.Join(notes, "; "))
	return nil
}

// withSecrets lists the URLs of the job that have parameters, which the workers need and nobody else may see.
func (o *runOptions) withSecrets() (urls []string) {
	for _, name := range append([]string{o.spec.Model, o.spec.Engine.DraftModel, o.spec.Output}, o.spec.Inputs...) {
		if storage.IsRemote(name) && strings.Contains(name, "?") {
			urls = append(urls, name)
		}
	}
	return urls
}
