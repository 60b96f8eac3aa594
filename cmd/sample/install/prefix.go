package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/prefixes"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/internal/plural"
)

func NewPrefix() *cli.Command {
	var o jobflags.Options
	var f *cli.Flags
	return &cli.Command{
		Name:    "prefix",
		Args:    "save NAME FILE... | list | drop NAME...",
		Summary: "save what prompts begin with by name, for jobs that load it",
		About: `
"save" runs the tokens that all prompts of the input files begin with (one row: its whole prompt), and keeps the keys
and values of their full pages under a name. A later job takes them with "sample run --load-prefix NAME", as often as
there are names: each prompt that begins with the tokens of one takes its pages, whatever its name. "list" lists the
prefixes, and "drop" removes some.

A prefix fits one model, dtype, page size, platform and kind of kernels. Give "save" the flags that the jobs have. A job
that differs is refused, with the name of what differs.`,
		Example: `
sample prefix save assistant system.jsonl -m smollm2
sample prefix list
sample run -m smollm2 -i chats.jsonl -o out --load-prefix assistant
sample prefix drop assistant`,
		Flags: func(fl *cli.Flags) {
			f = fl
			definePrefix(&o, f)
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("prefix needs one of: save, list, drop")
			}
			saved := prefixes.Prefixes{Dir: o.Process.PrefixDir}
			switch verb, names := args[0], args[1:]; {
			case verb == "save" && len(names) > 1:
				return savePrefix(ctx, &o, env, saved, names[0], names[1:])
			case verb == "save":
				return cli.Usagef("prefix save needs a name and a file with prompts: sample prefix save NAME FILE")
			case verb == "list" && len(names) == 0:
				return listPrefixes(env.Stdout, saved)
			case verb == "list":
				return cli.Usagef("prefix list takes no name")
			case verb == "drop" && len(names) > 0:
				for _, name := range names {
					if err := saved.Drop(name); err != nil {
						return err
					}
					fmt.Fprintf(env.Stdout, "%s is dropped\n", name)
				}
				return nil
			case verb == "drop":
				return cli.Usagef(`prefix drop needs a name; "sample prefix list" lists them`)
			}
			return cli.Usagef("prefix knows no %q%s: save, list and drop are known", args[0],
				cli.DidYouMean(args[0], []string{"save", "list", "drop"}, ""))
		},
	}
}

// definePrefix defines the flags of "sample prefix": the flags of a run that keys and values depend on.
func definePrefix(o *jobflags.Options, f *cli.Flags) {
	f.Group("Where prefixes are", o.DefinePrefixDir)
	all := cli.NewFlags("run")
	o.Define(all)
	wanted := func(names ...string) func(s *pflag.FlagSet) {
		return func(s *pflag.FlagSet) {
			for _, name := range names {
				s.AddFlag(all.Set.Lookup(name))
			}
		}
	}
	f.Group("Model", wanted("model", "load-format", "chat-template", "dtype", "max-model-len"))
	f.Group("Engine, as the jobs have it", wanted("backend", "kernels", "layers", "weights", "kv-memory", "kv-dtype",
		"page-size", "tp", "ep", "prefill-tokens", "host-kv-memory"))
}

// savePrefix saves the common prefix of the prompts of files.
func savePrefix(ctx context.Context, o *jobflags.Options, env *cli.Environment, dir prefixes.Prefixes, name string,
	inputs []string) error {
	file, err := dir.File(name)
	if err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	o.Spec.Inputs, o.Spec.Output, o.Process.SavePrefix, o.Progress = inputs, filepath.Dir(file), file, "none"
	if err := o.Check(); err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	if err := cli.Writable("prefix-dir", file); err != nil {
		return err
	}
	task := o.Task(env, nil)
	tokens, err := task.KeepPrefix(ctx)
	if wrong := (*prefixes.PrefixError)(nil); errors.As(err, &wrong) { // by the name that was given
		return fmt.Errorf("prefix %s: %w", name, wrong.Err)
	}
	if err != nil {
		return err
	}
	saved, err := dir.List()
	if err != nil {
		return err
	}
	for _, p := range saved {
		if p.Name == name {
			fmt.Fprintf(env.Stdout, "%s has the first %d of %s that all prompts begin with: %s in %s\n", name, p.Tokens,
				plural.Count(tokens, "token"), humanize.IBytes(uint64(p.Bytes)), file)
		}
	}
	return nil
}

// listPrefixes prints the prefixes that have names.
func listPrefixes(w io.Writer, dir prefixes.Prefixes) error {
	all, err := dir.List()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(w, `there are no prefixes; "sample prefix save NAME FILE" saves one`)
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tTOKENS\tSIZE\tMODEL\tDTYPE\tKV DTYPE\tPAGE SIZE\tCOMPUTED BY\tSAVED")
	for _, p := range all {
		if p.Err != nil {
			fmt.Fprintf(table, "%s\t%v\n", p.Name, p.Err)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%.12s\t%s\t%s\t%d\t%s\t%s\n", p.Name, p.Tokens,
			humanize.IBytes(uint64(p.Bytes)), strings.TrimPrefix(p.Model, "sha256:"), p.DType, p.KVDType, p.PageSize,
			p.Computed, p.Saved.Format("2006-01-02 15:04"))
	}
	return table.Flush()
}
