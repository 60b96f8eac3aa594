package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
)

// workerOptions are the flags of "sample worker": what is of this process and not of the job.
type workerOptions struct {
	distribute.Worker
	queue              queueOptions
	kvMemory, progress string
	storage            []string
	observing          observing
	diagnostics        diagnostics
	maintenance        maintenance
}

// storageVariable has what --storage has, a line each, for what must not be on a command line.
const storageVariable = "QUIRE_STORAGE"

func newWorker() *subcommand {
	var o workerOptions
	return &subcommand{
		name:    "worker",
		args:    "[JOB]",
		summary: "take units of a job out of a queue and run them",
		about: `
Takes units of the job and draws them with one engine, as many units at once as fill it. Without a job it works on any
job, one after the other. Each unit makes one part of the output. Workers may come and go; the units of one that dies
go to another.

Workers that share the output's file system, or the folder of --work-dir if the output is in an object store, draw no
journaled completion twice. Other workers start the dead one's units from the beginning.

With a JOB the command ends when no unit of the job waits or runs: with 0; with 3 if rows carry errors; with 1 if
units are parked or the job was cancelled ("sample cancel"), in which case finished work is kept. SIGINT or SIGTERM
ends it after the current device call and gives its units back; the exit code is then 4.`,
		example: `
sample worker 3f2a90c41b7d --nats tls://nats.example.com:4222 --nats-creds worker.creds
sample worker --storage 's3://bucket?region=eu-central-1' --metrics 127.0.0.1:9090 --log-format json`,
		flags: func(f *flags) {
			f.group("NATS", func(s *pflag.FlagSet) { o.queue.define(s, 10*time.Minute) })
			f.group("This worker", func(s *pflag.FlagSet) {
				s.StringVar(&o.Name, "name", "",
					"`NAME` unique to this worker; a worker restarted under its name gets its units back at once "+
						"(default: host name, process id and a random suffix)")
				placeVar(s, &o.WorkDir, onThisMachine, "work-dir", "",
					"`FOLDER` where journals go, if the output is in an object store (default: in the cache)")
				s.StringArrayVar(&o.storage, "storage", nil,
					"`URL` bucket with parameters for all names in it, such as "+
						"s3://bucket?region=eu-central-1; repeatable, and added to the lines of $QUIRE_STORAGE")
				s.StringVar(&o.kvMemory, "kv-memory", "",
					"`BYTES` memory for this machine's KV cache, such as 2GB (default: the job's)")
				deviceFlags(s, &o.Options)
				o.maintenance.define(s)
				s.StringVar(&o.progress, "progress", "plain",
					"`MODE` progress display: plain (a line for each unit) or none")
				s.BoolVar(&o.Plugins, "plugins", false,
					"accept jobs whose --backend is a plugin file: it is code, chosen by whoever may write to the "+
						"queue")
				s.BoolVar(&o.Debug, "debug", false,
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
			stop, err := o.diagnostics.begin()
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
	case o.Name != "" && o.Name != queue.CleanName(o.Name):
		return fmt.Errorf("--name is %q, but must be of letters, digits, - and _", o.Name)
	case o.progress != "plain" && o.progress != "none":
		return fmt.Errorf("--progress is %q, but must be plain or none", o.progress)
	}
	err := errors.Join(checkDeviceFlags(&o.Options), o.maintenance.check())
	if err != nil {
		return err
	}
	if o.KVMemory, err = parseMemory(o.kvMemory); err != nil {
		return err
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
	for _, file := range []*string{&o.WorkDir, &o.queue.ca, &o.queue.cert, &o.queue.key, &o.queue.credentials,
		&o.diagnostics.dumpHLO, &o.diagnostics.dumpTablesDir, &o.diagnostics.profileDevice} {
		if *file == "" {
			continue
		}
		abs, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = abs
	}
	return errors.Join(o.observing.check(), o.diagnostics.check(&o.Options))
}

// work works on a job, or on any.
func (o *workerOptions) work(ctx context.Context, env *environment, job string) (err error) {
	watched := &runOptions{observing: o.observing, diagnostics: o.diagnostics, progress: o.progress}
	watched.process.Debug = o.Debug
	watch, err := watched.observe(env)
	if err != nil {
		return err
	}
	defer func() { watch.close(resultOf(err)) }()
	defer o.maintenance.watch(env, watch.Log)()
	q, err := o.queue.connect(ctx, env, watch.Log)
	if err != nil {
		return err
	}
	defer q.Close()
	o.Version, o.Quiet, o.Supervised, o.Reword = quireVersion(), watched.progress == "none", supervised(), ofJob
	o.Timing = env.timing
	o.FS, o.Models, o.Messages, o.Fetching = env.fs, env.models, newFitted(env.stderr), fetchProgress(env.stderr)
	o.Stuck = stuck(env)
	o.Observer, o.Log, o.Opened = watch.Observer, watch.Log, o.diagnostics.dump(env.stderr)
	return noJobHint(o.Work(ctx, q, job))
}
