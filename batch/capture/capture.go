// Package capture lowers published attention kernels for TPUs to a model's shape, and keeps them in the folder that
// backends search.
package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/scripts/kernels"
)

// Shape is what a kernel is lowered for. Zero values are the script's defaults, but for Heads, KVHeads and HeadDim.
type Shape struct {
	Heads, KVHeads    int     // heads of one device
	HeadDim, PageSize int     // PageSize in tokens
	DType, KVDType    string  // of queries and results, bfloat16 or float32; of the cache, by default the same
	Scale, SoftCap    float64 // scale and soft cap of the scores
	Window            int     // in tokens
	Sinks             bool    // each head has a score of its own
	Queries, Pages    int     // of a block
	VMEMLimit         int     // in bytes
}

// Check reports what is wrong with a shape, by the names of the command's flags.
func (o *Shape) Check() error {
	switch {
	case o.Heads < 1 || o.KVHeads < 1:
		return errors.New("kernels capture needs --heads and --kv-heads")
	case o.HeadDim < 1 || o.HeadDim%128 != 0 && o.HeadDim != 64:
		return fmt.Errorf(
			"--head-dim is %d, but the kernels take 64 and multiples of 128: other models run without a kernel",
			o.HeadDim)
	case o.Sinks && o.HeadDim != 64:
		return fmt.Errorf("--sinks with --head-dim %d: only the kernel for a head dim of 64 takes sinks", o.HeadDim)
	case strings.HasPrefix(o.KVDType, "int"):
		return fmt.Errorf("--kv-dtype %s: the kernels read floats, such as float8_e4m3fn", o.KVDType)
	case o.Heads%o.KVHeads != 0:
		return fmt.Errorf("--heads %d is not a multiple of --kv-heads %d", o.Heads, o.KVHeads)
	}
	return nil
}

// Run lowers the kernels of a shape with the Python that has JAX ("": the first on PATH) and keeps them in folder. It
// returns the files. The script runs in a folder of its own, and what it wrote is checked first.
func Run(ctx context.Context, shape Shape, python, folder string) ([]string, error) {
	if err := shape.Check(); err != nil {
		return nil, err
	}
	python, err := findPython(python)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "quire-kernels-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, kernels.Files); err != nil {
		return nil, err
	}
	out := filepath.Join(work, "out")
	args := append([]string{filepath.Join(work, "capture.py"), "--out", out}, shape.arguments()...)
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "JAX_PLATFORMS=cpu")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, captureError(python, stderr.String(), err)
	}
	return keep(out, folder)
}

// keep moves what the script wrote to folder.
func keep(out, folder string) (kept []string, err error) {
	files, err := os.ReadDir(out)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			return kept, err
		}
		if _, err := mosaic.Parse(data); err != nil {
			return kept, fmt.Errorf("what the script wrote: %w", err)
		}
		path := filepath.Join(folder, f.Name())
		part := path + ".part"
		if err := os.WriteFile(part, data, 0o666); err != nil {
			return kept, err
		}
		if err := os.Rename(part, path); err != nil {
			return kept, err
		}
		kept = append(kept, path)
	}
	return kept, nil
}

func (o *Shape) arguments() []string {
	args := []string{"--heads", strconv.Itoa(o.Heads), "--kv-heads", strconv.Itoa(o.KVHeads), "--head-dim",
		strconv.Itoa(o.HeadDim),
		"--page-size", strconv.Itoa(o.PageSize), "--dtype", o.DType}
	text := func(name, value string) {
		if value != "" && value != "0" {
			args = append(args, name, value)
		}
	}
	text("--kv-dtype", o.KVDType)
	text("--scale", strconv.FormatFloat(o.Scale, 'g', -1, 64))
	text("--window", strconv.Itoa(o.Window))
	text("--soft-cap", strconv.FormatFloat(o.SoftCap, 'g', -1, 64))
	text("--queries", strconv.Itoa(o.Queries))
	text("--pages", strconv.Itoa(o.Pages))
	text("--vmem-limit", strconv.Itoa(o.VMEMLimit))
	if o.Sinks {
		args = append(args, "--sinks")
	}
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

// captureError distinguishes a missing package from a shape that the kernel refuses.
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
