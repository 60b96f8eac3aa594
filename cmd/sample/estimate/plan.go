// Package estimate provides the subcommands that estimate a job before it runs: plan, check and bench.
package estimate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/gomlx/compute"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/plan"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/ops/collective"
)

// planOptions are the flags of "sample plan": the model's and the engine's of "sample run", and its own.
type planOptions struct {
	run           jobflags.Options
	topology      string
	context       int
	trials        int
	json, compile bool
}

func NewPlan() *cli.Command {
	var o planOptions
	var f, run *cli.Flags
	return &cli.Command{
		Name:    "plan",
		Summary: "compile a job for devices that need not be there, and tell what fits and how fast it could be",
		About: `
Compiles every program that "sample run" with the same flags would run, and prints the memory that they need on one
device: weights, KV cache, tables, temporaries, code. Unless --kv-memory is given, it searches for the largest KV
cache that compiles, by compiling several sizes.

With --topology it needs no devices, weights or network, only the compiler: "sample setup tpu", or "sample setup
cuda-compile" for GPUs; it fetches nothing by itself. --model may be a config.json. Without --topology, --backend
selects which of this machine's devices to plan for.

With --tp N, N devices run the model together, and the figures are of one of them. If the topology has more devices, the
plan has as many replicas as fit: run them with --dp, or as separate processes.

Speeds are a roofline, an upper bound: the time to multiply with and read what the model needs, at the chip's published
peaks. For TPUs the plan also tells what is expected of the compiled programs, by the compiler's estimates, and warns if
that is much less. Nothing is measured.

A job's --config file works unchanged; keys that plan does not use are ignored. Flags without a use are named.`,
		Example: `
sample plan --model configs/models/llama-3.1-8b.json --dtype bf16 --topology v6e:1x1 --max-model-len 8192
sample plan --model hf://Qwen/Qwen3-8B --dtype bf16 --topology v5p:2x2x1 --json
sample plan --model configs/models/llama-3.1-70b.json --dtype bf16 --topology v6e:2x4 --tp 8
sample plan --model smollm2 --backend xla:cpu --kv-memory 1GB
sample plan --config job.yaml --topology v5e:2x4 --compile-only   # a pod finds the programs in QUIRE_CACHE/programs`,
		Flags: func(fl *cli.Flags) { f = fl; run = o.define(f) },
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("plan takes no arguments, but was given %q", args)
			}
			if o.run.Config != "" {
				if err := cli.ApplyConfig(o.run.Config, f, "config"); err != nil {
					return cli.Exit(cli.ExitUsage, err)
				}
			}
			if err := o.check(); err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("plan: %w", err))
			}
			f.WarnUnused(env.Stderr, "plan", run, jobflags.Drawing(), "dump-hlo")
			return runPlan(ctx, env, &o)
		},
	}
}

// define defines the flags, and returns the flags of run.
func (o *planOptions) define(f *cli.Flags) *cli.Flags {
	run := cli.NewFlags("run")
	o.run.Define(run)
	f.Group("Plan", func(s *pflag.FlagSet) {
		s.StringVar(&o.topology, "topology", "",
			"`NAME` devices to compile for, which need not be present: a TPU chip and the chips along each "+
				"axis, such as v5e:2x4, v6e:1x1, v5p:2x2x1; or GPUs of one host, such as h200:1 (default: the "+
				"devices of --backend)")
		s.IntVar(&o.context, "context", 0,
			"`TOKENS` sequence length, prompt and completion together, for the numbers of sequences and the speeds "+
				"(default: 2048, or max-model-len if that is less)")
		s.IntVar(&o.trials, "max-compiles", 6, "`N` maximum compilations to find the largest KV cache")
		s.BoolVar(&o.compile, "compile-only", false,
			"keep the programs in the cache of compiled programs, and print the flags with which sample run "+
				"finds them")
		s.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
		s.AddFlag(run.Set.Lookup("dump-hlo"))
	})
	for _, g := range run.Groups {
		if strings.HasPrefix(g.Title, "Model") || strings.HasPrefix(g.Title, "Engine") {
			f.Group(g.Title, func(s *pflag.FlagSet) { s.AddFlagSet(g.Set) })
		}
	}
	f.Set.AddFlagSet(run.Set)
	return run
}

func (o *planOptions) check() error {
	switch {
	case o.context < 0:
		return fmt.Errorf("--context is %d, but must be 0 (found automatically) or more", o.context)
	case o.trials < 1:
		return fmt.Errorf("--max-compiles is %d, but must be at least 1", o.trials)
	}
	o.run.Spec.Inputs, o.run.Spec.Output = []string{os.DevNull}, os.DevNull // run's other options are checked with them
	if err := o.run.Check(); err != nil {
		return err
	}
	switch {
	case o.run.Spec.Engine.Backend == "go":
		return errors.New("--backend is go, which compiles nothing: use xla:cpu, xla:cuda or a --topology")
	}
	return nil
}

// runPlan does the whole plan.
func runPlan(ctx context.Context, env *cli.Environment, o *planOptions) error {
	if err := o.lacks(); err != nil {
		return err
	}
	dump := o.run.Diagnostics.DumpHLO
	if err := cli.WritableFolder("dump-hlo", dump); err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	dummy := *o.run.Job
	dummy.LoadFormat = spec.LoadDummy
	o.run.Job = &dummy
	task := o.run.Task(env, nil)
	model, err := task.OpenModel(ctx)
	if err != nil {
		return err
	}
	defer model.Close()
	backend, err := o.openBackend(ctx, task)
	if err != nil {
		return err
	}
	defer backend.Finalize()
	groups, err := load.Groups(&task.Job.Engine, backend)
	if err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	devices := backend.NumDevices()
	if backend.Traits().IsHost { // the processor is divided into as many as are asked for, and has more by default
		devices = len(groups) * collective.Devices(groups[0])
	}
	if task.Job.Encodes() {
		report, err := plan.Encoder(load.EncoderConfig(task.Process, task.Job, model), groups, devices,
			o.options(env, task.Job.Model))
		if err != nil {
			return err
		}
		return o.print(env, report)
	}
	job, config, err := task.PlanConfig(ctx, model)
	if err != nil {
		return err
	}
	if config.DraftModel != nil {
		defer config.DraftModel.Close()
	}
	for _, a := range config.Adapters {
		defer a.Close()
	}
	if o.compile && config.Tokenizer == nil {
		fmt.Fprintf(env.Stderr, "%s has no tokenizer: with one, sample run compiles other programs\n", job.Model)
	}
	options := o.options(env, job.Model)
	options.Defaults = job.Defaults
	p, err := plan.New(config, groups, devices, options)
	if err != nil {
		return err
	}
	report, err := p.Plan(ctx)
	if err != nil {
		return err
	}
	if o.compile {
		if err := p.CompileReplicas(ctx); err != nil {
			return err
		}
	}
	return o.print(env, report)
}

// options are the plan's, of a model.
func (o *planOptions) options(env *cli.Environment, model string) plan.Options {
	options := plan.Options{Model: model, Context: o.context, Trials: o.trials,
		Note: func(format string, args ...any) { fmt.Fprintf(env.Stderr, format+"\n", args...) }}
	if dump := o.run.Diagnostics.DumpHLO; dump != "" {
		options.Compiled = func(programs iter.Seq2[string, compute.Executable]) error {
			return load.WritePrograms(dump, programs)
		}
	}
	return options
}

func (o *planOptions) print(env *cli.Environment, report *plan.Report) error {
	if o.json {
		out := json.NewEncoder(env.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	printPlan(cli.NewFitted(env.Stdout), report)
	return nil
}

// lacks reports which plugin is wanted and not installed, before the model is fetched or opened.
func (o *planOptions) lacks() error {
	if o.topology != "" {
		platform := xla.TopologyPlatform(o.topology)
		if o.compile && backend.For(platform).TunesOnDevice {
			return cli.Exit(cli.ExitUsage,
				errors.New("--compile-only is for TPUs: a GPU's programs are tuned on the GPU while they are compiled"))
		}
		if err := setup.Usable(setup.Compiler(platform), false); err != nil {
			return fmt.Errorf("--topology is %s: %w", o.topology, err)
		}
		return nil
	}
	err := load.CheckDevice(o.run.Spec.Engine.Backend)
	none := (*setup.NoTPUError)(nil)
	if missing := (*setup.NotFetchedError)(nil); errors.As(err, &missing) && missing.NoDevice != "" ||
		errors.As(err, &none) {
		return fmt.Errorf("%w; --topology, such as v5e:2x4 or h200:1, plans for devices that are not here", err)
	}
	return err
}

// openBackend opens what the programs are compiled for.
func (o *planOptions) openBackend(ctx context.Context, task *batch.Task) (*xla.Backend, error) {
	if o.topology == "" {
		b, err := task.OpenDevices(ctx)
		if err != nil {
			return nil, err
		}
		x, ok := b.(*xla.Backend)
		if !ok {
			return nil, fmt.Errorf("--backend %s compiles nothing", task.Job.Engine.Backend)
		}
		return x, nil
	}
	b, err := task.OpenTopology(ctx, o.topology, o.compile)
	if errors.Is(err, xla.ErrUnknownTopology) {
		return nil, cli.Exit(cli.ExitUsage, fmt.Errorf("--topology: %w", err))
	}
	return b, err
}
