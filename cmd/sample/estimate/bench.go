package estimate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/measure"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/internal/plural"
)

// benchOptions are the flags of "sample bench": the model's and the engine's of "sample run", and its own.
type benchOptions struct {
	run            jobflags.Options
	workload, rows string
	repeat, warmUp int
	limit          int
	json           bool
	seed           uint64
	began          time.Time
}

func NewBench() *cli.Command {
	o := benchOptions{began: time.Now()}
	return &cli.Command{
		Name:    "bench",
		Summary: "measure the engine on a fixed job",
		About: `
Runs a workload several times and reports the start (programs, weights), the warm-up runs and the measured runs
separately. It reports figures of complete runs only: a row with an error, or a missing or short completion, is a
failure.

Tokens/s are over a run, from its start to the last completion, prompts included. The time of each kind of kernel is
measured around its calls. The processor's peaks (multiply-adds on registers, memory reads) are measured in the same
process, after the runs. A run's limit is the more of its products at the peak of arithmetic and its reads (weights each
step, keys and values for each token) at that of memory.

Workloads: ` + strings.Join(workloads.Names(), ", ") + `; or a YAML file like those in bench/workload.`,
		Example: `
sample bench --model smollm2 --dtype bf16
sample bench --model smollm2 --workload gsm-n4 --repeat 5 --json > n4.json
sample bench --model smollm2 --workload gsm --write-rows gsm.jsonl`,
		Flags: o.define,
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("bench takes no arguments, but was given %q", args)
			}
			if err := o.check(); err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("bench: %w", err))
			}
			return runBench(ctx, env, &o)
		},
	}
}

func (o *benchOptions) define(f *cli.Flags) {
	f.Group("Workload", func(s *pflag.FlagSet) {
		o.workload = "gsm"
		cli.PlaceVar(s, &o.workload, cli.OnThisMachine, "workload", "w",
			"`NAME` workload to run: a name from the list above, or a file")
		s.IntVar(&o.limit, "limit", 0, "`ROWS` take this many rows of the workload; 0 takes all")
		s.IntVar(&o.repeat, "repeat", 3, "`N` measured runs; the median one is shown")
		s.IntVar(&o.warmUp, "warmup", 1, "`N` warm-up runs")
		o.seed = 1
		s.Var((*cli.SeedValue)(&o.seed), "seed", "`SEED` seed of the random numbers, "+parameter.SeedRange)
		s.BoolVar(&o.json, "json", false, "print one JSON object with all figures instead of a table")
		cli.PlaceVar(s, &o.rows, cli.OnThisMachine, "write-rows", "",
			"`FILE` write the workload's rows with their token ids as JSONL, for other engines or sample run, and "+
				"run nothing")
	})
	run := cli.NewFlags("run")
	o.run.Define(run)
	for _, g := range run.Groups {
		if strings.HasPrefix(g.Title, "Model") || strings.HasPrefix(g.Title, "Engine") ||
			g.Title == jobflags.DiagnosticsTitle {
			f.Group(g.Title, func(s *pflag.FlagSet) { s.AddFlagSet(g.Set) })
		}
	}
}

func (o *benchOptions) check() error {
	switch {
	case o.repeat < 1 || o.warmUp < 0 || o.limit < 0:
		return errors.New("--repeat must be 1 or more, --warmup and --limit 0 or more")
	}
	o.run.Spec.Inputs, o.run.Spec.Output = []string{o.workload}, os.DevNull // run's other options are checked with them
	if d := &o.run.Diagnostics; d.DumpTables != "" && d.DumpTablesDir == "" {
		return errors.New("--dump-tables needs --dump-tables-to here: a benchmark has no output folder")
	}
	return o.run.Check()
}

// runBench does the whole measurement.
func runBench(ctx context.Context, env *cli.Environment, o *benchOptions) error {
	w, err := workloads.Open(o.workload)
	if err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("--workload: %w", err))
	}
	if err := cli.Writable("write-rows", o.rows); err != nil {
		return err
	}
	stop, err := o.run.Diagnostics.Begin()
	if err != nil {
		return err
	}
	o.run.Process.TextOnly = o.rows != ""
	task := o.run.Task(env, nil)
	if err := o.lacks(ctx, task, w); err != nil {
		return err
	}
	// As flags of a job do, it reports what the program has to have from the start.
	job := *task.Job
	if job.Sampling, err = w.Over(job.Sampling.Sampling); err != nil {
		return err
	}
	if w.Schemas > 0 {
		job.Sampling.StructuredOutputs.Kind = parameter.SchemaStructure
	}
	o.progress(env, "opening %s on %s", job.Model, job.Engine.Backend)
	s, err := task.OpenSession(ctx, &job)
	if err != nil {
		return err
	}
	defer s.Release()
	opened := time.Since(o.began)
	b, err := measure.New(s, w, measure.Options{Limit: o.limit, Sampling: job.Sampling.Sampling, Seed: o.seed,
		Kernels: job.Engine.Kernels, Version: cli.QuireVersion()})
	if err != nil {
		return err
	}
	if o.rows != "" {
		return writeRows(o.rows, b)
	}
	report, compare := b.Report(opened), func(*measure.Report) error { return nil }
	if backend.IsHost(s.Plan().Backend) {
		if compare, err = comparedWithPeak(report.Machine.Threads); err != nil {
			return err
		}
	}
	for i := range o.warmUp + o.repeat {
		o.progress(env, "run %d of %d: %s, %s to run", i+1, o.warmUp+o.repeat, plural.Count(len(b.Requests), "prompt"),
			plural.Count(b.Tokens, "token"))
		f, err := b.Pass(ctx)
		if err != nil {
			return err
		}
		if i < o.warmUp {
			report.WarmUp = append(report.WarmUp, f)
		} else {
			report.Runs = append(report.Runs, f)
		}
	}
	if err := stop(); err != nil {
		return err
	}
	if err := compare(report); err != nil {
		return err
	}
	report.Finish()
	if o.json {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	printBench(cli.NewFitted(env.Stdout), report)
	return nil
}

// comparedWithPeak measures reading before the runs, and returns what compares them with the peak after them.
func comparedWithPeak(threads int) (func(*measure.Report) error, error) {
	before, err := cpukernel.MeasureRead(threads)
	return func(r *measure.Report) error {
		peak, err := cpukernel.MeasurePeak(threads)
		if err != nil {
			return err
		}
		peak.ReadBefore = before
		r.Compare(peak)
		return nil
	}, err
}

// lacks reports what the workload needs and is not there, before the model is loaded.
func (o *benchOptions) lacks(ctx context.Context, task *batch.Task, w *workloads.Workload) error {
	if p := task.Process; !p.TextOnly {
		if err := p.Models.Lacks(task.Job.Engine.Backend); err != nil {
			return err
		}
	}
	if !w.Text() {
		return nil
	}
	model, err := task.Identify(ctx)
	if err != nil || model.Tokenizer {
		return err
	}
	const remedy = "take a folder with a tokenizer.json, or a workload whose prompts are tokens"
	return fmt.Errorf("the model %s has no tokenizer, and the prompts of --workload %s are text: %s", task.Job.Model,
		o.workload, remedy)
}

// progress reports what is continuing, on standard error.
func (o *benchOptions) progress(env *cli.Environment, format string, args ...any) {
	fmt.Fprintf(env.Stderr, "bench: "+format+"\n", args...)
}

// writeRows writes the rows as other engines take them, and "sample run" does.
func writeRows(path string, b *measure.Job) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--write-rows: %w", err)
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, r := range b.Rows {
		row := map[string]any{"id": r.ID, "prompt_token_ids": r.TokenIDs, "n": r.N, "max_tokens": r.MaxTokens,
			"temperature": b.Workload.Temperature, "ignore_eos": true}
		maps.Copy(row, b.Workload.Parameters)
		err = errors.Join(err, e.Encode(row))
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("--write-rows: %w", err)
	}
	return nil
}
