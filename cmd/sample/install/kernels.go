package install

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/batch/capture"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/cmd/sample/cli"
)

// captureOptions are the flags of "kernels capture".
type captureOptions struct {
	capture.Shape
	python string
}

func NewKernels() *cli.Command {
	var o captureOptions
	return &cli.Command{
		Name:    "kernels",
		Args:    "list|capture",
		Summary: "list the attention kernels for TPU, or capture one for another shape",
		About: `
On a TPU, attention runs as a kernel if there is one for exactly the model's heads, head size, page size, dtype and
options. Otherwise it is built of ordinary operations, which is slower; "sample plan" shows which. The kernels of common
models are in the program. A kernel works for any number of pages, sequences and tokens.

"list" lists the kernels. "capture" lowers a published kernel for another shape and keeps it under QUIRE_CACHE: JAX's
ragged paged attention if head_dim is a multiple of 128, that of tpu-inference if it is 64. It needs no TPU, but a
Python with their packages; if packages are missing, it names them with their versions.`,
		Example: `
sample kernels list
sample kernels capture --heads 28 --kv-heads 4 --head-dim 128 --page-size 64
sample kernels capture --heads 32 --kv-heads 8 --head-dim 128 --window 4096 --python ~/jax/bin/python`,
		Flags: func(f *cli.Flags) {
			f.Group("The shape to capture", func(s *pflag.FlagSet) {
				s.IntVar(&o.Heads, "heads", 0, "`N` attention heads, of one device")
				s.IntVar(&o.KVHeads, "kv-heads", 0, "`N` KV heads, of one device")
				s.IntVar(&o.HeadDim, "head-dim", 128, "`N` size of a head")
				s.IntVar(&o.PageSize, "page-size", 16, "`TOKENS` tokens in a page")
				s.StringVar(&o.DType, "dtype", "bfloat16", "`DTYPE` type of queries and results: bfloat16 or float32")
				s.StringVar(&o.KVDType, "kv-dtype", "", "`DTYPE` type of the cache (default: that of the queries)")
				s.Float64Var(&o.Scale, "scale", 0, "`X` factor of the scores (default: 1/sqrt(head_dim))")
				s.IntVar(&o.Window, "window", 0, "`TOKENS` sliding window in tokens; 0 is none")
				s.Float64Var(&o.SoftCap, "soft-cap", 0, "`X` soft cap of the scores; 0 is none")
				s.BoolVar(&o.Sinks, "sinks", false,
					"each head has an attention sink, as in gpt-oss; for a head_dim of 64")
			})
			f.Group("Lowering", func(s *pflag.FlagSet) {
				s.IntVar(&o.Queries, "queries", 0,
					"`N` queries a block, of sequences that may have more than one; chosen if not given")
				s.IntVar(&o.Pages, "pages", 0, "`N` pages a block, chosen if not given")
				s.IntVar(&o.VMEMLimit, "vmem-limit", 0,
					"`BYTES` bytes of VMEM that the kernel may take, 16 MiB if not given")
				cli.PlaceVar(s, &o.python, cli.OnThisMachine, "python", "",
					"`FILE` the Python that has JAX; python3 or python on PATH if not given")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("kernels needs one of: list, capture")
			}
			cache, err := setup.CacheDir()
			if err != nil {
				return err
			}
			folder := filepath.Join(cache, load.KernelFolder)
			switch args[0] {
			case "list":
				return listKernels(env.Stdout, folder)
			case "capture":
				return o.capture(ctx, env, folder)
			}
			return cli.Usagef("kernels knows no %q%s: list and capture are known", args[0],
				cli.DidYouMean(args[0], []string{"list", "capture"}, ""))
		},
	}
}

func listKernels(w io.Writer, folder string) error {
	store, err := mosaic.Open(folder)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table,
		"KERNEL\tHEADS\tKV HEADS\tHEAD DIM\tPAGE\tDTYPE\tSCALE\tWINDOW\tSOFT CAP\tSINKS\tQUERIES x PAGES\tJAX\tFROM")
	for _, e := range store.Entries() {
		from := e.File
		if from == "" {
			from = "this program"
		}
		c := e.Config
		dtype := c.DType
		if c.KVDType != c.DType {
			dtype += "/" + c.KVDType
		}
		sinks := "-"
		if c.Sinks {
			sinks = "yes"
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%.6g\t%s\t%s\t%s\t%d x %d\t%s\t%s\n", e.Kernel, c.Heads, c.KVHeads,
			c.HeadDim, c.PageSize, dtype, c.Scale,
			orDash(float64(c.Window)), orDash(c.SoftCap), sinks, e.Blocks.Queries, e.Blocks.Pages,
			e.Versions["jax"], from)
	}
	return table.Flush()
}

func orDash(x float64) string {
	if x == 0 {
		return "-"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// capture lowers the kernels of a shape and prints their files.
func (o *captureOptions) capture(ctx context.Context, env *cli.Environment, folder string) error {
	if err := o.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	fmt.Fprintln(env.Stderr, "lowering the kernel")
	files, err := capture.Run(ctx, o.Shape, o.python, folder)
	for _, path := range files {
		fmt.Fprintln(env.Stdout, path)
	}
	return err
}
