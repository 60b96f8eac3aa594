package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/gomlx/compute/dtypes"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
)

// runOptions are the flags of "sample run", which config files set too.
type runOptions struct {
	job string // in a queue, of which a worker does units; empty elsewhere

	model, loadFormat, output, format, chatTemplate string
	workDir, shardText                              string
	inputs, columns                                 []string
	limit, partRows                                 int64
	anew                                            bool
	maxRestarts                                     int

	sampling parameter.Set // of rows that give no parameters of their own

	backend, kernels, layers, kv, kvMemory, dtype, weights, kvDType string
	maxSeqs, pageSize, maxModelLen, prefillTokens, maxRounds        int
	zeroPages, debug                                                bool

	config, progress, report string
	pages                    pageOptions
	parallel                 parallel
	hosts                    hostOptions
	diagnostics              diagnostics
	observing                observing
	units                    unitOptions
	textOnly                 bool // open no engine: "sample bench --write-rows" needs the tokens only

	// Parsed from the texts above by check.
	kvBytes             int64
	weightsType, kvType dtypes.DType
	shard               jobstate.Shard
	secrets             []string // URLs with their parameters
	writer              string   // a name of its own for what is not published, where a shard may have several writers
}

// define defines the flags, with the defaults in o.
func (o *runOptions) define(f *flags) {
	o.sampling = parameter.Defaults()
	o.hosts.id = -1 // for subcommands without the flags of several hosts
	f.group("Model", func(s *pflag.FlagSet) {
		placeVar(s, &o.model, modelPlace, "model", "m",
			"`MODEL` a Hugging Face folder or a GGUF file, here or at s3://, gs:// or azblob://, hf://org/name, or "+
				"smollm2, the demo model, which is fetched if need be")
		s.StringVar(&o.loadFormat, "load-format", loadAuto,
			"`HOW` weights are had: auto, from the model's files, or dummy, random ones of the shapes in its config, "+
				"to measure a model without them")
		o.chatTemplate = "model"
		placeVar(s, &o.chatTemplate, onThisMachine, "chat-template", "",
			"`TEMPLATE` how rows with messages become text: model (the model's own template), none (such rows are "+
				"errors), or a file with a Jinja template. A prompt is raw text in any case")
		s.StringVar(&o.dtype, "dtype", "auto",
			"`TYPE` type of the weights on the device: f32, bf16, f16, or auto, which is f32")
		s.IntVar(&o.maxModelLen, "max-model-len", 0,
			"`TOKENS` most tokens of a prompt and its completion together (default: what the model was made for)")
	})
	f.group("Input and output", func(s *pflag.FlagSet) {
		placesVar(s, &o.inputs, anywhere, "input", "i",
			"`FILE` prompts in Parquet or JSONL: a file, a glob or a folder, here or at s3://, gs:// or azblob://; "+
				"repeatable, and arguments after the flags are inputs too; any of them take the place of those in a "+
				"config file")
		placeVar(s, &o.output, anywhere, "output", "o",
			"`FOLDER` where the completions go, here or at s3://, gs:// or azblob://: part-00000.parquet and so on")
		placeVar(s, &o.workDir, onThisMachine, "work-dir", "",
			"`FOLDER` where the journal is (default: in the output folder, and for an output elsewhere in the cache)")
		s.StringVar(&o.format, "format", "parquet", "`FORMAT` format of the output: parquet or jsonl")
		columnsFlag(s, &o.columns)
		s.Int64Var(&o.limit, "limit", 0, "`ROWS` take this many rows from the start of the input; 0 takes all")
		s.Int64Var(&o.partRows, "part-rows", 0,
			"`ROWS` input rows of a part of the output; 0 takes as many as make about 16,384 completions")
		s.StringVar(&o.shardText, "shard", "",
			"`I/N` do the parts of shard I of N, from 0/N to N-1/N, beside other processes with the same --output; "+
				"auto takes it from the variables of Kubernetes, Slurm, GKE TPU or torchrun")
		s.BoolVar(&o.anew, "new", false,
			"begin anew: remove the parts and the journal that the output folder has, of this job or another")
	})
	f.group("Workers", func(s *pflag.FlagSet) { o.units.define(s) })
	f.group("Sampling (a row's own columns n, max_tokens, temperature, ... come before these)", func(s *pflag.FlagSet) {
		parameterFlags(s, &o.sampling)
	})
	f.group("Engine (0: found from the model and the memory, and shown in the plan)", func(s *pflag.FlagSet) {
		s.StringVar(&o.backend, "backend", "xla:cpu",
			"`BACKEND` xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so, or go, which is slow and needs no plugin")
		s.StringVar(&o.kernels, "kernels", xla.KernelsAuto,
			"`HOW` kernels in C for what XLA is slow at on the CPU: auto, where there are any, or off")
		s.StringVar(&o.layers, "layers", engine.LayersUnrolled,
			"`HOW` the model's layers stand in the programs: unrolled, or loop, one as the body of a loop, which "+
				"compiles sooner")
		s.StringVar(&o.weights, "weights", "auto",
			"`HOW` the matrices are held: auto, in the dtype, or int8, of 8 bits, each row with a scale: less memory "+
				"and time, other tokens")
		s.IntVar(&o.maxSeqs, "max-seqs", 0, "`SLOTS` sequences that decode at once")
		s.StringVar(&o.kv, "kv", "paged",
			"`KIND` kind of KV cache: paged, or basic, one row of max-model-len for each slot, and as many slots as "+
				"fit unless --max-seqs is given")
		s.StringVar(&o.kvMemory, "kv-memory", "",
			"`BYTES` memory for the KV cache, such as 2GB or 512MiB (default: half of what is free, 4 GiB at most)")
		s.StringVar(&o.kvDType, "kv-dtype", "auto",
			"`TYPE` type of keys and values: f32, bf16, f16, or auto, that of the weights")
		s.IntVar(&o.pageSize, "page-size", 0, "`TOKENS` tokens of a page of the KV cache")
		o.pages.define(s)
		o.parallel.define(s)
		s.IntVar(&o.prefillTokens, "prefill-tokens", 0, "`TOKENS` prompt tokens in one step")
		s.IntVar(&o.maxRounds, "max-rounds", 0, "`STEPS` most steps on the device between two looks of the host")
		s.IntVar(&o.maxRestarts, "max-restarts", 5,
			"`N` how often a device that fails is started again without a completion in between")
		s.BoolVar(&o.zeroPages, "zero-pages", false,
			"overwrite freed pages with zeros, for tenants that share a process")
		s.BoolVar(&o.debug, "debug", false, "check the device's tables after every step and log each call; slow")
	})
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

// check validates what does not need the model. Its errors name the flag.
func (o *runOptions) check() error {
	switch {
	case o.model == "":
		return fmt.Errorf("--model is missing: a folder, a .gguf file, hf://org/name, or smollm2")
	case len(o.inputs) == 0:
		return fmt.Errorf(
			"--input is missing: a Parquet or JSONL file with a column prompt, messages or prompt_token_ids")
	case o.output == "":
		return fmt.Errorf("--output is missing: a folder for the completions")
	case o.limit < 0:
		return fmt.Errorf("--limit is %d, but must be 0 (all rows) or more", o.limit)
	case o.partRows < 0:
		return fmt.Errorf("--part-rows is %d, but must be 0 (found automatically) or more", o.partRows)
	case o.maxRestarts < 0:
		return fmt.Errorf("--max-restarts is %d, but must be 0 or more", o.maxRestarts)
	}
	if err := errors.Join(o.observing.check(), o.units.check()); err != nil {
		return err
	}
	if err := o.checkHosts(os.Getenv); err != nil {
		return err
	}
	if err := o.checkShard(o.hosts.shardEnvironment(os.Getenv), storage.IsRemote(o.output)); err != nil {
		return err
	}
	if err := o.pages.check(); err != nil {
		return err
	}
	if err := checkParameters(&o.sampling); err != nil {
		return err
	}
	var err error
	if o.columns, err = promptset.OnRequest(o.columns); err != nil {
		return fmt.Errorf("--columns %w", err)
	}
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"format", o.format, []string{"parquet", "jsonl"}},
		{"load-format", o.loadFormat, []string{loadAuto, loadDummy}},
		{"kernels", o.kernels, []string{xla.KernelsAuto, xla.KernelsOff}},
		{"layers", o.layers, []string{engine.LayersUnrolled, engine.LayersLoop}},
		{"weights", o.weights, []string{"auto", "int8"}},
		{"kv", o.kv, []string{"paged", "basic"}},
		{"progress", o.progress, []string{"auto", "bar", "plain", "none"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("--%s is %q, but must be %s", c.flag, c.value, strings.Join(c.allowed, " or "))
		}
	}
	for _, c := range []struct {
		flag  string
		value int
	}{{"max-seqs", o.maxSeqs}, {"page-size", o.pageSize}, {"max-model-len", o.maxModelLen},
		{"prefill-tokens", o.prefillTokens}, {"max-rounds", o.maxRounds}} {
		if c.value < 0 {
			return fmt.Errorf("--%s is %d, but must be 0 (found automatically) or more", c.flag, c.value)
		}
	}
	if o.kvMemory != "" {
		bytes, err := humanize.ParseBytes(o.kvMemory)
		if err != nil || bytes == 0 || bytes > math.MaxInt64 {
			return fmt.Errorf("--kv-memory is %q, but must be a size such as 2GB or 512MiB", o.kvMemory)
		}
		o.kvBytes = int64(bytes)
	}
	if o.weightsType, err = parseDType("dtype", o.dtype); err != nil {
		return err
	}
	if o.kvType, err = parseDType("kv-dtype", o.kvDType); err != nil {
		return err
	}
	if _, err = parseBackend(o.backend); err != nil {
		return err
	}
	return o.parallel.check(o.backend)
}

// parseDType parses the name of a float type; auto is InvalidDType, which lets the engine choose.
func parseDType(flag, name string) (dtypes.DType, error) {
	switch strings.ToLower(name) {
	case "auto":
		return dtypes.InvalidDType, nil
	case "f32", "float32":
		return dtypes.Float32, nil
	case "bf16", "bfloat16":
		return dtypes.BFloat16, nil
	case "f16", "float16":
		return dtypes.Float16, nil
	}
	return dtypes.InvalidDType, fmt.Errorf("--%s is %q, but must be auto, f32, bf16 or f16", flag, name)
}

// parseBackend checks --backend and returns it as package xla takes it: with an absolute path.
func parseBackend(backend string) (spec string, err error) {
	platform, isXLA := strings.CutPrefix(backend, "xla:")
	switch {
	case isXLA && platform == setup.CUDACompile:
		return "", fmt.Errorf("--backend is %s, which compiles programs but does not run them: run on xla:cuda, or "+
			"compile with \"sample plan --topology\"", backend)
	case backend == "go", isXLA && slices.Contains(setup.Platforms(), platform):
		return backend, nil
	case isXLA && strings.ContainsRune(platform, filepath.Separator):
		path, err := filepath.Abs(platform)
		return "xla:" + path, err
	}
	return "", fmt.Errorf("--backend is %q, but must be xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so or go", backend)
}
