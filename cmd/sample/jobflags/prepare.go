package jobflags

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/storage"
)

// ReadConfig applies the config file, if there is one.
func (o *Options) ReadConfig(f *cli.Flags) error {
	if o.Config == "" {
		return nil
	}
	return cli.ApplyConfig(o.Config, f, "config")
}

// OfAProcess are flags of "sample run" that belong to one process and no job.
var OfAProcess = []string{
	"config", "new", "extend", "retry-errors", "work-dir", "shard", "workers", "ack-wait", "max-tries", "max-restarts",
	"client-timeout", "call-timeout", "maintenance", "progress", "report", "metrics", "log-format", "log-level",
	"pprof", "dump-hlo",
	"dump-tables", "dump-tables-to", "trace", "profile-device", "profile-calls", "save-prefix", "load-prefix",
	"prefix-dir", "watch", "on-swap",
}

// Read reads the config file. Arguments are inputs, like the values of --input, or prompts to try.
func (o *Options) Read(f *cli.Flags, args []string) error {
	if len(args) > 0 {
		f.Set.Lookup("input").Changed = true // so that a config file gives no others
	}
	if err := o.ReadConfig(f); err != nil {
		return err
	}
	mayTry := (o.MayTry || o.ForTask != "") && !o.Spec.Task.Reads().NeedsSeconds // a prompt alone ranks nothing
	if mayTry && len(args) > 0 && o.Spec.Output == "" && len(o.Spec.Inputs) == 0 {
		if err := o.takePrompts(f, args); err != nil {
			return fmt.Errorf("%s: %w", f.Set.Name(), cli.PlaceOr(err))
		}
		args = nil
	}
	for _, name := range args {
		if err := f.Set.Set("input", name); err != nil {
			return fmt.Errorf("%s: %w", f.Set.Name(), cli.PlaceOr(err))
		}
	}
	return nil
}

// Prepare reads the config file and checks the flags.
func (o *Options) Prepare(f *cli.Flags, args []string) error {
	if err := o.Read(f, args); err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	return o.Settle(f)
}

// Settle checks the flags that were read.
func (o *Options) Settle(f *cli.Flags) error {
	wrong := func(err error) error {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("%s: %w", f.Set.Name(), cli.PlaceOr(err)))
	}
	if err := errors.Join(o.takePipe(), o.TakeStream(f), checkTask(o, f)); err != nil {
		return wrong(err)
	}
	o.Secrets = o.withSecrets()
	if o.MayTry && o.Spec.Model != "" && len(o.Spec.Inputs) == 0 && o.Spec.Output == "" {
		return wrong(errors.New("there is nothing to generate: give --input FILE and --output FOLDER, or a prompt as " +
			"an argument"))
	}
	if err := o.Check(); err != nil {
		return wrong(err)
	}
	return nil
}

// Refuse refuses flags that belong to one process, but for some, and standard input.
func (o *Options) Refuse(f *cli.Flags, where string, but ...string) error {
	if slices.Contains(o.Spec.Inputs, spec.Standard) {
		return fmt.Errorf("--input is -, which one process reads, and it comes with %s: write the rows to a file first",
			where)
	}
	for _, name := range OfAProcess {
		if flag := f.Set.Lookup(name); flag != nil && flag.Changed && !slices.Contains(but, name) {
			return fmt.Errorf("--%s is of one process, and may not come with %s", name, where)
		}
	}
	return nil
}

// withSecrets lists the URLs of the job that have parameters, which the workers need and nobody else may see.
func (o *Options) withSecrets() (urls []string) {
	for _, name := range append([]string{o.Spec.Model, o.Spec.Engine.DraftModel, o.Spec.Output,
		o.Spec.Watch, o.Spec.Accept.Score}, o.Spec.Inputs...) {
		if storage.IsRemote(name) && strings.Contains(name, "?") {
			urls = append(urls, name)
		}
	}
	return urls
}

// withFolder are flags that only a job with an output folder has a use for.
var withFolder = []string{"new", "extend", "retry-errors", "work-dir", "shard", "workers", "ack-wait",
	"max-tries", "part-rows", "keep-partitions", "report", "num-processes"}

// withRows are flags that only a job with rows has a use for.
var withRows = []string{"in-order", "prompt-column", "id-column", "template", "limit", "format", "columns",
	"exclude-columns", "reasoning-parser", "tool-call-parser", "served-model-name", "save-prefix", "metrics",
	"top-logprobs", "prompt-logprobs", "task", "embedding-type", "dimensions", "pooling", "normalize", "prompt-name",
	"score-function", "top-n",
	"watch", "on-swap", "accept-regex", "accept-schema", "accept-equals", "accept-command",
	"accept-score", "accept-above", "extract", "until",
	"until-majority", "max-n", "accept-processes", "accept-timeout", "tools-from", "tool-command", "max-turns",
	"tool-failures", "tool-processes", "tool-timeout"}

// takePrompts takes arguments as prompts.
func (o *Options) takePrompts(f *cli.Flags, args []string) error {
	for _, arg := range args {
		_, err := os.Stat(arg)
		if err == nil || promptset.NamesInput(arg) {
			return fmt.Errorf("%s is the name of a file: give --output for the %s of its rows; without --output an "+
				"argument is a prompt", arg, o.Spec.Task.Results())
		}
	}
	useless := slices.Concat(withFolder, withRows)
	if o.Spec.Encodes() { // it prints rows
		useless, o.Process.InOrder = withFolder, true
		if !cli.Given(f.Set.Lookup("progress")) && !o.Verbose {
			o.Progress = "none"
		}
	}
	const why = "is for rows of files, and the arguments are prompts: leave it out, or give --input and --output"
	if err := cli.RefuseGiven(f, useless, why); err != nil {
		return err
	}
	o.Prompts, o.Spec.Inputs, o.Spec.Output = args, []string{spec.Standard}, spec.Standard
	return o.CheckDumps()
}

// TakeStream settles what follows from rows on standard output.
func (o *Options) TakeStream(f *cli.Flags) error {
	if o.Spec.Output != spec.Standard {
		return nil
	}
	if !o.MayTry && o.ForTask == "" {
		return errors.New("--output is -, and workers write to a folder: give --output FOLDER")
	}
	if !cli.Given(f.Set.Lookup("format")) {
		o.Spec.Format = promptset.FormatJSONL
	}
	return cli.RefuseGiven(f, []string{"report", "workers", "ack-wait", "max-tries"},
		"is for output folders, and --output is -: leave one of the two out")
}

// CheckDumps requires a folder for tables if no output has one.
func (o *Options) CheckDumps() error {
	if d := &o.Diagnostics; d.DumpTables != "" && d.DumpTablesDir == "" {
		return errors.New("--dump-tables needs --dump-tables-to here: there is no output folder")
	}
	return nil
}
