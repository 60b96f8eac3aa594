package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/telemetry"
)

// runOptions are the flags of "sample run", which config files set too.
type runOptions struct {
	spec    spec.Spec
	process process.Options
	job     *spec.Job // of the two, once check has found them right

	unparsed
	hosts hostOptions

	flags                    *pflag.FlagSet
	config, progress, report string
	quiet, verbose           bool
	diagnostics              diagnostics
	observing                observing
	units                    unitOptions
	maintenance              maintenance

	secrets []string // URLs with their parameters

	mayTry  bool     // arguments without --output are prompts
	prompts []string // that arguments are
	piped   *os.File // a pipe that --input names
}

// unparsed are values of flags that check parses into the spec and the options.
type unparsed struct {
	shardText, kvMemory, hostMemory, prefixCache, mesh string
}

// define defines the flags, with the defaults in o.
func (o *runOptions) define(f *flags) {
	o.spec, o.flags = spec.Default(), f.set
	o.hosts.ID = -1 // for subcommands without the flags of several hosts
	f.group("Model", func(s *pflag.FlagSet) {
		placeVar(s, &o.spec.Model, modelPlace, "model", "m",
			"`MODEL` a Hugging Face folder or a GGUF file, here or at s3://, gs:// or azblob://, hf://org/name, or "+
				"smollm2, the demo model, or gemma3, which are fetched if need be")
		s.StringVar(&o.spec.LoadFormat, "load-format", o.spec.LoadFormat,
			"`SOURCE` weight source: auto (the model's files) or dummy (random, in the config's shapes, to measure a "+
				"model without them; a GGUF file keeps its own)")
		placeVar(s, &o.spec.ChatTemplate, onThisMachine, "chat-template", "",
			"`TEMPLATE` chat template for rows with messages: model (the model's own), none (such rows are errors), "+
				"or a "+
				"file with a Jinja template. See --prompt-as for rows with a prompt")
		s.StringVar(&o.spec.GenerationConfig, "generation-config", o.spec.GenerationConfig,
			"`SOURCE` defaults of temperature, top-k and others: auto (what the model's generation_config.json or "+
				"GGUF file asks for) or none (those below)")
		s.StringVar(&o.spec.Engine.DType, "dtype", o.spec.Engine.DType,
			"`TYPE` type of weights and activations on the device: f32, bf16, f16, or auto (that of the checkpoint; "+
				"bf16 for quantized ones)")
		s.IntVar(&o.spec.Engine.MaxModelLen, "max-model-len", 0,
			"`TOKENS` maximum length of a prompt and its completion together (default: the model's own limit)")
	})
	f.group("Input and output", func(s *pflag.FlagSet) {
		placesVar(s, &o.spec.Inputs, inputPlace, "input", "i",
			"`FILE` prompts in "+promptset.InputFormats()+": a file, a glob or a folder, local or at s3://, gs:// "+
				"or azblob://, or of a dataset of the hub, hf://datasets/ORG/NAME"+fromStandard+". "+
				"Repeatable; with --output, arguments after the flags are inputs too. Inputs on the "+
				"command line replace those of a config file")
		promptFlags(s, &o.spec)
		placeVar(s, &o.spec.Output, anywhere, "output", "o",
			"`FOLDER` where the completions go (part-00000.parquet and so on), local or at s3://, gs:// or azblob://"+
				toStandard)
		s.BoolVar(&o.process.InOrder, "in-order", false,
			"with --output -, write rows in the order of the input, and not as they are finished")
		placeVar(s, &o.process.WorkDir, onThisMachine, "work-dir", "",
			"`FOLDER` where the journal goes (default: the output folder, or the cache if that is in an object store)")
		s.StringVar(&o.spec.Format, "format", o.spec.Format,
			"`FORMAT` output format: parquet, jsonl, or openai (answers to OpenAI batch files)")
		columnsFlag(s, &o.spec.Columns)
		excludeFlag(s, &o.spec.Exclude)
		parserFlags(s, &o.spec)
		s.StringArrayVar(&o.spec.ServedModels, "served-model-name", nil,
			"`NAME` a name that lines of OpenAI batch files may give the model; other names are errors of their "+
				"lines. Repeatable (default: any name)")
		s.Int64Var(&o.spec.Limit, "limit", 0, "`ROWS` take this many rows from the start of the input; 0 takes all")
		s.Int64Var(&o.spec.PartRows, "part-rows", 0,
			"`ROWS` input rows per part of the output; 0 makes parts of about 16,384 completions")
		s.BoolVar(&o.spec.KeepPartitions, "keep-partitions", false,
			"put the completions of inputs in folders such as lang=en into folders of these names in the output, "+
				"and leave the columns that the folders give out of the files")
		s.StringVar(&o.shardText, "shard", "",
			"`I/N` do shard I of N, from 0/N to N-1/N, while other processes with the same --output do the others; "+
				"auto reads it from the environment of Kubernetes, Slurm, GKE TPU or torchrun")
		s.BoolVar(&o.process.New, "new", false,
			"start over: remove the parts and the journal in the output folder, of this job or another")
		s.BoolVar(&o.process.Extend, "extend", false,
			"let the job in the output folder grow to a larger -n, a larger --limit, or more rows behind those that "+
				"it has; its completions stay")
		s.BoolVar(&o.process.RetryErrors, "retry-errors", false,
			"try rows of the output again that have errors; all others stay")
	})
	f.group(workersTitle, func(s *pflag.FlagSet) { o.units.define(s) })
	f.group("Sampling (a row's own columns n, max_tokens, temperature, ... come before these)", func(s *pflag.FlagSet) {
		parameterFlags(s, &o.spec.Sampling)
	})
	f.group("Engine (0: found from the model and the memory, and shown in the plan)", o.defineEngine)
	f.group(reportingTitle, o.defineReporting)
	f.group(diagnosticsTitle, func(s *pflag.FlagSet) {
		o.diagnostics.define(s)
		o.observing.define(s)
	})
}

// defineReporting defines the flags for what the command reads its flags from and prints.
func (o *runOptions) defineReporting(s *pflag.FlagSet) {
	placeVar(s, &o.config, onThisMachine, "config", "c",
		"`FILE` YAML file with any of these flags as keys; flags on the command line take precedence")
	s.StringVar(&o.progress, "progress", "auto",
		"`MODE` progress display: bar, plain (lines), none, or auto (a bar on a terminal, lines elsewhere)")
	s.BoolVarP(&o.quiet, "quiet", "q", false, "print completions, warnings and errors alone, and no progress")
	s.BoolVarP(&o.verbose, "verbose", "v", false, "print the engine's whole plan, and all figures of the run")
	placeVar(s, &o.report, onThisMachine, "report", "", "`FILE` write the final report, with the plan, as JSON")
}

// Titles of groups of flags that mean something only while a job generates; see diagnosticsTitle.
const (
	workersTitle   = "Workers"
	reportingTitle = "Reporting"
)

// drawing are these titles.
func drawing() []string { return []string{workersTitle, reportingTitle, diagnosticsTitle} }

// What the help of --input and --output says of streams.
const (
	fromStandard = "; - for JSONL on standard input"
	toStandard   = "; - for JSONL on standard output: each row as soon as it is finished, without resuming"
)

// withoutStreams leaves streams out of the help of a command that other processes run the job for.
func withoutStreams(set *pflag.FlagSet) {
	for name, text := range map[string]string{"input": fromStandard, "output": toStandard} {
		flag := set.Lookup(name)
		flag.Usage = strings.Replace(flag.Usage, text, "", 1)
	}
}

// defineEngine defines the flags for the engine and its devices.
func (o *runOptions) defineEngine(s *pflag.FlagSet) {
	s.StringVar(&o.spec.Engine.Backend, "backend", o.spec.Engine.Backend,
		"`BACKEND` xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so, or go, which is slow and needs no plugin")
	s.StringVar(&o.spec.Engine.Kernels, "kernels", o.spec.Engine.Kernels,
		"`MODE` C kernels in place of slow XLA operations on the CPU: auto (where there are any) or off")
	s.StringVar(&o.spec.Engine.Layers, "layers", o.spec.Engine.Layers,
		"`FORM` how the programs hold the model's layers: unrolled, or loop (one loop over layers that repeat, which "+
			"compiles faster, and on GPUs copies the weights in each step)")
	s.StringVar(&o.spec.Engine.Weights, "weights", o.spec.Engine.Weights,
		"`FORM` how matrices are stored: auto (quantized blocks of a GGUF file as they are, others in the dtype), "+
			"f32, bf16, f16, q8_0 or q4_0 (8 or 4 bits, a scale per 32 numbers), or int8 (8 bits, a scale per row)")
	s.IntVar(&o.spec.Engine.MaxSeqs, "max-seqs", 0, "`SLOTS` maximum number of sequences that decode at once")
	s.StringVar(&o.spec.Engine.KV, "kv", o.spec.Engine.KV,
		"`KIND` kind of KV cache: paged, or basic (one row of max-model-len per slot, and as many slots as fit unless "+
			"--max-seqs is given)")
	s.StringVar(&o.kvMemory, "kv-memory", "",
		"`BYTES` memory for the KV cache, such as 2GB or 512MiB (default: half of the free memory, at most 4 GiB)")
	s.StringVar(&o.spec.Engine.KVDType, "kv-dtype", o.spec.Engine.KVDType,
		"`TYPE` type of keys and values: f32, bf16, f16, auto (that of --dtype), or int8 or fp8 (8 bits, a scale "+
			"per token and KV head)")
	s.IntVar(&o.spec.Engine.PageSize, "page-size", 0, "`TOKENS` tokens in a page of the KV cache")
	o.definePages(s)
	o.defineSpeculation(s)
	o.defineFeatures(s)
	o.defineDevices(s)
	s.IntVar(&o.spec.Engine.PrefillTokens, "prefill-tokens", 0,
		"`TOKENS` maximum prompt tokens per step (default: 128 on CPUs; 128 to 1024 on TPUs and GPUs, by the chip's "+
			"speed and memory bandwidth)")
	s.IntVar(&o.spec.Engine.MaxRounds, "max-rounds", 0, "`STEPS` maximum decode steps per device call")
	deviceFlags(s, &o.process)
	o.maintenance.define(s)
	s.BoolVar(&o.spec.Engine.ZeroPages, "zero-pages", false,
		"overwrite freed pages with zeros, for tenants that share a process")
	s.BoolVar(&o.process.Debug, "debug", false, "check the device's tables after every step and log each call; slow")
}

// check parses and validates what does not need the model. Its errors name the flag.
func (o *runOptions) check() error {
	if err := errors.Join(o.observing.check(), o.units.check(), checkDeviceFlags(&o.process),
		o.maintenance.check(), o.diagnostics.check(&o.process)); err != nil {
		return err
	}
	switch {
	case o.quiet && o.verbose:
		return errors.New("--quiet and --verbose contradict each other: leave one of the two out")
	case o.quiet:
		o.progress = "none"
	}
	if !slices.Contains([]string{"auto", "bar", "plain", "none"}, o.progress) {
		return fmt.Errorf("--progress is %q, but must be auto, bar, plain or none", o.progress)
	}
	err := o.hosts.check(os.Getenv, o.shardText != "")
	if err != nil {
		return err
	}
	if o.hosts.several() {
		o.process.Hosts = &o.hosts.Hosts
		if o.units.workers > 0 {
			return errors.New("--workers and --num-processes may not come together: each worker has a model of its own")
		}
	}
	if o.process.Shard, err = parseShard(o.shardText, o.hosts.shardEnvironment(os.Getenv)); err != nil {
		return err
	}
	o.spec.Given = givenParameters(o.flags)
	engine := &o.spec.Engine
	if engine.DraftModel != "" && !given(o.flags.Lookup("speculate")) {
		engine.Speculate = "auto"
	}
	if o.prefixCache != "on" && o.prefixCache != "off" {
		return fmt.Errorf("--prefix-cache is %q, but must be on or off", o.prefixCache)
	}
	engine.NoPrefixCache = o.prefixCache == "off"
	if engine.HostKVMemory, err = parseBytes("host-kv-memory", o.hostMemory, "4GB"); err != nil {
		return err
	}
	if engine.KVMemory, err = parseMemory(o.kvMemory); err != nil {
		return err
	}
	if err := parseMesh(o.mesh, engine); err != nil {
		return err
	}
	o.process.Version, o.process.Quiet, o.process.Verbose = quireVersion(), o.progress == "none", o.verbose
	o.job, err = process.Describe(o.spec, o.process)
	return err
}

// parseMemory parses --kv-memory; 0 is found from the machine.
func parseMemory(text string) (int64, error) {
	bytes, err := parseBytes("kv-memory", text, "2GB")
	if err == nil && bytes == 0 && text != "" {
		err = fmt.Errorf("--kv-memory is %q, but must be a size such as 2GB or 512MiB", text)
	}
	return bytes, err
}

func parseBytes(flag, text, example string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil || bytes > 1<<62 {
		return 0, fmt.Errorf("--%s is %q, but must be a size such as %s or 512MiB", flag, text, example)
	}
	return int64(bytes), nil
}

// task is the job that was checked as this process does it, which tells env what happens.
func (o *runOptions) task(env *environment, w *observer) *batch.Task {
	options := o.process
	stdin := o.input(env.stdin)
	options.Input, options.Rows = endable(stdin), env.stdout
	if o.spec.Output != spec.Standard && isInputTerminal(stdin) {
		options.Input = nil // a job goes on without the rows that it has read
	}
	options.Timing = env.timing
	options.FS, options.Models, options.Messages, options.Fetching = env.fs, env.models, newFitted(env.stderr),
		fetchProgress(env.stderr)
	options.Quiet, options.Stuck = o.progress == "none", stuck(env)
	progress := &meter{w: env.stderr, mode: o.progress, each: int64(o.spec.Sampling.N)}
	if o.spec.Output == spec.Standard && o.progress == "auto" && isTerminal(env.stdout) {
		progress.mode = "plain" // rows would be written into a bar
	}
	options.Progress = progress
	options.Opened, options.Log = o.diagnostics.dump(env.stderr), o.logger(env)
	if w != nil {
		options.Observer, options.Log = w.Observer, w.Log
	} else if o.diagnostics.tracing != nil {
		options.Observer = &observe.Observer{Run: telemetry.NewRun(), Log: options.Log, Version: o.process.Version,
			Trace: o.diagnostics.tracing}
	}
	t := batch.New(o.job, options)
	progress.tokens = func() int64 { return t.Process.Observer.Run.Now().Tokens }
	return t
}
