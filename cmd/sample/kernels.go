package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/batch"
	"github.com/quire/quire/scripts/kernels"
	"github.com/quire/quire/setup"
)

// captureOptions are the flags of "kernels capture".
type captureOptions struct {
	python                            string
	heads, kvHeads, headDim, pageSize int
	dtype, kvDType                    string
	scale, softCap                    float64
	window, queries, pages, vmemLimit int
}

func newKernels() *subcommand {
	var o captureOptions
	return &subcommand{
		name:    "kernels",
		args:    "list|capture",
		summary: "list the attention kernels for TPU, or capture one for another shape",
		about: `
On a TPU, attention runs as a kernel if there is one for exactly the model's heads, head size, page size, dtype and
options. Otherwise it is built of ordinary operations, which is slower; "sample plan" shows which. The kernels of common
models are in the program. A kernel works for any number of pages, sequences and tokens.

"list" lists the kernels. "capture" lowers a published kernel for another shape and keeps it under QUIRE_CACHE: JAX's
ragged paged attention if head_dim is a multiple of 128, that of tpu-inference if it is 64. It needs no TPU, but a Python
with their packages; if packages are missing, it names them with their versions.`,
		example: `
sample kernels list
sample kernels capture --heads 28 --kv-heads 4 --head-dim 128 --page-size 64
sample kernels capture --heads 32 --kv-heads 8 --head-dim 128 --window 4096 --python ~/jax/bin/python`,
		flags: func(f *flags) {
			f.group("The shape to capture", func(s *pflag.FlagSet) {
				s.IntVar(&o.heads, "heads", 0, "attention heads, of one device")
				s.IntVar(&o.kvHeads, "kv-heads", 0, "KV heads, of one device")
				s.IntVar(&o.headDim, "head-dim", 128, "size of a head")
				s.IntVar(&o.pageSize, "page-size", 16, "tokens in a page")
				s.StringVar(&o.dtype, "dtype", "bfloat16", "`DTYPE` type of queries and results: bfloat16 or float32")
				s.StringVar(&o.kvDType, "kv-dtype", "", "`DTYPE` type of the cache (default: that of the queries)")
				s.Float64Var(&o.scale, "scale", 0, "factor of the scores (default: 1/sqrt(head_dim))")
				s.IntVar(&o.window, "window", 0, "sliding window in tokens; 0 is none")
				s.Float64Var(&o.softCap, "soft-cap", 0, "soft cap of the scores; 0 is none")
			})
			f.group("Lowering", func(s *pflag.FlagSet) {
				s.IntVar(&o.queries, "queries", 0,
					"queries a block; 8 and 32 if not given, a kernel for decode and one for prompts; 32 for a "+
						"head_dim of 64")
				s.IntVar(&o.pages, "pages", 0, "pages a block, chosen if not given")
				s.IntVar(&o.vmemLimit, "vmem-limit", 0, "bytes of VMEM that the kernel may take, 16 MiB if not given")
				placeVar(s, &o.python, onThisMachine, "python", "",
					"`FILE` the Python that has JAX; python3 or python on PATH if not given")
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("kernels needs one of: list, capture")
			}
			cache, err := setup.CacheDir()
			if err != nil {
				return err
			}
			folder := filepath.Join(cache, batch.KernelFolder)
			switch args[0] {
			case "list":
				return listKernels(env.stdout, folder)
			case "capture":
				return o.capture(ctx, env, folder)
			}
			return usagef("kernels knows no %q%s: list and capture are known", args[0],
				didYouMean(args[0], []string{"list", "capture"}, ""))
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
		"KERNEL\tHEADS\tKV HEADS\tHEAD DIM\tPAGE\tDTYPE\tSCALE\tWINDOW\tSOFT CAP\tQUERIES x PAGES\tJAX\tFROM")
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
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%.6g\t%s\t%s\t%d x %d\t%s\t%s\n", e.Kernel, c.Heads, c.KVHeads,
			c.HeadDim, c.PageSize, dtype, c.Scale,
			orDash(float64(c.Window)), orDash(c.SoftCap), e.Blocks.Queries, e.Blocks.Pages, e.Versions["jax"], from)
	}
	return table.Flush()
}

func orDash(x float64) string {
	if x == 0 {
		return "-"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// capture runs the script in a folder of its own, checks what it wrote, and moves that to where backends look for
// kernels.
func (o *captureOptions) capture(ctx context.Context, env *environment, folder string) error {
	if o.heads < 1 || o.kvHeads < 1 {
		return usagef("kernels capture needs --heads and --kv-heads")
	}
	if o.headDim < 1 || o.headDim%128 != 0 && o.headDim != 64 {
		return usagef(
			"--head-dim is %d, but the kernels take 64 and multiples of 128: other models run without a kernel",
			o.headDim)
	}
	if o.heads%o.kvHeads != 0 {
		return usagef("--heads %d is no multiple of --kv-heads %d", o.heads, o.kvHeads)
	}
	python, err := findPython(o.python)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "quire-kernels-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, kernels.Files); err != nil {
		return err
	}
	out := filepath.Join(work, "out")
	args := append([]string{filepath.Join(work, "capture.py"), "--out", out}, o.arguments()...)
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "JAX_PLATFORMS=cpu")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	fmt.Fprintf(env.stderr, "lowering the kernel with %s\n", python)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return captureError(python, stderr.String(), err)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			return err
		}
		if _, err := mosaic.Parse(data); err != nil {
			return fmt.Errorf("what the script wrote: %w", err)
		}
		path := filepath.Join(folder, f.Name())
		part := path + ".part"
		if err := os.WriteFile(part, data, 0o666); err != nil {
			return err
		}
		if err := os.Rename(part, path); err != nil {
			return err
		}
		fmt.Fprintln(env.stdout, path)
	}
	return nil
}

func (o *captureOptions) arguments() []string {
	args := []string{"--heads", strconv.Itoa(o.heads), "--kv-heads", strconv.Itoa(o.kvHeads), "--head-dim",
		strconv.Itoa(o.headDim),
		"--page-size", strconv.Itoa(o.pageSize), "--dtype", o.dtype}
	text := func(name, value string) {
		if value != "" && value != "0" {
			args = append(args, name, value)
		}
	}
	text("--kv-dtype", o.kvDType)
	text("--scale", strconv.FormatFloat(o.scale, 'g', -1, 64))
	text("--window", strconv.Itoa(o.window))
	text("--soft-cap", strconv.FormatFloat(o.softCap, 'g', -1, 64))
	text("--queries", strconv.Itoa(o.queries))
	text("--pages", strconv.Itoa(o.pages))
	text("--vmem-limit", strconv.Itoa(o.vmemLimit))
	return args
}

// findPython returns the Python to run: the one given, or the first on PATH.
func findPython(given string) (string, error) {
	if given != "" {
		return exec.LookPath(given)
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Python on PATH: give one that has JAX with --python")
}

// captureError tells a missing package from a shape that the kernel refuses.
func captureError(python, stderr string, cause error) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if strings.Contains(last, "ModuleNotFoundError") || strings.Contains(last, "ImportError") {
		needs, err := fs.ReadFile(kernels.Files, "requirements.txt")
		if err != nil {
			return err
		}
		var packages []string
		for line := range strings.Lines(string(needs)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				packages = append(packages, line)
			}
		}
		return fmt.Errorf(
			"%s lacks a package (%s): install them with: %s -m pip install %s, or give another Python with --python",
			python, last, python, strings.Join(packages, " "))
	}
	if last == "" {
		last = cause.Error()
	}
	return fmt.Errorf("the kernel was not captured: %s", last)
}
