package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/pflag"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/telemetry"
	"github.com/quire/quire/telemetry/report"
	"github.com/quire/quire/vfs"
)

func newHTMLReport() *subcommand {
	var o runOptions // for where a job's own files are
	var page string
	return &subcommand{
		name:    "report",
		args:    "FOLDER",
		summary: "make an HTML page of what a run did",
		about: `
FOLDER is the --output of a run, finished or not, from when its model is open. The page shows throughput, slots and pages in
use over time, lengths, finish reasons, errors, the slowest rows, and some completions. It is one file that needs no network
and runs no scripts. Open it in a browser.`,
		example: `
sample report out
sample report out -o report.html`,
		flags: func(fl *flags) {
			fl.group("Output", func(s *pflag.FlagSet) {
				placeVar(s, &page, onThisMachine, "output", "o",
					"`FILE` where the page goes (default: FOLDER/_report.html, or report.html for a folder of objects)")
				placeVar(s, &o.workDir, onThisMachine, "work-dir", "",
					"`FOLDER` the --work-dir of the run, if it had one")
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("report: give one folder, the output of a run")
			}
			var err error
			if o.output, err = anywhere.resolve(args[0]); err != nil {
				return &exitError{exitUsage, fmt.Errorf("report: %w", err)}
			}
			if o.output, err = storage.Hide(o.output); err != nil {
				return err
			}
			if err := writable("output", page); err != nil {
				return err
			}
			return makeReport(ctx, env, &o, page)
		},
	}
}

// makeReport writes the page of the job in o.output.
func makeReport(ctx context.Context, env *environment, o *runOptions, path string) error {
	folder := o.output
	if storage.IsRemote(folder) {
		cache, err := setup.CacheDir()
		if err != nil {
			return err
		}
		part := func(file string) bool { _, _, ok := promptset.ParsePartName(file); return ok || file == "_meta.json" }
		if folder, err = storage.FetchFolder(ctx, folder, filepath.Join(cache, "remote"), part,
			fetchedLines(env.stderr)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil {
			folder = ""
		}
		if path == "" {
			path = "report.html"
		}
	}
	parts, err := reportedParts(folder)
	if err != nil {
		return err
	}
	if path == "" {
		path = filepath.Join(folder, "_report.html")
	}
	page := &report.Page{Output: o.output}
	if len(parts) > 0 {
		page.Facts = factsOf(metaOf(folder, parts))
	} else if job, err := begunJob(ctx, o); err != nil {
		return err
	} else if job == nil {
		return noParts(o.output)
	} else { // it runs, or ended before its first part
		page.Facts = factsOf(job.Meta)
	}
	work, err := o.workFolder()
	if err != nil {
		return err
	}
	if all, ok := standingOf(ctx, env.fs, o.output, work); ok {
		page.Facts = append(page.Facts, [2]string{"parts", all.String()})
	}
	if page.Processes, err = processes(env.fs, filepath.Join(work, jobstate.Folder)); err != nil {
		return err
	}
	for _, part := range parts {
		err := eachRecord(ctx, part, func(record map[string]any) error {
			page.Add(completionOf(record))
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
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

// reportedParts lists the part files of a folder; there may be none.
func reportedParts(folder string) ([]string, error) {
	if folder == "" {
		return nil, nil
	}
	parts, err := partFiles(folder)
	if errors.Is(err, errNoParts) {
		return nil, nil
	}
	return parts, err
}

// processes reads the time series of runs of the whole job, of shards and of workers, in order of time.
func processes(files vfs.FS, state string) (all []telemetry.Process, err error) {
	shards, err := jobstate.Shards(files, state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, shard := range append([]jobstate.Shard{{}}, shards...) {
		paths = append(paths, filepath.Join(state, shard.Name(), seriesName))
	}
	for _, path := range append(paths, workerSeries(state)...) {
		some, err := telemetry.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b telemetry.Process) int { return a.Start.Time.Compare(b.Start.Time) })
	return all, nil
}

// completionOf takes what the page shows out of a row of the output.
func completionOf(record map[string]any) report.Completion {
	text := func(name string) string { s, _ := record[name].(string); return s }
	number := func(name string) int {
		switch n := record[name].(type) {
		case int32:
			return int(n)
		case int64:
			return int(n)
		case float64:
			return int(n)
		}
		return 0
	}
	return report.Completion{
		ID: fmt.Sprint(record["id"]), Generation: number("generation"), Prompt: promptText(record), Text: text("text"),
		FinishReason: text("finish_reason"),
		PromptTokens: number("prompt_tokens"), CompletionTokens: number("completion_tokens"), Err: text("error"),
	}
}

// metaOf is what parts say of how they were made.
func metaOf(folder string, parts []string) map[string]string {
	meta := map[string]string{}
	if text, err := os.ReadFile(filepath.Join(folder, "_meta.json")); err == nil {
		_ = json.Unmarshal(text, &meta)
	}
	if f, err := os.Open(parts[0]); err == nil {
		defer f.Close()
		if st, err := f.Stat(); err == nil {
			if file, err := parquet.OpenFile(f, st.Size(), parquet.SkipPageIndex(true),
				parquet.SkipBloomFilters(true)); err == nil {
				for _, kv := range file.Metadata().KeyValueMetadata {
					meta[kv.Key] = kv.Value
				}
			}
		}
	}
	return meta
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
