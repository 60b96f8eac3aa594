package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch"
	"github.com/quire/quire/engine"
)

// runOptions are the flags of "sample run", which config files set too.
type runOptions struct {
	spec    batch.Spec
	process batch.Options

	// Texts that check parses into the two above.
	shardText, kvMemory, hostMemory, prefixCache, mesh string
	hosts                                              hostOptions

	config, progress, report string
	diagnostics              diagnostics
	observing                observing
	units                    unitOptions

	secrets []string // URLs with their parameters
}

// define defines the flags, with the defaults in o.
func (o *runOptions) define(f *flags) {
	o.spec = batch.DefaultSpec()
	o.hosts.ID = -1 // for subcommands without the flags of several hosts
	f.group("Model", func(s *pflag.FlagSet) {
		placeVar(s, &o.spec.Model, modelPlace, "model", "m",
			"`MODEL` a Hugging Face folder or a GGUF file, here or at s3://, gs:// or azblob://, hf://org/name, or "+
				"smollm2, the demo model, which is fetched if need be")
		s.StringVar(&o.spec.LoadFormat, "load-format", batch.LoadAuto,
			"`HOW` weights are had: auto, from the model's files, or dummy, random ones of the shapes in its config, "+
				"to measure a model without them")
		placeVar(s, &o.spec.ChatTemplate, onThisMachine, "chat-template", "",
			"`TEMPLATE` how rows with messages become text: model (the model's own template), none (such rows are "+
				"errors), or a file with a Jinja template. A prompt is raw text in any case")
		s.StringVar(&o.spec.Engine.DType, "dtype", "auto",
			"`TYPE` type of the weights on the device: f32, bf16, f16, or auto, which is f32")
		s.IntVar(&o.spec.Engine.MaxModelLen, "max-model-len", 0,
			"`TOKENS` most tokens of a prompt and its completion together (default: what the model was made for)")
	})
	f.group("Input and output", func(s *pflag.FlagSet) {
		placesVar(s, &o.spec.Inputs, anywhere, "input", "i",
			"`FILE` prompts in Parquet or JSONL: a file, a glob or a folder, here or at s3://, gs:// or azblob://; "+
				"repeatable, and arguments after the flags are inputs too; any of them take the place of those in a "+
				"config file")
		placeVar(s, &o.spec.Output, anywhere, "output", "o",
			"`FOLDER` where the completions go, here or at s3://, gs:// or azblob://: part-00000.parquet and so on")
		placeVar(s, &o.process.WorkDir, onThisMachine, "work-dir", "",
			"`FOLDER` where the journal is (default: in the output folder, and for an output elsewhere in the cache)")
		s.StringVar(&o.spec.Format, "format", "parquet", "`FORMAT` format of the output: parquet or jsonl")
		columnsFlag(s, &o.spec.Columns)
		s.Int64Var(&o.spec.Limit, "limit", 0, "`ROWS` take this many rows from the start of the input; 0 takes all")
		s.Int64Var(&o.spec.PartRows, "part-rows", 0,
			"`ROWS` input rows of a part of the output; 0 takes as many as make about 16,384 completions")
		s.StringVar(&o.shardText, "shard", "",
			"`I/N` do the parts of shard I of N, from 0/N to N-1/N, beside other processes with the same --output; "+
				"auto takes it from the variables of Kubernetes, Slurm, GKE TPU or torchrun")
		s.BoolVar(&o.process.New, "new", false,
			"begin anew: remove the parts and the journal that the output folder has, of this job or another")
	})
	f.group("Workers", func(s *pflag.FlagSet) { o.units.define(s) })
	f.group("Sampling (a row's own columns n, max_tokens, temperature, ... come before these)", func(s *pflag.FlagSet) {
		parameterFlags(s, &o.spec.Sampling)
	})
	f.group("Engine (0: found from the model and the memory, and shown in the plan)", o.defineEngine)
	f.group("Reporting", func(s *pflag.FlagSet) {
		placeVar(s, &o.config, onThisMachine, "config", "c",
			"`FILE` YAML file with any of these flags as keys; flags on the command line win")
		s.StringVar(&o.progress, "progress", "auto",
			"`HOW` progress as bar, plain lines, none, or auto: a bar on a terminal and lines elsewhere")
		placeVar(s, &o.report, onThisMachine, "report", "", "`FILE` write the final report and the plan here as JSON")
	})
	f.group(diagnosticsTitle, func(s *pflag.FlagSet) {
		o.diagnostics.define(s)
		o.observing.define(s)
	})
}

// defineEngine defines the flags for the engine and its devices.
func (o *runOptions) defineEngine(s *pflag.FlagSet) {
	s.StringVar(&o.spec.Engine.Backend, "backend", "xla:cpu",
		"`BACKEND` xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so, or go, which is slow and needs no plugin")
	s.StringVar(&o.spec.Engine.Kernels, "kernels", xla.KernelsAuto,
		"`HOW` kernels in C for what XLA is slow at on the CPU: auto, where there are any, or off")
	s.StringVar(&o.spec.Engine.Layers, "layers", engine.LayersUnrolled,
		"`HOW` the model's layers stand in the programs: unrolled, or loop, one as the body of a loop, which "+
			"compiles sooner")
	s.StringVar(&o.spec.Engine.Weights, "weights", "auto",
		"`HOW` the matrices are held: auto, in the dtype, or int8, of 8 bits, each row with a scale: less memory "+
			"and time, other tokens")
	s.IntVar(&o.spec.Engine.MaxSeqs, "max-seqs", 0, "`SLOTS` sequences that decode at once")
	s.StringVar(&o.spec.Engine.KV, "kv", "paged",
		"`KIND` kind of KV cache: paged, or basic, one row of max-model-len for each slot, and as many slots as "+
			"fit unless --max-seqs is given")
	s.StringVar(&o.kvMemory, "kv-memory", "",
		"`BYTES` memory for the KV cache, such as 2GB or 512MiB (default: half of what is free, 4 GiB at most)")
	s.StringVar(&o.spec.Engine.KVDType, "kv-dtype", "auto",
		"`TYPE` type of keys and values: f32, bf16, f16, or auto, that of the weights")
	s.IntVar(&o.spec.Engine.PageSize, "page-size", 0, "`TOKENS` tokens of a page of the KV cache")
	o.definePages(s)
	o.defineDevices(s)
	s.IntVar(&o.spec.Engine.PrefillTokens, "prefill-tokens", 0, "`TOKENS` prompt tokens in one step")
	s.IntVar(&o.spec.Engine.MaxRounds, "max-rounds", 0, "`STEPS` most steps on the device between two looks of the host")
	s.IntVar(&o.process.MaxRestarts, "max-restarts", 5,
		"`N` how often a device that fails is started again without a completion in between")
	s.BoolVar(&o.spec.Engine.ZeroPages, "zero-pages", false,
		"overwrite freed pages with zeros, for tenants that share a process")
	s.BoolVar(&o.process.Debug, "debug", false, "check the device's tables after every step and log each call; slow")
}

// check parses and validates what does not need the model. Its errors name the flag.
func (o *runOptions) check() error {
	if err := errors.Join(o.observing.check(), o.units.check()); err != nil {
		return err
	}
	if !slices.Contains([]string{"auto", "bar", "plain", "none"}, o.progress) {
		return fmt.Errorf("--progress is %q, but must be auto or bar or plain or none", o.progress)
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
	engine := &o.spec.Engine
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
	o.process.Version, o.process.Quiet = quireVersion(), o.progress == "none"
	_, err = batch.NewTask(o.spec, o.process)
	return flagError(err)
}

// flagError names the flag of a field that is wrong.
func flagError(err error) error {
	if wrong := (*batch.FieldError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("--%w", err)
	}
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

// task is the job as this process does it, which tells env what happens.
func (o *runOptions) task(env *environment, w *observer) (*batch.Task, error) {
	options := o.process
	options.FS, options.Models, options.Messages, options.Fetching = env.fs, env.models, env.stderr,
		fetchProgress(env.stderr)
	options.Quiet = o.progress == "none"
	options.Progress = &meter{w: env.stderr, mode: o.progress}
	options.Opened = o.diagnostics.dump
	if w != nil {
		options.Observer, options.Log = w.Observer, w.Log
	}
	t, err := batch.NewTask(o.spec, options)
	return t, flagError(err)
}
