// Package review reads the output of a job back: its rows, statistics of them, how two outputs differ, and what the
// HTML page of a run shows: how the output was made, the time series of its processes, and its completions.
package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/telemetry"
	"github.com/quire/quire/telemetry/report"
	"github.com/quire/quire/vfs"
)

// Page gathers the page of the job in the output folder, local or of objects. workDir is its --work-dir, if it had one.
func Page(ctx context.Context, files vfs.FS, output, workDir string) (*report.Page, error) {
	page := &report.Page{Output: output}
	out, err := promptset.OpenPath(ctx, files, output)
	switch {
	case err == nil:
		meta, err := out.Meta()
		if err != nil {
			return nil, err
		}
		page.Facts = factsOf(meta)
	// It runs, or ended before its first part.
	case errors.Is(err, promptset.ErrNoParts) || errors.Is(err, fs.ErrNotExist):
		job, err := batch.BegunJob(ctx, output)
		if err != nil {
			return nil, err
		}
		if job == nil {
			return nil, fmt.Errorf("%s %w", output, promptset.ErrNoParts)
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
	if all, ok := batch.StandingOf(ctx, files, output, work); ok {
		page.Facts = append(page.Facts, [2]string{"parts", all.String()})
	}
	if page.Processes, err = processes(files, filepath.Join(work, jobstate.Folder)); err != nil {
		return nil, err
	}
	for _, part := range out.Parts {
		for c, err := range out.Rows(ctx, part) {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part.Name, err)
			}
			page.Add(report.Completion{ID: c.ID, Generation: c.Generation, Prompt: c.Prompt(),
				Text: strings.Join(c.Readable(), "\n"), FinishReason: c.FinishReason, PromptTokens: c.PromptTokens,
				CompletionTokens: c.CompletionTokens, Err: c.Err})
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
	names := map[string]string{run: ""}
	for _, shard := range shards {
		of, _ := batch.TimeSeries(filepath.Join(state, shard.Name()))
		names[of] = "shard " + shard.Name()
	}
	maps.Copy(names, workers)
	for path, name := range names {
		some, err := telemetry.Read(path)
		for i := range some {
			some[i].Name = name
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b telemetry.Process) int {
		return cmp.Or(a.Start.Time.Compare(b.Start.Time), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// factsOf says how the output was made.
func factsOf(meta map[string]string) (out [][2]string) {
	for _, name := range []string{"quire.model", "quire.model_fingerprint", "quire.version"} {
		if meta[name] != "" {
			out = append(out, [2]string{strings.ReplaceAll(strings.TrimPrefix(name, "quire."), "_", " "), meta[name]})
		}
	}
	var parameters map[string]json.RawMessage
	if json.Unmarshal([]byte(meta["quire.parameters"]), &parameters) != nil {
		return out // no job of this program
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if text := textOf(parameters[name]); text != "" {
			out = append(out, [2]string{strings.ReplaceAll(name, "_", " "), text})
		}
	}
	return out
}

// textOf is a parameter as people read it: no quotes around a text, commas between values, and nothing for nothing.
func textOf(raw json.RawMessage) string {
	var value any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // a seed keeps its digits
	if numbers.Decode(&value) != nil {
		return string(raw)
	}
	return plain(value)
}

func plain(value any) string {
	var parts []string
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case []any:
		for _, one := range v {
			text := plain(one)
			if s, ok := one.(string); ok {
				text = strconv.Quote(s) // it may be blank, or have commas
			}
			parts = append(parts, text)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := plain(v[name]); text != "" {
				parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+text)
			}
		}
	default:
		return fmt.Sprint(v)
	}
	return strings.Join(parts, ", ")
}
