package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
)

func NewCancel() *cli.Command {
	var o jobflags.Queue
	return &cli.Command{
		Name:    "cancel",
		Args:    "JOB",
		Summary: "stop a job of a queue, and keep what is finished of it",
		About: `
Removes the units of the job from the queue. Workers that run some of them stop after the current device call, once a
heartbeat (every 5 s) has told them. Finished parts and journals stay: submit the same job again to resume it.

The output is free for another job once these workers have stopped. Cancelling a job again, or one that is over,
changes nothing and succeeds; the exit code is 1 if the queue has no such job. "sample submit --remove" removes a job
and all that the queue knows of it.`,
		Example: `
sample cancel 3f2a90c41b7d --nats tls://nats.example.com:4222`,
		Flags: func(f *cli.Flags) {
			f.Group("NATS", func(s *pflag.FlagSet) { o.Define(s, 15*time.Second) })
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef(`cancel: name one job; "sample status" lists them`)
			}
			q, err := o.Connect(ctx, env, nil)
			if err != nil {
				return err
			}
			defer q.Close()
			cancelled, err := q.Cancel(ctx, args[0])
			if err != nil {
				return noJobHint(err)
			}
			s, err := q.Status(ctx, args[0])
			if err != nil {
				return err
			}
			if !cancelled {
				fmt.Fprintf(env.Stdout, "%s has ended already: %d of %d rows are finished in %s\n", s.Job.ID,
					s.Figures.Rows, s.Job.Rows, s.Job.Name)
				return nil
			}
			fmt.Fprintf(env.Stdout,
				"%s is cancelled: %s; finished work is kept in %s, and submitting the same job again resumes it\n",
				s.Job.ID, unitsAt(s.Running), s.Job.Name)
			return nil
		},
	}
}

// unitsAt reports how many units workers are at when their job is cancelled.
func unitsAt(running int) string {
	switch running {
	case 0:
		return "no worker was at a unit of it"
	case 1:
		return "the worker of 1 unit stops"
	}
	return fmt.Sprintf("the workers of %d units stop", running)
}
