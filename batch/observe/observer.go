// Package observe shows a job while it runs: events for logs, metrics and traces, dumps of the device's tables, and
// profiles of the device.
package observe

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
)

// Observer reports what happens in a job, in the log and by package telemetry.
type Observer struct {
	Run     *telemetry.Run
	Log     *slog.Logger
	Version string           // of the program
	Trace   *telemetry.Trace // nil for none

	start  telemetry.Start
	series *telemetry.Series
}

// seriesName is the name of the time series alongside the journal, workerSeriesName the name of a worker's, which has
// one for all of its units of a job.
const (
	seriesName       = "events.jsonl"
	workerSeriesName = "events-*.jsonl"
)

// TimeSeries lists the files of telemetry in the folder of a job's state: the file of runs, and the files of workers
// with their names.
func TimeSeries(dir string) (run string, workers map[string]string) {
	paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), workerSeriesName)) // its only error is a bad pattern
	before, after, _ := strings.Cut(workerSeriesName, "*")
	workers = map[string]string{}
	for _, path := range paths {
		workers[path] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), before), after)
	}
	return filepath.Join(dir, seriesName), workers
}

// escapeGlob makes a path a pattern that fits it alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// KeepSeries starts to write the time series. If it fails the run continues, because the series is only for people.
// With fresh the old series are removed.
func (w *Observer) KeepSeries(fs vfs.FS, dir string, fresh bool) {
	if fs != vfs.OS {
		return
	}
	run, workers := TimeSeries(dir)
	if fresh {
		_ = os.Remove(run)
		for path := range workers {
			_ = os.Remove(path)
		}
	}
	w.keepSeriesIn(run)
}

// KeepWorkerSeries is keep for a worker, once a unit has made the folder.
func (w *Observer) KeepWorkerSeries(fs vfs.FS, dir, name string) {
	if fs == vfs.OS && w.series == nil {
		w.keepSeriesIn(filepath.Join(dir, strings.Replace(workerSeriesName, "*", name, 1)))
	}
}

func (w *Observer) keepSeriesIn(path string) {
	var err error
	if w.series, err = w.Run.Keep(path); err != nil {
		w.Log.Warn("there will be no time series", "err", err)
	}
}

// Called takes a call of the device.
func (w *Observer) Called(c engine.Call) { w.Run.Called(telemetry.Call(c)) }

// Tracer gives what takes the times of a replica; nil if nothing does.
func (w *Observer) Tracer() func(replica int) schedule.Tracer {
	if w.Trace == nil {
		return nil
	}
	return func(replica int) schedule.Tracer { return w.Trace.Replica(replica) }
}

// completionTrack is the track of the goroutine that takes completions.
const completionTrack = "completions"

// Span begins a span of what a completion takes; the function that it returns ends it.
func (w *Observer) Span(name string) (end func(args ...any)) {
	if w == nil || w.Trace == nil {
		return func(...any) {}
	}
	return w.Trace.Job().Begin(completionTrack, name)
}

// Publishing begins to publish a part; the function that it returns ends it.
func (w *Observer) Publishing(s folder.PartSummary) (end func()) {
	if w == nil || w.Trace == nil {
		return func() {}
	}
	begin := time.Now()
	return func() {
		w.Trace.Job().Apart("publish a part", begin, time.Now(), "part", s.Part, "rows", s.Rows)
	}
}

// Started reports that the engine is ready.
func (w *Observer) Started(p engine.Plan, rows, before int64) {
	host, _ := os.Hostname() // one that is not known is one machine
	w.start = telemetry.Start{Version: w.Version, Model: p.Model, Backend: p.Backend, Host: host, DType: p.DType,
		Weights: p.Weights, Rows: rows, Before: before, Slots: p.MaxSeqs, Pages: p.Pages}
	w.Run.Started(w.start)
	w.Log.Info("engine ready", "backend", p.Backend, "model", p.Model, "slots", p.MaxSeqs, "pages", p.Pages, "rows",
		rows, "rows_before", before)
}

// Again reports that the engine is ready after a failure.
func (w *Observer) Again() {
	w.Run.Started(w.start)
	w.Log.Info("engine ready again")
}

// Failed reports that the device failed.
func (w *Observer) Failed(err error) {
	w.Run.Failed(err)
	w.Log.Warn("device failed", "err", err)
}

// Finished records a row with its results. failure is the text of its first error, or "".
func (w *Observer) Finished(inputRow *promptset.Row, started time.Time, results []completion.Result, failure string) {
	row := telemetry.Row{ID: inputRow.ID, Seconds: time.Since(started).Seconds(),
		PromptTokens: completion.PromptTokens(inputRow, results), Err: failure}
	for _, r := range results {
		row.Tokens += r.CompletionTokens
		if r.Err == "" {
			row.Completions++
		}
	}
	if failure != "" {
		w.Log.Debug("row with an error", "id", inputRow.ID, "err", failure)
	}
	w.Run.Finished(row)
}

// Published reports that a part is there.
func (w *Observer) Published(s folder.PartSummary) {
	w.Log.Info("part written", "part", s.Part, "rows", s.Rows, "rows_with_errors", s.RowsWithErrors,
		"completion_tokens", s.CompletionTokens)
}

// EndSeries ends the time series, if there is one; result reports how the job ended.
func (w *Observer) EndSeries(result string) {
	if w.series == nil {
		return
	}
	if err := w.series.Close(result); err != nil {
		w.Log.Warn("the time series is not whole", "err", err)
	}
	w.series = nil
}
