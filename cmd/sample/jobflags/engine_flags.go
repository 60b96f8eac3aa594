package jobflags

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/engine"
)

// definePages defines the flags for what becomes of pages of keys and values: docs/pages.md.
func (o *Options) definePages(s *pflag.FlagSet) {
	s.StringVar(&o.prefixCache, "prefix-cache", "on",
		"`MODE` prefix cache: on (prompts share the KV pages of a common prefix) or off; the output is "+
			"the same")
	s.StringVar((*string)(&o.Spec.Engine.Admission), "admission", string(o.Spec.Engine.Admission),
		"`MODE` how KV pages are reserved: overcommit (the prompt only; sequences swap to host memory when pages run "+
			"out) or reserve (the longest possible)")
	s.StringVar(&o.hostMemory, "host-kv-memory", "",
		"`BYTES` host memory for prefixes evicted from the device, such as 4GB (default: none)")
	cli.PlaceVar(s, &o.Process.SavePrefix, cli.OnThisMachine, "save-prefix", "",
		"`FILE` when the run is finished, write the keys and values of the prefix that all its prompts share")
	cli.PlacesVar(s, &o.Process.LoadPrefixes, cli.OnThisMachine, "load-prefix", "",
		"`NAME` read a prefix, for prompts that begin with it: a name of \"sample prefix\", or a file. Repeatable")
	o.DefinePrefixDir(s)
}

// defineSpeculation defines how many tokens are drafted: docs/speculation.md.
func (o *Options) defineSpeculation(s *pflag.FlagSet) {
	s.StringVar(&o.Spec.Engine.Speculate, "speculate", o.Spec.Engine.Speculate, fmt.Sprintf(
		"`TOKENS` draft tokens from the row's own text and verify them in one step; the output is the same: off, auto "+
			"(where it pays), or the most per row and step, 1 to %d", engine.MaxDrafts))
	cli.PlaceVar(s, &o.Spec.Engine.DraftModel, cli.ModelPlace, "draft-model", "",
		"`MODEL` a small model with the same tokens, which drafts in place of the row's own text; --speculate is then "+
			"auto unless it is given")
}

// defineWatch defines where weights come from while the job runs: docs/weights.md.
func (o *Options) defineWatch(s *pflag.FlagSet) {
	cli.PlaceVar(s, &o.Spec.Watch, cli.Anywhere, "watch", "",
		"`FOLDER` where a trainer puts new weights of --model while the job runs, here or at s3://, gs:// or "+
			"azblob://: folders NAME with the tensors that changed, and for each a file NAME.ready when it is whole. "+
			"Between two calls the engine takes the last in order of the names")
	s.StringVar((*string)(&o.Spec.OnSwap), "on-swap", "",
		"`POLICY` what happens to completions that have started when the engine takes new weights: finish (they end "+
			"first), restart (from the start) or continue (with the new weights; default: finish)")
}

// defineAdapters defines which LoRA adapters there are: docs/adapters.md.
func (o *Options) defineAdapters(s *pflag.FlagSet) {
	s.StringArrayVar(&o.Spec.Adapters.Named, "adapter", nil,
		"`NAME=PLACE` a LoRA adapter for rows whose column adapter, or whose model in an OpenAI batch file, is NAME: "+
			"a folder that PEFT saved, local, at s3://, gs:// or azblob://, or hf://org/name. Repeatable")
	cli.PlacesVar(s, &o.Spec.Adapters.Folders, cli.OnThisMachine, "adapters", "",
		"`FOLDER` as --adapter, for each folder in FOLDER, by its name. Repeatable")
	s.IntVar(&o.Spec.Adapters.Slots, "adapter-slots", 0,
		"`ADAPTERS` adapters that the device holds at once; rows of others wait (default: all, or as many as take a "+
			"quarter of the weights' memory, at least 16)")
	cli.PlaceVar(s, &o.Spec.Adapters.Merged, cli.ModelPlace, "merge-adapter", "",
		"`PLACE` fold a LoRA adapter into the weights, for all rows")
}

// defineFeatures defines what rows may ask for that the device has no arrays for unless something asks for it.
func (o *Options) defineFeatures(s *pflag.FlagSet) {
	s.StringVar(&o.Spec.Engine.Features, "features", "",
		"`NAMES` features that rows ask for, to compile their program at the start and not when the first such row "+
			"comes: "+strings.Join(engine.FeatureNames(), ", ")+", separated by commas (default: those that the flags "+
			"ask for)")
}

// DefinePrefixDir defines the flag for the folder of named prefixes.
func (o *Options) DefinePrefixDir(s *pflag.FlagSet) {
	cli.PlaceVar(s, &o.Process.PrefixDir, cli.OnThisMachine, "prefix-dir", "",
		"`FOLDER` where prefixes are that were saved by name (default: QUIRE_CACHE/prefixes)")
}

// defineDevices defines the flags for how a job is spread over devices.
func (o *Options) defineDevices(s *pflag.FlagSet) {
	s.IntVar(&o.Spec.Engine.TP, "tp", o.Spec.Engine.TP,
		"`DEVICES` devices to split each model over (tensor parallelism)")
	s.IntVar(&o.Spec.Engine.EP, "ep", o.Spec.Engine.EP,
		"`GROUPS` groups of --tp's devices to share experts out to; each splits its own (expert parallelism; default: "+
			"1, or more on TPUs if experts are too narrow for all devices)")
	s.IntVar(&o.Spec.Engine.DP, "dp", o.Spec.Engine.DP,
		"`REPLICAS` replicas of the model, each on --tp devices of its own (data parallelism)")
	s.StringVar(&o.mesh, "mesh", "", "`AXES` --tp and --dp at once, such as tp=4,dp=2")
}

// parseMesh reads --mesh, which gives the same as --tp and --dp.
func parseMesh(mesh string, e *spec.Engine) error {
	given := map[string]bool{}
	for axis := range strings.SplitSeq(mesh, ",") {
		if mesh == "" {
			break
		}
		name, size, _ := strings.Cut(axis, "=")
		n, err := strconv.Atoi(size)
		field := map[string]*int{"tp": &e.TP, "dp": &e.DP}[name]
		if err != nil || n < 1 || field == nil || given[name] {
			return fmt.Errorf("--mesh is %q, but must name axes and their devices, each once, such as tp=4,dp=2", mesh)
		}
		if *field != 1 && *field != n {
			return fmt.Errorf("--mesh is %q, but --%s is %d: give one of the two", mesh, name, *field)
		}
		given[name], *field = true, n
	}
	return nil
}
