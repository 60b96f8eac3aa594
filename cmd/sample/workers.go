package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/batch/crew"
	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

const (
	// localAckWait is how long a silent worker of this machine is waited for. One that died is started again and gives
	// back what it had, so that this is for those that stand still.
	localAckWait = 10 * time.Second
)

// runWorkers does a job with several processes of this machine, which take its units from a queue on this machine.
func runWorkers(ctx context.Context, env *environment, o *runOptions, f *flags) (err error) {
	if err := o.refuse(f, "--workers", "config", "new", "work-dir", "workers", "ack-wait", "max-tries", "max-restarts",
		"client-timeout", "call-timeout", "maintenance", "progress", "report", "log-format", "log-level"); err != nil {
		return &exitError{exitUsage, fmt.Errorf("run: %w", err)}
	}
	units := o.units.UnitOptions
	if units.AckWait == 0 {
		units.AckWait = localAckWait
	}
	task := o.task(env, nil)
	chips, err := load.ChipsOfWorkers(&o.spec.Engine, o.units.workers)
	if err != nil {
		return err
	}
	c := o.crew(env, chips)
	report, err := task.Distribute(ctx, units, c.Work)
	if report == nil {
		return err
	}
	if finished := report.AlreadyFinished; finished != nil {
		printFinished(env.stdout, finished)
		return writtenReport(o.report, finished, err)
	}
	report.Workers, report.Restarts = c.Workers, c.Restarts
	printCrewReport(env.stdout, report)
	return writtenReport(o.report, report, err)
}

// crew are "sample nats" and "sample worker", so many as --workers says. chips are the chips of each on TPU.
func (o *runOptions) crew(env *environment, chips []string) *crew.Crew {
	password := rand.Text()
	return &crew.Crew{
		Workers: o.units.workers, MaxRestarts: o.process.MaxRestarts, Password: password, Timing: env.timing,
		Messages: env.stderr, Log: o.logger(env),
		Progress: &meter{w: env.stderr, mode: o.progress, each: int64(o.spec.Sampling.N)},
		Server: func(address, store string) []string {
			return []string{"nats", "--listen", address, "--store", store}
		},
		Worker: func(job, name string) []string {
			args := []string{"worker", job, "--name", name, "--progress", "none", "--max-restarts",
				fmt.Sprint(o.process.MaxRestarts), "--client-timeout", o.process.ClientTimeout.String(),
				"--call-timeout", o.process.CallTimeout.String(), "--maintenance", "off", "--log-format",
				o.observing.logFormat, "--log-level", o.observing.logLevel, "--nats-wait",
				crew.ServerPatience.String(), "--plugins"}
			if o.process.Debug {
				args = append(args, "--debug")
			}
			if o.process.WorkDir != "" {
				args = append(args, "--work-dir", o.process.WorkDir)
			}
			return args
		},
		Environment: func(address string, worker int) []string {
			env := slices.DeleteFunc(os.Environ(), func(v string) bool {
				return strings.HasPrefix(v, "NATS_") || strings.HasPrefix(v, storageVariable+"=")
			})
			if worker >= 0 && worker < len(chips) {
				env = append(env, load.VisibleChips+"="+chips[worker]) // the last one counts
			}
			return append(env, supervisedVariable+"=1", natsURL+"=nats://"+address, natsUser+"="+crew.User,
				natsPassword+"="+password, storageVariable+"="+strings.Join(o.secrets, "\n"))
		},
	}
}

// supervisedVariable tells a process that it ends when its standard input does: when the process that started it is
// gone.
const supervisedVariable = "QUIRE_SUPERVISED"

func supervised() bool { return os.Getenv(supervisedVariable) != "" }

// endWithParent ends this process with the one that supervises it, however that ends.
func endWithParent(env *environment) {
	if !supervised() {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(env.stderr, "sample: the process that started this one is gone")
		os.Exit(exitFailure)
	}()
}

func printCrewReport(w io.Writer, r *distribute.Report) {
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
