// Package queues has the subcommands for jobs in a queue: submit, worker, status and cancel.
package queues

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
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
)

// WorkerOptions are the flags of "sample worker", which belong to this process and not to the job.
type WorkerOptions struct {
	distribute.Worker
	Queue              jobflags.Queue
	kvMemory, Progress string
	storage            []string
	Observing          jobflags.Observing
	diagnostics        jobflags.Diagnostics
	maintenance        jobflags.Maintenance
}

// StorageVariable holds values of --storage, one per line, which must not be on a command line.
const StorageVariable = "QUIRE_STORAGE"

func NewWorker() *cli.Command {
	var o WorkerOptions
	return &cli.Command{
		Name:    "worker",
		Args:    "[JOB]",
		Summary: "take units of a job out of a queue and run them",
		About: `
Takes units of the job and runs them with one engine, as many units at once as fill it. Without a job it works on any
job, one after the other. Each unit makes one part of the output. Workers may come and go; the units of one that dies
go to another.

Workers that share the output's file system, or the folder of --work-dir if the output is in an object store, do
not generate a journaled completion twice. Other workers start the dead one's units from the beginning.

With a JOB the command ends when no unit of the job waits or runs: with 0; with 3 if rows carry errors; with 1 if
units are parked or the job was cancelled ("sample cancel"), in which case finished work is kept. SIGINT or SIGTERM
ends it after the current device call and gives its units back; the exit code is then 4.`,
		Example: `
sample worker 3f2a90c41b7d --nats tls://nats.example.com:4222 --nats-creds worker.creds
sample worker --storage 's3://bucket?region=eu-central-1' --metrics 127.0.0.1:9090 --log-format json`,
		Flags: func(f *cli.Flags) {
			f.Group("NATS", func(s *pflag.FlagSet) { o.Queue.Define(s, 10*time.Minute) })
			f.Group("This worker", func(s *pflag.FlagSet) {
				s.StringVar(&o.Name, "name", "",
					"`NAME` unique to this worker; a worker restarted under its name gets its units back at once "+
						"(default: host name, process id and a random suffix)")
				cli.PlaceVar(s, &o.WorkDir, cli.OnThisMachine, "work-dir", "",
					"`FOLDER` where journals go, if the output is in an object store (default: in the cache)")
				s.StringArrayVar(&o.storage, "storage", nil,
					"`URL` bucket with parameters for all names in it, such as "+
						"s3://bucket?region=eu-central-1; repeatable, and added to the lines of $QUIRE_STORAGE")
				s.StringVar(&o.kvMemory, "kv-memory", "",
					"`BYTES` memory for this machine's KV cache, such as 2GB (default: the job's)")
				jobflags.DeviceFlags(s, &o.Options)
				o.maintenance.Define(s)
				s.StringVar(&o.Progress, "progress", "plain",
					"`MODE` progress display: plain (a line for each unit) or none")
				s.BoolVar(&o.Plugins, "plugins", false,
					"accept jobs whose --backend is a plugin file: it is code, chosen by anyone who may write to the "+
						"queue")
				s.BoolVar(&o.Debug, "debug", false,
					"check the device's tables after every step and log each call; slow")
			})
			f.Group(jobflags.DiagnosticsTitle, func(s *pflag.FlagSet) {
				o.diagnostics.Define(s)
				o.Observing.Define(s)
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			job := ""
			if len(args) > 0 {
				job = args[0]
			}
			if err := o.check(args); err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("worker: %w", err))
			}
			stop, err := o.diagnostics.Begin()
			if err != nil {
				return err
			}
			cli.EndWithParent(env)
			err = o.RunWorker(ctx, env, job)
			if cli.Supervised() && ctx.Err() != nil { // it was asked to end
				err = nil
			}
			return errors.Join(err, stop())
		},
	}
}

func (o *WorkerOptions) check(args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("one job, or none for any; there are %s", plural.Count(len(args), "argument"))
	case o.Name != "" && o.Name != queue.CleanName(o.Name):
		return fmt.Errorf("--name is %q, but must be of letters, digits, - and _", o.Name)
	case o.Progress != "plain" && o.Progress != "none":
		return fmt.Errorf("--progress is %q, but must be plain or none", o.Progress)
	}
	err := errors.Join(jobflags.CheckDeviceFlags(&o.Options), o.maintenance.Check())
	if err != nil {
		return err
	}
	if o.KVMemory, err = jobflags.ParseMemory(o.kvMemory); err != nil {
		return err
	}
	for _, url := range append(strings.Fields(os.Getenv(StorageVariable)), o.storage...) {
		if !storage.IsRemote(url) {
			return fmt.Errorf("--storage is %q, but must be s3://BUCKET, gs://BUCKET or azblob://CONTAINER",
				storage.Redact(url))
		}
		if _, err := storage.Hide(url); err != nil {
			return fmt.Errorf("--storage: %w", err)
		}
	}
	// The worker goes to the job's folder.
	for _, file := range []*string{&o.WorkDir, &o.Queue.CA, &o.Queue.Cert, &o.Queue.Key, &o.Queue.Credentials,
		&o.diagnostics.DumpHLO, &o.diagnostics.DumpTablesDir, &o.diagnostics.ProfileDevice} {
		if *file == "" {
			continue
		}
		abs, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = abs
	}
	return errors.Join(o.Observing.Check(), o.diagnostics.Check(&o.Options))
}

// Work works on a job, or on any.
func (o *WorkerOptions) RunWorker(ctx context.Context, env *cli.Environment, job string) (err error) {
	watched := &jobflags.Options{Observing: o.Observing, Diagnostics: o.diagnostics, Progress: o.Progress}
	watched.Process.Debug = o.Debug
	watch, err := watched.Observe(env)
	if err != nil {
		return err
	}
	defer func() { watch.Close(jobflags.ResultOf(err)) }()
	defer o.maintenance.Watch(env, watch.Log)()
	q, err := o.Queue.Connect(ctx, env, watch.Log)
	if err != nil {
		return err
	}
	defer q.Close()
	o.Version, o.Quiet, o.Supervised, o.Reword = cli.QuireVersion(), watched.Progress == "none", cli.Supervised(),
		jobflags.Reword
	o.Timing = env.Timing
	o.FS, o.Models, o.Messages, o.Fetching = env.FS, env.Models, cli.NewFitted(env.Stderr),
		cli.FetchProgress(env.Stderr)
	o.Stuck, o.Spelling = jobflags.Stuck(env), cli.AsFlag
	o.Observer, o.Log, o.Opened = watch.Observer, watch.Log, o.diagnostics.Dump(env.Stderr)
	return noJobHint(o.Work(ctx, q, job))
}
