package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
)

// workerOptions are the flags of "sample worker": what is of this process and not of the job.
type workerOptions struct {
	queue                   queueOptions
	name, workDir, kvMemory string
	progress                string
	storage                 []string
	maxRestarts             int
	debug, plugins          bool
	observing               observing
	diagnostics             diagnostics
	kvBytes                 int64
	log                     *slog.Logger
}

// storageVariable has what --storage has, a line each, for what must not be on a command line.
const storageVariable = "QUIRE_STORAGE"

func newWorker() *subcommand {
	var o workerOptions
	return &subcommand{
		name:    "worker",
		args:    "[JOB]",
		summary: "take units of a job out of a queue and draw them",
		about: `
Takes units of the job, or without one of any job, one job after the other, and draws them with one engine, as many units at once as
fill it. Each unit makes one part of the output. Any number of workers may come and go: units of one that dies go to another.

Of completions that were finished and journaled none is drawn twice by workers that share the output's file system, or the folder
of --work-dir where the output is in an object store. Other workers begin the dead one's units anew.

With a JOB the command ends when nothing of the job waits or runs: with 0, with 3 if rows carry errors, with 1 if units are parked, or the
job was cancelled ("sample cancel"); what was finished of it is kept then.
SIGINT or SIGTERM ends it when the device's call under way is through, and gives its units back; the exit code is then 4.`,
		example: `
sample worker 3f2a90c41b7d --nats tls://nats.example.com:4222 --nats-creds worker.creds
sample worker --storage 's3://bucket?region=eu-central-1' --metrics 127.0.0.1:9090 --log-format json`,
		flags: func(f *flags) {
			f.group("NATS", func(s *pflag.FlagSet) { o.queue.define(s, 10*time.Minute) })
			f.group("This worker", func(s *pflag.FlagSet) {
				s.StringVar(&o.name, "name", "",
					"`NAME` that no other worker has; one that is started again under its name gets its units back "+
						"at once (default: the machine's, the process' and some chance)")
				placeVar(s, &o.workDir, onThisMachine, "work-dir", "",
					"`FOLDER` where journals are, for an output in an object store (default: in the cache)")
				s.StringArrayVar(&o.storage, "storage", nil,
					"`URL` with parameters that hold for all names of that bucket, such as "+
						"s3://bucket?region=eu-central-1; repeatable, and $QUIRE_STORAGE has such lines too")
				s.StringVar(&o.kvMemory, "kv-memory", "",
					"`BYTES` memory for the KV cache of this machine, such as 2GB (default: the job's)")
				s.IntVar(&o.maxRestarts, "max-restarts", 5,
					"`N` how often a device that fails is started again without a completion in between")
				s.StringVar(&o.progress, "progress", "plain", "`HOW` plain, a line for each unit, or none")
				s.BoolVar(&o.plugins, "plugins", false,
					"take jobs whose --backend is a plugin's file, too: it is code, and whoever may write to the "+
						"queue chooses it")
				s.BoolVar(&o.debug, "debug", false,
					"check the device's tables after every step and log each call; slow")
			})
			f.group(diagnosticsTitle, func(s *pflag.FlagSet) {
				o.diagnostics.define(s)
				o.observing.define(s)
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			job := ""
			if len(args) > 0 {
				job = args[0]
			}
			if err := o.check(args); err != nil {
				return &exitError{exitUsage, fmt.Errorf("worker: %w", err)}
			}
			stop, err := o.diagnostics.profile()
			if err != nil {
				return err
			}
			endWithParent(env)
			err = o.work(ctx, env, job)
			if supervised() && ctx.Err() != nil { // it was told to end, wherever it was
				err = nil
			}
			return errors.Join(err, stop())
		},
	}
}

func (o *workerOptions) check(args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("one job, or none for any; there are %s", plural.Count(len(args), "argument"))
	case o.name != "" && o.name != queue.CleanName(o.name):
		return fmt.Errorf("--name is %q, but must be of letters, digits, - and _", o.name)
	case o.maxRestarts < 0:
		return fmt.Errorf("--max-restarts is %d, but must be 0 or more", o.maxRestarts)
	case o.progress != "plain" && o.progress != "none":
		return fmt.Errorf("--progress is %q, but must be plain or none", o.progress)
	}
	if o.kvMemory != "" {
		bytes, err := humanize.ParseBytes(o.kvMemory)
		if err != nil || bytes == 0 || bytes > 1<<62 {
			return fmt.Errorf("--kv-memory is %q, but must be a size such as 2GB or 512MiB", o.kvMemory)
		}
		o.kvBytes = int64(bytes)
	}
	for _, url := range append(strings.Fields(os.Getenv(storageVariable)), o.storage...) {
		if !storage.IsRemote(url) {
			return fmt.Errorf("--storage is %q, but must be s3://BUCKET, gs://BUCKET or azblob://CONTAINER",
				storage.Redact(url))
		}
		if _, err := storage.Hide(url); err != nil {
			return fmt.Errorf("--storage: %w", err)
		}
	}
	// The worker goes to the job's folder.
	for _, file := range []*string{&o.workDir, &o.queue.ca, &o.queue.cert, &o.queue.key, &o.queue.credentials,
		&o.diagnostics.dumpHLO} {
		if *file == "" {
			continue
		}
		abs, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = abs
	}
	if o.name == "" {
		host, _ := os.Hostname()
		o.name = queue.CleanName(fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), time.Now().UnixNano()&0xffffff))
	}
	return o.observing.check()
}

// work works on a job, or on any.
func (o *workerOptions) work(ctx context.Context, env *environment, job string) (err error) {
	watched := &runOptions{observing: o.observing, progress: o.progress, debug: o.debug}
	watch, err := watched.observe(env)
	if err != nil {
		return err
	}
	defer func() { watch.close(resultOf(err)) }()
	o.observing, o.progress, o.log = watched.observing, watched.progress, watch.log
	q, err := o.queue.connect(ctx, env, watch.log)
	if err != nil {
		return err
	}
	defer q.Close()
	if job != "" {
		j, err := q.Job(ctx, job)
		if err != nil {
			return noJobHint(err)
		}
		return o.workOn(ctx, env, q, j, watch)
	}
	return o.workOnAny(ctx, env, q, watch)
}

// betweenJobs is how long a worker waits that found nothing to do, and setAside how long it leaves a job that it could
// not work on.
var (
	betweenJobs = 2 * time.Second
	setAside    = time.Minute
)

func (o *workerOptions) workOnAny(ctx context.Context, env *environment, q *queue.Queue, watch *observer) error {
	aside := map[string]time.Time{}
	for ctx.Err() == nil {
		watch.run.Waiting()
		jobs, err := q.Jobs(ctx)
		if err != nil {
			return err
		}
		worked := false
		for _, j := range jobs {
			if t, ok := aside[j.ID]; ok && time.Since(t) < setAside || ctx.Err() != nil || j.Cancelled {
				continue
			}
			if left, err := q.Left(ctx, j); err != nil || !left {
				if err != nil {
					return err
				}
				continue
			}
			worked = true
			err := o.workOn(ctx, env, q, j, watch)
			watch.run.Waiting()
			var exit *exitError // how a job may end; wrong inputs or flags are no end
			if err != nil && (!errors.As(err, &exit) || exit.code == exitUsage) && ctx.Err() == nil {
				watch.log.Error("this worker can't do a job, and leaves it for a while", "job", j.ID, "err",
					err.Error())
				aside[j.ID] = time.Now()
			}
		}
		if !worked {
			select {
			case <-ctx.Done():
			case <-time.After(betweenJobs):
			}
		}
	}
	return &exitError{exitInterrupted, fmt.Errorf("interrupted")}
}

// workOn works on one job until nothing of it is left.
func (o *workerOptions) workOn(ctx context.Context, env *environment, q *queue.Queue, j queue.Job,
	watch *observer) (err error) {
	watch.run.Begin()
	defer func() { watch.endSeries(resultOf(err)) }()
	if j.Cancelled {
		s, err := q.Status(ctx, j.ID)
		if err != nil {
			return err
		}
		return cancelled(s)
	}
	w, err := o.prepare(ctx, env, q, j, watch)
	if err != nil {
		err = ofJob(err)
		host, _ := os.Hostname()
		if ctx.Err() == nil {
			if noteErr := q.Refuse(ctx, j.ID,
				queue.Refusal{Worker: o.name, Host: host, Error: err.Error()}); noteErr != nil {
				watch.log.Debug("the queue was not told why this worker can't do a job", "err", noteErr.Error())
			}
		}
		return err
	}
	return ofJob(w.run(ctx))
}

// prepare looks whether the job is what was submitted, and whether this worker can do it, before it takes a unit.
func (o *workerOptions) prepare(ctx context.Context, env *environment, q *queue.Queue, j queue.Job,
	watch *observer) (*worker, error) {
	var c queuedJob
	if err := json.Unmarshal(j.Config, &c); err != nil {
		return nil, fmt.Errorf("job %s is none of this program: %w", j.ID, err)
	}
	ro, err := c.options()
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	ro.job = j.ID
	if c.local() {
		if err := os.Chdir(c.Dir); err != nil {
			return nil,
				fmt.Errorf(
					"job %s has names relative to %s, which is not here: %w; submit it with absolute paths or URLs",
					j.ID, c.Dir, err)
		}
	}
	if strings.ContainsRune(ro.backend, filepath.Separator) && !o.plugins {
		return nil,
			fmt.Errorf(
				"job %s wants the plugin %s, and this worker was not told that it may load what a job names: give it "+
					"--plugins", j.ID, ro.backend)
	}
	ro.maxRestarts, ro.debug, ro.progress, ro.observing, ro.diagnostics = o.maxRestarts, o.debug, o.progress,
		o.observing, o.diagnostics
	if o.workDir != "" && storage.IsRemote(ro.output) {
		ro.workDir = o.workDir
	}
	if o.kvBytes != 0 {
		ro.kvBytes = o.kvBytes
	}
	if env.lacks != nil {
		if err := env.lacks(ro.backend); err != nil {
			return nil, fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	opened, err := openJob(ctx, env, ro)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	if differences := opened.description.Differences(c.Description); len(differences) > 0 {
		return nil, fmt.Errorf("job %s is another one here: %s", j.ID, strings.Join(differences, "; "))
	}
	begun, err := begunJob(ctx, ro)
	if err != nil {
		return nil, err
	}
	if begun != nil {
		differences, err := ro.settle(begun.Settled)
		if differences = append(opened.description.Differences(begun), differences...); err != nil ||
			len(differences) > 0 {
			return nil, errors.Join(err, ro.different(differences))
		}
	}
	lease, err := q.Worker(ctx, j, o.name)
	if err != nil {
		return nil, err
	}
	w := &worker{
		options: ro, env: env, observer: watch, log: watch.log.With("job", j.ID), queue: q, job: j, leases: lease,
		opened: opened,
		units:  map[*collector]*workUnit{}, changed: make(chan struct{}, 1), name: o.name,
	}
	return w, nil
}

// begunJob reads what job the output folder has; nil is none.
func begunJob(ctx context.Context, o *runOptions) (*jobstate.Description, error) {
	if storage.IsRemote(o.output) {
		return jobstate.ReadShared(ctx, o.output)
	}
	path := filepath.Join(o.output, jobstate.Folder, "job.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := jobstate.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return d, nil
}

// over is how a job that is over ended.
func over(s *queue.Status) error {
	var what []string
	for i, u := range s.ParkedUnits {
		if i == errorExamples {
			what = append(what, fmt.Sprintf("%d more", s.Parked-i))
			break
		}
		what = append(what, fmt.Sprintf("%s: %s", u.Unit, u.Error))
	}
	switch {
	case s.Job.Cancelled:
		return cancelled(s)
	case s.Parked > 0:
		return fmt.Errorf(
			"%s of %s %s parked, and %s missing: %s; mend what is wrong and submit the job again: \"sample submit "+
				"--retry\"",
			plural.Count(s.Parked, "unit"), s.Job.Name, plural.Of(s.Parked, "is", "are"),
			plural.Of(s.Parked, "its part is", "their parts are"), strings.Join(what, "; "))
	case s.Lost > 0:
		return fmt.Errorf("%s of %s %s neither done nor in the queue: its server lost %s; submit the job again",
			plural.Count(s.Lost, "unit"), s.Job.Name, plural.Of(s.Lost, "is", "are"), plural.Of(s.Lost, "it", "them"))
	case s.Figures.RowsWithErrors > 0:
		return &exitError{exitPartial, fmt.Errorf("%d of %d rows carry errors: see the column error in %s",
			s.Figures.RowsWithErrors, s.Figures.Rows, s.Job.Name)}
	}
	return nil
}

// cancelled is the error for a job that was cancelled.
func cancelled(s *queue.Status) error {
	return &exitError{
		exitFailure,
		fmt.Errorf("job %s was cancelled: %d of %d rows are finished and kept in %s; submit it again to go on",
			s.Job.ID, s.Figures.Rows, s.Job.Rows, s.Job.Name)}
}

// byNumber sorts units.
func byNumber(units map[*collector]*workUnit) []*workUnit {
	var all []*workUnit
	for _, u := range units {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *workUnit) int { return a.begun - b.begun })
	return all
}
