package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/telemetry"
	"github.com/quire/quire/telemetry/report"
	"github.com/quire/quire/vfs"
)

func newHTMLReport() *subcommand {
	var output, workDir string
	var page string
	return &subcommand{
		name:    "report",
		args:    "FOLDER",
		summary: "make an HTML page of what a run did",
		about: `
FOLDER is the --output of a run that is finished or under way. The page shows throughput, slots and pages in use over
time, lengths, finish reasons, errors, the slowest rows, and some completions. It is one file; open it in a browser. It
needs no network and runs no scripts.`,
		example: `
sample report out
sample report out -o report.html`,
		flags: func(fl *flags) {
			fl.group("Output", func(s *pflag.FlagSet) {
				placeVar(s, &page, onThisMachine, "output", "o",
					"`FILE` where the page goes (default: FOLDER/_report.html, or report.html for a folder of objects)")
				placeVar(s, &workDir, onThisMachine, "work-dir", "",
					"`FOLDER` the --work-dir of the run, if it had one")
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("report: give one folder, the output of a run")
			}
			var err error
			if output, err = anywhere.resolve(args[0]); err != nil {
				return &exitError{exitUsage, fmt.Errorf("report: %w", err)}
			}
			if output, err = storage.Hide(output); err != nil {
				return err
			}
			if err := writable("output", page); err != nil {
				return err
			}
			return makeReport(ctx, env, output, workDir, page)
		},
	}
}

// makeReport writes the page of the job in output.
func makeReport(ctx context.Context, env *environment, output, workDir, path string) error {
	switch {
	case path != "":
	case storage.IsRemote(output):
		path = "report.html"
	default:
		path = filepath.Join(output, "_report.html")
	}
	page, err := reportOf(ctx, env, output, workDir)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "%s\n", path)
	return nil
}

// reportOf gathers what the page shows.
func reportOf(ctx context.Context, env *environment, output, workDir string) (*report.Page, error) {
	page := &report.Page{Output: output}
	out, err := openParts(ctx, env.fs, output)
	switch {
	case err == nil:
		meta, err := out.Meta()
		if err != nil {
			return nil, err
		}
		page.Facts = factsOf(meta)
	case errors.Is(err, errNoParts) || errors.Is(err, fs.ErrNotExist): // it runs, or ended before its first part
		job, err := batch.BegunJob(ctx, output)
		if err != nil {
			return nil, err
		}
		if job == nil {
			return nil, fmt.Errorf("%s %w", output, errNoParts)
		}
		out = &promptset.Output{}
		page.Facts = factsOf(job.Meta)
	default:
		return nil, err
	}
	work, err := batch.WorkFolder(output, workDir)
	if err != nil {
		return nil, err
	}
	if all, ok := batch.StandingOf(ctx, env.fs, output, work); ok {
		page.Facts = append(page.Facts, [2]string{"parts", all.String()})
	}
	if page.Processes, err = processes(env.fs, filepath.Join(work, jobstate.Folder)); err != nil {
		return nil, err
	}
	for _, part := range out.Parts {
		for c, err := range out.Rows(ctx, part) {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part.Name, err)
			}
			page.Add(report.Completion{ID: c.ID, Generation: c.Generation, Prompt: c.Prompt(), Text: c.Text,
				FinishReason: c.FinishReason, PromptTokens: c.PromptTokens, CompletionTokens: c.CompletionTokens,
				Err: c.Err})
		}
	}
	return page, nil
}

// processes reads the time series of runs of the whole job, of shards and of workers, in order of time.
func processes(files vfs.FS, state string) (all []telemetry.Process, err error) {
	shards, err := jobstate.Shards(files, state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	run, workers := batch.TimeSeries(state)
	paths := []string{run}
	for _, shard := range shards {
		of, _ := batch.TimeSeries(filepath.Join(state, shard.Name()))
		paths = append(paths, of)
	}
	for _, path := range append(paths, workers...) {
		some, err := telemetry.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b telemetry.Process) int { return a.Start.Time.Compare(b.Start.Time) })
	return all, nil
}

// factsOf says how the output was made.
func factsOf(meta map[string]string) (out [][2]string) {
	for _, name := range []string{"quire.model", "quire.model_fingerprint", "quire.version", "quire.parameters"} {
		if meta[name] != "" {
			out = append(out, [2]string{strings.ReplaceAll(strings.TrimPrefix(name, "quire."), "_", " "), meta[name]})
		}
	}
	return out
}
