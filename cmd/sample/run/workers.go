package run

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
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/cmd/sample/queues"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

const (
	// localAckWait is how long a silent worker of this machine is waited for. A dead worker is started again and
	// returns what it had, so this only concerns workers that hang.
	localAckWait = 10 * time.Second
)

// runWorkers does a job with several processes of this machine, which take its units from a queue on this machine.
func runWorkers(ctx context.Context, env *cli.Environment, o *jobflags.Options, f *cli.Flags) (err error) {
	if err := o.Refuse(f, "--workers", "config", "new", "work-dir", "workers", "ack-wait", "max-tries", "max-restarts",
		"client-timeout", "call-timeout", "maintenance", "progress", "report", "log-format", "log-level"); err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("run: %w", err))
	}
	units := o.Units.UnitOptions
	if units.AckWait == 0 {
		units.AckWait = localAckWait
	}
	task := o.Task(env, nil)
	devices, err := load.DevicesOfWorkers(&o.Spec.Engine, o.Units.Workers)
	if err != nil {
		return err
	}
	c := workers(o, env, devices)
	report, err := task.Distribute(ctx, units, c.Work)
	if report == nil {
		return err
	}
	if finished := report.AlreadyFinished; finished != nil {
		if !o.Quiet {
			printFinished(env.Stdout, finished)
		}
		return cli.WriteReport(o.Report, finished, err)
	}
	report.Workers, report.Restarts = c.Workers, c.Restarts
	if !o.Quiet {
		printWorkersReport(env.Stdout, report)
	}
	return cli.WriteReport(o.Report, report, err)
}

// workers are "sample nats" and "sample worker", as many as --workers sets. devices has the setting of the environment
// that gives each worker its devices; it is empty if they share one.
func workers(o *jobflags.Options, env *cli.Environment, devices []string) *crew.Crew {
	password := rand.Text()
	return &crew.Crew{
		Workers: o.Units.Workers, MaxRestarts: o.Process.MaxRestarts, Password: password, Timing: env.Timing,
		Messages: env.Stderr, Log: o.Logger(env),
		Progress: &cli.Meter{To: env.Stderr, Mode: o.Progress, Each: int64(o.Spec.Sampling.N),
			Task: o.Spec.Task},
		Server: func(address, store string) []string {
			return []string{"nats", "--listen", address, "--store", store}
		},
		Worker: func(job, name string) []string {
			args := []string{"worker", job, "--name", name, "--progress", "none", "--max-restarts",
				fmt.Sprint(o.Process.MaxRestarts), "--client-timeout", o.Process.ClientTimeout.String(),
				"--call-timeout", o.Process.CallTimeout.String(), "--maintenance", "off", "--log-format",
				o.Observing.LogFormat, "--log-level", o.Observing.LogLevel, "--nats-wait",
				crew.ServerPatience.String(), "--plugins"}
			if o.Process.Debug {
				args = append(args, "--debug")
			}
			if o.Process.WorkDir != "" {
				args = append(args, "--work-dir", o.Process.WorkDir)
			}
			return args
		},
		Environment: func(address string, worker int) []string {
			env := slices.DeleteFunc(os.Environ(), func(v string) bool {
				return strings.HasPrefix(v, "NATS_") || strings.HasPrefix(v, queues.StorageVariable+"=")
			})
			if worker >= 0 && worker < len(devices) {
				env = append(env, devices[worker]) // the last one counts
			}
			return append(env, cli.SupervisedVariable+"=1", jobflags.NatsURL+"=nats://"+address,
				jobflags.NatsUser+"="+crew.User,
				jobflags.NatsPassword+"="+password, queues.StorageVariable+"="+strings.Join(o.Secrets, "\n"))
		},
	}
}

func printWorkersReport(w io.Writer, r *distribute.Report) {
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them in parts of earlier runs, %d in parts of this one", r.RowsBefore, r.RowsHere)
	}
	results := fmt.Sprintf("completions  %d (%s)\ntokens       %d of prompts, %d generated", r.Completions,
		r.FinishReasons, r.PromptTokens, r.CompletionTokens)
	if name, _ := r.Parameters["task"].(string); completion.Task(name).Encodes() {
		results = fmt.Sprintf("%-12s %d\ntokens       %d of prompts", completion.Task(name).Results(), r.Completions,
			r.PromptTokens)
	}
	fmt.Fprintf(w, "rows         %s\n%s\nworkers      %d, started again %s\ntotal time   %s\noutput       %s\n",
		rows, results, r.Workers, plural.Count(r.Restarts, "time"), cli.Seconds(r.TotalSeconds), r.Output)
	for _, p := range r.Parked {
		fmt.Fprintf(w, "parked       %s\n", visible.Line(p))
	}
}
