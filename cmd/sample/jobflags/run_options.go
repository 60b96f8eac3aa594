// Package jobflags defines the flags that describe a job and how a process does it, checks them, and makes a task of
// them.
package jobflags

import (
	"cmp"
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
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
)

// Define defines the flags, with the defaults in o.
func (o *Options) Define(f *cli.Flags) {
	o.Spec, o.Flags = spec.Default(), f.Set
	o.Spec.Task = cmp.Or(o.ForTask, spec.TaskGenerate)
	o.Hosts.ID = -1 // the default for subcommands without the flags of several hosts
	f.Group("Model", func(s *pflag.FlagSet) {
		cli.PlaceVar(s, &o.Spec.Model, cli.ModelPlace, "model", "m",
			"`MODEL` a Hugging Face folder or a GGUF file, here or at s3://, gs:// or azblob://, hf://org/name, or "+
				"smollm2, the demo model, gemma3, qwen or minilm, which are fetched if need be")
		s.StringVar(&o.Spec.LoadFormat, "load-format", o.Spec.LoadFormat,
			"`SOURCE` weight source: auto (the model's files) or dummy (random, in the config's shapes, to measure a "+
				"model without them; a GGUF file keeps its own)")
		cli.PlaceVar(s, &o.Spec.ChatTemplate, cli.OnThisMachine, "chat-template", "",
			"`TEMPLATE` chat template for rows with messages: model (the model's own), none (such rows are errors), "+
				"or a "+
				"file with a Jinja template. See --prompt-as for rows with a prompt")
		s.StringVar(&o.Spec.GenerationConfig, "generation-config", o.Spec.GenerationConfig,
			"`SOURCE` defaults of temperature, top-k and others: auto (what the model's generation_config.json or "+
				"GGUF file asks for) or none (those below)")
		s.StringVar(&o.Spec.Engine.DType, "dtype", o.Spec.Engine.DType,
			"`TYPE` type of weights and activations on the device: f32, bf16, f16, or auto (that of the checkpoint; "+
				"bf16 for quantized ones)")
		s.IntVar(&o.Spec.Engine.MaxModelLen, "max-model-len", 0,
			"`TOKENS` maximum length of a prompt and its completion together (default: the model's own limit, or on "+
				"TPUs as much as the longest row needs)")
	})
	f.Group("Weights that change during the run (docs/weights.md)", o.defineWatch)
	f.Group("Input and output", func(s *pflag.FlagSet) {
		cli.PlacesVar(s, &o.Spec.Inputs, cli.InputPlace, "input", "i",
			"`FILE` prompts in "+promptset.InputFormats()+": a file, a glob or a folder, local or at s3://, gs:// "+
				"or azblob://, or of a dataset of the hub, hf://datasets/ORG/NAME"+fromStandard+". "+
				"Repeatable; with --output, arguments after the flags are inputs too. Inputs on the "+
				"command line replace those of a config file")
		promptFlags(s, &o.Spec)
		cli.PlaceVar(s, &o.Spec.Output, cli.Anywhere, "output", "o",
			"`FOLDER` where the completions go (part-00000.parquet and so on), local or at s3://, gs:// or azblob://"+
				toStandard)
		s.BoolVar(&o.Process.InOrder, "in-order", false,
			"with --output -, write rows in the order of the input, and not as they are finished")
		cli.PlaceVar(s, &o.Process.WorkDir, cli.OnThisMachine, "work-dir", "",
			"`FOLDER` where the journal goes (default: the output folder, or the cache if that is in an object store)")
		s.StringVar(&o.Spec.Format, "format", o.Spec.Format,
			"`FORMAT` output format: parquet, jsonl, or openai (answers to OpenAI batch files)")
		columnsFlag(s, &o.Spec.Columns)
		hiddenFlags(s, &o.Spec.Hidden)
		excludeFlag(s, &o.Spec.Exclude)
		parserFlags(s, &o.Spec)
		s.StringArrayVar(&o.Spec.ServedModels, "served-model-name", nil,
			"`NAME` a name that lines of OpenAI batch files may give the model; other names are errors of their "+
				"lines. Repeatable (default: any name)")
		s.Int64Var(&o.Spec.Limit, "limit", 0, "`ROWS` take this many rows from the start of the input; 0 takes all")
		s.Int64Var(&o.Spec.PartRows, "part-rows", 0,
			"`ROWS` input rows per part of the output; 0 makes parts of about 16,384 completions")
		s.BoolVar(&o.Spec.KeepPartitions, "keep-partitions", false,
			"put the completions of inputs in folders such as lang=en into folders of these names in the output, "+
				"and leave the columns that the folders give out of the files")
		s.StringVar(&o.shardText, "shard", "",
			"`I/N` do shard I of N, from 0/N to N-1/N, while other processes with the same --output do the others; "+
				"auto reads it from the environment of Kubernetes, Slurm, GKE TPU or torchrun")
		s.BoolVar(&o.Process.New, "new", false,
			"start over: remove the parts and the journal in the output folder, of this job or another")
		s.BoolVar(&o.Process.Extend, "extend", false,
			"let the job in the output folder grow to a larger -n, a larger --limit, or more rows after those that "+
				"it has; its completions stay")
		cli.PlacesVar(s, &o.Process.Reuse, cli.Anywhere, "reuse", "",
			"`OUTPUT` copy completions of this output of another job where this job would generate the same; "+
				"repeatable")
		cli.PlaceVar(s, &o.Process.Store, cli.Anywhere, "store", "",
			"`FOLDER` keep completions of all jobs there, and copy from there what this job would generate")
		s.BoolVar(&o.Process.RetryErrors, "retry-errors", false,
			"try rows of the output again that have errors; all others stay")
	})
	f.Group(workersTitle, func(s *pflag.FlagSet) { o.Units.define(s) })
	sampling := "Sampling (a row's own columns n, max_tokens, temperature, ... come before these)"
	if o.ForTask.Encodes() {
		sampling = "Prompts (a row's own columns of these names come before these)"
	}
	f.Group(sampling, func(s *pflag.FlagSet) {
		parameterFlags(s, &o.Spec.Sampling)
	})
	f.Group("Embeddings", func(s *pflag.FlagSet) { embeddingFlags(s, &o.Spec) })
	f.Group("Classes and rankings", func(s *pflag.FlagSet) { scoringFlags(s, &o.Spec.Scoring) })
	f.Group("Verdicts on completions (columns accepted and verdict)", func(s *pflag.FlagSet) {
		o.accept.define(s, &o.Spec.Accept)
	})
	f.Group("Tools that completions call (columns messages, turns and completion_mask)", func(s *pflag.FlagSet) {
		toolFlags(s, &o.Spec.Tools)
	})
	f.Group("Engine (0: found from the model and the memory, and shown in the plan)", o.defineEngine)
	f.Group(reportingTitle, o.defineReporting)
	f.Group(DiagnosticsTitle, func(s *pflag.FlagSet) {
		o.Diagnostics.Define(s)
		o.Observing.Define(s)
	})
	if o.ForTask.Encodes() {
		hideOthers(f.Set, o.ForTask)
	}
}

// defineReporting defines the flags for what the command reads its flags from and prints.
func (o *Options) defineReporting(s *pflag.FlagSet) {
	cli.PlaceVar(s, &o.Config, cli.OnThisMachine, "config", "c",
		"`FILE` YAML file with any of these flags as keys; flags on the command line take precedence")
	s.StringVar(&o.Progress, "progress", "auto",
		"`MODE` progress display: bar, plain (lines), none, or auto (a bar on a terminal, lines elsewhere)")
	s.BoolVarP(&o.Quiet, "quiet", "q", false, "print completions, warnings and errors alone, and no progress")
	s.BoolVarP(&o.Verbose, "verbose", "v", false, "print the engine's whole plan, and all figures of the run")
	cli.PlaceVar(s, &o.Report, cli.OnThisMachine, "report", "", "`FILE` write the final report, with the plan, as JSON")
}

// Titles of groups of flags that mean something only while a job generates; see diagnosticsTitle.
const (
	workersTitle   = "Workers"
	reportingTitle = "Reporting"
)

// Drawing are these titles.
func Drawing() []string { return []string{workersTitle, reportingTitle, DiagnosticsTitle} }

// Help of --input and --output for streams.
const (
	fromStandard = "; - for JSONL on standard input"
	toStandard   = "; - for JSONL on standard output: each row as soon as it is finished, without resuming"
)

// WithoutStreams leaves streams out of the help of a command that other processes run the job for.
func WithoutStreams(set *pflag.FlagSet) {
	for name, text := range map[string]string{"input": fromStandard, "output": toStandard} {
		flag := set.Lookup(name)
		flag.Usage = strings.Replace(flag.Usage, text, "", 1)
	}
}

// defineEngine defines the flags for the engine and its devices.
func (o *Options) defineEngine(s *pflag.FlagSet) {
	s.StringVar(&o.Spec.Engine.Backend, "backend", o.Spec.Engine.Backend,
		"`BACKEND` xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so, or go, which is slow and needs no plugin")
	s.StringVar(&o.Spec.Engine.Kernels, "kernels", o.Spec.Engine.Kernels,
		"`MODE` kernels in place of slow XLA operations: auto (where there are any; on a TPU attention must have one) "+
			"or off")
	s.StringVar(&o.Spec.Engine.Layers, "layers", o.Spec.Engine.Layers,
		"`FORM` how the programs hold the model's layers: unrolled, or loop (one loop over layers that repeat, which "+
			"compiles faster, and on GPUs copies the weights in each step)")
	s.StringVar(&o.Spec.Engine.Weights, "weights", o.Spec.Engine.Weights,
		"`FORM` how matrices are stored: auto (quantized blocks of a GGUF file as they are, others in the dtype), "+
			"f32, bf16, f16, q8_0 or q4_0 (8 or 4 bits, a scale per 32 numbers), or int8 (8 bits, a scale per row)")
	s.IntVar(&o.Spec.Engine.MaxSeqs, "max-seqs", 0,
		"`SLOTS` maximum number of sequences that decode at once (default: 64 on CPUs; up to 256 on TPUs and GPUs, as "+
			"memory and the page table permit)")
	s.StringVar(&o.Spec.Engine.KV, "kv", o.Spec.Engine.KV,
		"`KIND` kind of KV cache: paged, or basic (one row of max-model-len per slot, and as many slots as fit unless "+
			"--max-seqs is given)")
	s.StringVar(&o.kvMemory, "kv-memory", "",
		"`BYTES` memory for the KV cache, such as 2GB or 512MiB (default: half of the free memory, at most 4 GiB; on "+
			"TPUs and GPUs what programs and pages on their way to the host leave)")
	s.StringVar(&o.Spec.Engine.KVDType, "kv-dtype", o.Spec.Engine.KVDType,
		"`TYPE` type of keys and values: f32, bf16, f16, auto (that of --dtype), or int8 or fp8 (8 bits, a scale "+
			"per token and KV head)")
	s.IntVar(&o.Spec.Engine.PageSize, "page-size", 0,
		"`TOKENS` tokens in a page of the KV cache (default: 16; 64 on TPUs, or 128 if the page table is too large)")
	o.definePages(s)
	o.defineSpeculation(s)
	o.defineFeatures(s)
	o.defineAdapters(s)
	o.defineDevices(s)
	s.IntVar(&o.Spec.Engine.PrefillTokens, "prefill-tokens", 0,
		"`TOKENS` maximum prompt tokens per step (default: 128 on CPUs; 128 to 1024 on TPUs and GPUs, by the chip's "+
			"speed and memory bandwidth)")
	s.IntVar(&o.Spec.Engine.MaxRounds, "max-rounds", 0, "`STEPS` maximum decode steps per device call")
	DeviceFlags(s, &o.Process)
	o.Maintenance.Define(s)
	s.BoolVar(&o.Spec.Engine.ZeroPages, "zero-pages", false,
		"overwrite freed pages with zeros, for tenants that share a process")
	s.BoolVar(&o.Process.Debug, "debug", false, "check the device's tables after every step and log each call; slow")
}

// Check parses and validates what does not need the model. Its errors name the flag.
func (o *Options) Check() error {
	if err := errors.Join(o.Observing.Check(), o.Units.check(), CheckDeviceFlags(&o.Process),
		o.Maintenance.Check(), o.Diagnostics.Check(&o.Process)); err != nil {
		return err
	}
	switch {
	case o.Quiet && o.Verbose:
		return errors.New("--quiet and --verbose contradict each other: leave one of the two out")
	case o.Quiet:
		o.Progress = "none"
	}
	if !slices.Contains([]string{"auto", "bar", "plain", "none"}, o.Progress) {
		return fmt.Errorf("--progress is %q, but must be auto, bar, plain or none", o.Progress)
	}
	err := o.Hosts.check(os.Getenv, o.shardText != "")
	if err != nil {
		return err
	}
	if o.Hosts.several() {
		o.Process.Hosts = &o.Hosts.Hosts
		if o.Units.Workers > 0 {
			return errors.New("--workers and --num-processes may not come together: each worker has a model of its own")
		}
	}
	if o.Process.Shard, err = parseShard(o.shardText, o.Hosts.shardEnvironment(os.Getenv)); err != nil {
		return err
	}
	if err := o.accept.settle(o); err != nil {
		return err
	}
	o.Spec.Given = cli.GivenParameters(o.Flags)
	engine := &o.Spec.Engine
	if engine.DraftModel != "" && !cli.Given(o.Flags.Lookup("speculate")) {
		engine.Speculate = "auto"
	}
	if o.prefixCache != "on" && o.prefixCache != "off" {
		return fmt.Errorf("--prefix-cache is %q, but must be on or off", o.prefixCache)
	}
	engine.NoPrefixCache = o.prefixCache == "off"
	if engine.HostKVMemory, err = parseBytes("host-kv-memory", o.hostMemory, "4GB"); err != nil {
		return err
	}
	if engine.KVMemory, err = ParseMemory(o.kvMemory); err != nil {
		return err
	}
	if err := parseMesh(o.mesh, engine); err != nil {
		return err
	}
	o.Process.Version, o.Process.Quiet, o.Process.Verbose = cli.QuireVersion(), o.Progress == "none", o.Verbose
	o.Job, err = process.Describe(o.Spec, o.Process)
	return err
}

// ParseMemory parses --kv-memory; 0 is found from the machine.
func ParseMemory(text string) (int64, error) {
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

// Task is the checked job as this process does it. It reports what happens to env.
func (o *Options) Task(env *cli.Environment, w *observer) *batch.Task {
	options := o.Process
	stdin := o.input(env.Stdin)
	options.Input, options.Rows = endable(stdin), env.Stdout
	if o.Spec.Output != spec.Standard && cli.IsInputTerminal(stdin) {
		options.Input = nil // a job continues without the rows that it has read
	}
	options.Timing = env.Timing
	options.FS, options.Models, options.Messages, options.Fetching = env.FS, env.Models, cli.NewFitted(env.Stderr),
		cli.FetchProgress(env.Stderr)
	options.Spelling = cli.AsFlag
	options.Quiet, options.Stuck = o.Progress == "none", Stuck(env)
	progress := &cli.Meter{To: env.Stderr, Mode: o.Progress, Each: int64(o.Spec.Sampling.N),
		Task: o.Spec.Task}
	if o.Spec.Output == spec.Standard && o.Progress == "auto" && cli.IsTerminal(env.Stdout) {
		progress.Mode = "plain" // rows would overwrite a bar
	}
	options.Progress = progress
	options.Opened, options.Log = o.Diagnostics.Dump(env.Stderr), o.Logger(env)
	if w != nil {
		options.Observer, options.Log = w.Observer, w.Log
	} else if o.Diagnostics.tracing != nil {
		options.Observer = &observe.Observer{Run: telemetry.NewRun(), Log: options.Log, Version: o.Process.Version,
			Trace: o.Diagnostics.tracing}
	}
	t := batch.New(o.Job, options)
	progress.Tokens = func() int64 { return t.Process.Observer.Run.Now().Tokens }
	return t
}
