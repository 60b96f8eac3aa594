// Package smoke has the subcommand smoke, which tries this program on a machine with a GPU or a TPU: it packs a folder
// that needs no network there, and runs its parts.
package smoke

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/cmd/sample/cli"
)

const (
	pack = "pack"
	run  = "run"
)

// NewSmoke makes the subcommand.
func NewSmoke() *cli.Command {
	var o options
	var f *cli.Flags
	return &cli.Command{
		Name:    "smoke",
		Args:    "pack|run FOLDER",
		Summary: "try this program on a machine with a GPU or a TPU, in nine minutes and without a network",
		About: `
"pack" makes a FOLDER on any machine: this program, stripped and compressed, tiny models of random weights, prompts, and
what they generate on the CPU in f32. "run" tries FOLDER (default: the current one) on the machine with the device. It
needs nothing else but the device's PJRT plugin: see QUIRE_PLUGIN_CUDA and QUIRE_PLUGIN_TPU.

Parts of a run, each in processes of its own:

` + describeParts() + `
A part has its share of --minutes and what earlier parts left over. If a part fails, crashes or runs out of time, the
file has its error, and the next part runs. The file is written after each part.

Exit codes: 0 all parts are right, 3 some failed.`,
		Example: `
sample smoke pack smoke
sample smoke pack smoke --topology v5e:1x1     # with programs compiled ahead
smoke/run --backend xla:cuda                   # there: unpacks the program, and runs "sample smoke run smoke"
sample smoke run smoke --backend xla:cpu --only machine,kernels,plain`,
		Flags: func(fl *cli.Flags) {
			f = fl
			f.Group("Pack", func(s *pflag.FlagSet) {
				s.StringVar(&o.topology, "topology", "",
					"`NAME` compile the programs of a part ahead for this TPU, as sample plan names it")
			})
			f.Group("Run", func(s *pflag.FlagSet) {
				s.StringVar(&o.backend, "backend", backend.XLACUDA,
					"`BACKEND` xla:cuda, xla:tpu, or xla:cpu to try the parts without a device")
				s.Float64Var(&o.minutes, "minutes", 9, "`N` minutes for all parts")
				s.StringVar(&o.only, "only", "", "`PARTS` do only these parts, separated by commas (default: all)")
				o.out = "smoke.json"
				cli.PlaceVar(s, &o.out, cli.OnThisMachine, "out", "", "`FILE` where the figures go, as JSON")
				s.Float64Var(&o.tolerance, "tolerance", 0,
					"`X` how far log-probabilities may be from the CPU's (default: 0.005 in f32, 0.2 in bf16)")
				s.StringSliceVar(&o.points, "points", []string{"64x1024", "256x1024"},
					"`SLOTSxTOKENS` numbers of sequences and lengths of their prompts for the part speed")
				s.Float64Var(&o.bandwidth, "bandwidth", 0,
					"`GB/s` of the device's memory, for the shares of the part speed (default: as the vendor says)")
				s.Float64Var(&o.peak, "peak", 0,
					"`TFLOP/s` of the device's products in bf16 (default: as the vendor says)")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) == 0 || args[0] != pack && args[0] != run {
				return cli.Usagef("smoke needs one of: pack, run")
			}
			foreign := map[string][]string{run: {"topology"},
				pack: {"backend", "minutes", "only", "out", "tolerance", "points", "bandwidth", "peak"}}
			for _, name := range foreign[args[0]] {
				if f.Set.Changed(name) {
					return cli.Usagef("smoke: --%s may not come with %s", name, args[0])
				}
			}
			switch verb, folders := args[0], args[1:]; {
			case verb == pack && len(folders) == 1:
				return packFolder(ctx, env, folders[0], o.topology)
			case verb == pack:
				return cli.Usagef("smoke pack needs one folder, which it makes")
			case len(folders) > 1:
				return cli.Usagef("smoke run takes one folder, which sample smoke pack made")
			case len(folders) == 1:
				return runFolder(ctx, env, &o, folders[0])
			}
			return runFolder(ctx, env, &o, ".")
		},
	}
}

// describeParts lists the parts for the help.
func describeParts() string {
	var text strings.Builder
	for _, p := range parts() {
		fmt.Fprintf(&text, "  %-9s %s\n", p.name, p.about)
	}
	return text.String()
}
