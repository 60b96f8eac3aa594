package queues

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

func NewStatus() *cli.Command {
	var o jobflags.Queue
	var asJSON, wait, watch bool
	return &cli.Command{
		Name:    "status",
		Args:    "[JOB]",
		Summary: "show the jobs of a queue, or how far one is",
		About: `
Lists the jobs of a queue, or shows one job: its rows, units and tokens, its workers and their speed, the time left,
what unfinished units wait for, and the parked units with their last errors.

With --wait it shows that until no unit of the job can continue by itself. It ends with 0 if all is done, with 3 if rows
carry errors, with 1 if units are parked, cancelled or lost by the server. If no worker is connected, or one cannot do
the job, it reports this and keeps waiting, because a worker may come.

With --watch it shows all jobs of the queue, or one, one per line, until none can continue by itself. On a terminal
the lines are refreshed every second; elsewhere a job has a new line when it has changed. For one job it ends as --wait
does, else with 0.`,
		Example: `
sample status
sample status 3f2a90c41b7d --nats tls://nats.example.com:4222
sample status --watch
sample status 3f2a90c41b7d --json | jq .eta_seconds`,
		Flags: func(f *cli.Flags) {
			f.Group("Output", func(s *pflag.FlagSet) {
				s.BoolVar(&asJSON, "json", false, "print JSON")
				s.BoolVar(&wait, "wait", false, "wait for the end of the job")
				s.BoolVar(&watch, "watch", false, "keep showing the jobs until none can continue by itself")
			})
			f.Group("NATS", func(s *pflag.FlagSet) { o.Define(s, 15*time.Second) })
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) > 1 || wait && len(args) == 0 {
				return cli.Usagef("status: one job, please")
			}
			if watch && (wait || asJSON) {
				return cli.Usagef("status: --watch shows lines until the end, and may not come with --wait or --json")
			}
			q, err := o.Connect(ctx, env, nil)
			if err != nil {
				return err
			}
			defer q.Close()
			if watch {
				return watchJobs(ctx, env, q, strings.Join(args, ""))
			}
			if len(args) == 0 {
				return listJobs(ctx, q, env.Stdout, asJSON)
			}
			return showJob(ctx, env, q, args[0], wait, asJSON)
		},
	}
}

// showJob shows the progress of a job. With wait it first waits until none of its units can continue by itself.
func showJob(ctx context.Context, env *cli.Environment, q *queue.Queue, job string, wait, asJSON bool) error {
	said := map[string]bool{}
	for last := ""; ; {
		s, err := q.Status(ctx, job)
		if err != nil {
			return noJobHint(err)
		}
		v := distribute.Summarize(s)
		if !wait || s.Over {
			if err := printStatus(env.Stdout, v, asJSON); err != nil || !wait {
				return err
			}
			return distribute.JobOver(s)
		}
		if line := v.Line(); line != last {
			last = line
			fmt.Fprintln(env.Stderr, line)
		}
		for _, line := range v.Obstacles() {
			if !said[line] {
				said[line] = true
				fmt.Fprintln(env.Stderr, line)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// printStatus writes how far a job is.
func printStatus(w io.Writer, v *distribute.JobStatus, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, v)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	row("job", "%s, %s", v.Job, v.State())
	row("output", "%s", v.Output)
	rows := fmt.Sprintf("%d of %d", v.Figures.Rows, v.Rows)
	if v.Figures.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", v.Figures.RowsWithErrors)
	}
	if before := v.Status.Job.Before.Rows; before > 0 {
		rows += fmt.Sprintf("; %d of them before it was submitted", before)
	}
	row("rows", "%s", rows)
	units := fmt.Sprintf("%d: %d done, %d running, %d waiting, %d parked", v.Units, v.Done, v.Running, v.Waiting,
		v.Parked)
	if v.Status.Cancelled > 0 {
		units += fmt.Sprintf(", %d cancelled", v.Status.Cancelled)
	}
	row("units", "%s", units)
	row("completions", "%d (%s)", v.Figures.Completions, v.Figures.FinishReasons)
	row("tokens", "%d of prompts, %d generated", v.Figures.PromptTokens, v.Figures.CompletionTokens)
	if !v.Over {
		row("rate", "%.1f rows/s, %.0f tokens/s", v.RowsPerSecond, v.TokensPerSecond)
		eta := "not known"
		if v.ETASeconds != nil {
			eta = time.Duration(*v.ETASeconds * float64(time.Second)).Round(time.Second).String()
		}
		row("ETA", "%s", eta)
	}
	for _, l := range v.Workers {
		row("worker", "%s on %s (process %d): %s, %.1f rows/s, %.0f tokens/s, heard of %s ago", l.Name, l.Host, l.PID,
			plural.Count(l.Units, "unit"), l.RowsPerSecond,
			l.TokensPerSecond, time.Duration(l.SecondsAgo*float64(time.Second)).Round(time.Second))
	}
	for _, line := range v.Why {
		row("why", "%s", line)
	}
	for _, u := range v.ParkedUnits {
		row("parked", "%s: %s", u.Unit, u.Error)
	}
	return table.Flush()
}

func listJobs(ctx context.Context, q *queue.Queue, w io.Writer, asJSON bool) error {
	all, err := jobsOf(ctx, q, "")
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(w, all)
	}
	for _, v := range all {
		fmt.Fprintln(w, jobLine(v))
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "the queue has no jobs")
	}
	return nil
}

// noJobHint adds how to find the names of jobs.
func noJobHint(err error) error {
	if errors.Is(err, queue.ErrNoJob) {
		return fmt.Errorf("%w: \"sample status\" lists the jobs", err)
	}
	return err
}
