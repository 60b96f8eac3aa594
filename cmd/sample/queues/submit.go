package queues

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/internal/plural"
)

func NewSubmit() *cli.Command {
	var o jobflags.Options
	var q jobflags.Queue
	var f *cli.Flags
	var retry, remove bool
	return &cli.Command{
		Name:    "submit",
		Args:    "[FILE...]",
		Summary: "put a job into a queue, for workers on any number of machines",
		About: `
The job is the same as in "sample run" with the same flags, and writes the same files. It is split into units, one for each
part of the output (--part-rows sets their length), and put into a queue on NATS JetStream. Workers take units from
it: see "sample worker". "sample status" shows their progress. The command prints the job's name.

Workers must reach the model, the inputs and the output under the same names: URLs, or paths on a shared file system.

Submitting the same job again does nothing while its units are in the queue. Once the job is over or cancelled ("sample
cancel"), it queues the units whose parts are missing again. Parked units stay parked unless --retry is given. While the
queue has a job, it refuses other jobs with the same output.`,
		Short: []string{"model", "input", "output", "n-generations", "temperature", "max-tokens", "top-p", "seed",
			"stop", "system", "prompt-as", "prompt-column", "template", "json-schema", "columns", "exclude-columns",
			"format", "limit", "new", "part-rows", "config", "backend", "quiet", "nats", "retry", "remove"},
		Example: `
sample submit -m /models/Qwen3-8B -i /data/chats.parquet -o /data/out --temperature 0    # then: sample worker
sample submit --model hf://org/name -i s3://bucket/prompts/ -o s3://bucket/out -n 8 --nats tls://nats.example.com:4222
sample submit --config job.yaml --retry
sample submit --config job.yaml --remove`,
		Flags: func(fl *cli.Flags) {
			f = fl
			o.Define(f)
			jobflags.WithoutStreams(f.Set)
			f.Group("Queue", func(s *pflag.FlagSet) {
				s.BoolVar(&retry, "retry", false, "queue units again that are parked")
				s.BoolVar(&remove, "remove", false, "take the job out of the queue; its output stays")
			})
			f.Group("NATS", func(s *pflag.FlagSet) { q.Define(s, 15*time.Second) })
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if err := o.Prepare(f, args); err != nil {
				return err
			}
			if err := o.Refuse(f, "sample submit", "config", "new", "work-dir", "ack-wait", "max-tries"); err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("submit: %w", err))
			}
			return submitJob(ctx, env, &o, &q, retry, remove)
		},
	}
}

// submitJob puts the job into the queue, or takes it out, and prints its name.
func submitJob(ctx context.Context, env *cli.Environment, o *jobflags.Options, qo *jobflags.Queue, retry,
	remove bool) error {
	task := o.Task(env, nil)
	if err := task.Look(ctx); err != nil { // before the server is asked
		return err
	}
	q, err := qo.Connect(ctx, env, o.Logger(env))
	if err != nil {
		return err
	}
	defer q.Close()
	if remove {
		id, err := task.Withdraw(ctx, q)
		if err == nil {
			fmt.Fprintf(env.Stdout, "%s is not in the queue any more; its output stays in %s\n", id, task.Job.Output)
		}
		return err
	}
	s, err := task.Submit(ctx, q, o.Units.UnitOptions, retry)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, s.Job.ID)
	if o.Quiet {
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
	fmt.Fprintf(env.Stderr, "%s: %s\n", s.Job.ID, strings.Join(notes, "; "))
	return nil
}
