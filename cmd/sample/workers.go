package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/queue"
)

const (
	// maxWorkers bounds a slip of the hand.
	maxWorkers = 1024
	// localAckWait is how long a silent worker of this machine is waited for. One that died is started again and gives
	// back what it had, so that this is for those that stand still.
	localAckWait = 10 * time.Second
	// localPatience is how long a worker waits for the server of this machine, which is started again when it dies.
	localPatience = 2 * time.Minute
)

// pollStatus is the time between two looks at the queue.
var pollStatus = 250 * time.Millisecond

// runWorkers does a job with several processes of this machine, which take its units from a queue on this machine.
func runWorkers(ctx context.Context, env *environment, o *runOptions, f *flags) (err error) {
	if err := o.refuse(f, "--workers", "config", "new", "work-dir", "workers", "ack-wait", "max-tries", "max-restarts",
		"progress", "report", "log-format", "log-level"); err != nil {
		return &exitError{exitUsage, fmt.Errorf("run: %w", err)}
	}
	units := o.units.UnitOptions
	if units.AckWait == 0 {
		units.AckWait = localAckWait
	}
	task, err := o.task(env, nil)
	if err != nil {
		return err
	}
	c := &crew{options: o, env: env, log: o.logger(env), secrets: o.secrets, password: rand.Text()}
	report, err := task.Distribute(ctx, units, func(ctx context.Context, store string, job queue.Job,
		units []queue.Unit) (*queue.Status, error) {
		c.store = store
		return c.work(ctx, job, units, &meter{w: env.stderr, mode: o.progress})
	})
	if report == nil {
		return err
	}
	if finished := report.AlreadyFinished; finished != nil {
		printFinished(env.stdout, finished)
		return writtenReport(o.report, finished, err)
	}
	report.Workers, report.Restarts = o.units.workers, c.restarts
	printCrewReport(env.stdout, report)
	return writtenReport(o.report, report, err)
}

func printCrewReport(w io.Writer, r *batch.CrewReport) {
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them in parts of earlier runs, %d in parts of this one", r.RowsBefore, r.RowsHere)
	}
	fmt.Fprintf(w,
		"rows         %s\ncompletions  %d (%s)\ntokens       %d of prompts, %d generated\nworkers      %d, started "+
			"again %s\ntotal time   %s\noutput       %s\n",
		rows, r.Completions, r.FinishReasons, r.PromptTokens, r.CompletionTokens, r.Workers,
		plural.Count(r.Restarts, "time"), seconds(r.TotalSeconds), r.Output)
	for _, p := range r.Parked {
		fmt.Fprintf(w, "parked       %s\n", visible.Line(p))
	}
}
