package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/telemetry"
	"github.com/quire/quire/vfs"
)

// observing are the flags for watching a run from outside, and what they ask for.
type observing struct {
	metrics, logFormat, logLevel string

	run *telemetry.Run // nil until start
}

func (o *observing) define(s *pflag.FlagSet) {
	s.StringVar(&o.metrics, "metrics", "",
		"`ADDRESS` serve /metrics for Prometheus, /healthz and /readyz here, such as 127.0.0.1:9090; of this machine "+
			"only, unless the address has another host, such as 0.0.0.0:9090")
	s.StringVar(&o.logFormat, "log-format", "text",
		"`FORMAT` format of the log on standard error: text, or json, which is meant for programs: with --progress "+
			"auto, progress is in the log then")
	s.StringVar(&o.logLevel, "log-level", "",
		"`LEVEL` least level that is logged: debug (each call of the device), info, warn or error (default: warn, "+
			"info with --log-format json, debug with --debug)")
}

func (o *observing) check() error {
	if !slices.Contains([]string{"text", "json"}, o.logFormat) {
		return fmt.Errorf("--log-format is %q, but must be text or json", o.logFormat)
	}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, o.logLevel) {
		return fmt.Errorf("--log-level is %q, but must be debug, info, warn or error", o.logLevel)
	}
	if o.metrics != "" {
		if _, _, err := net.SplitHostPort(o.metrics); err != nil {
			return fmt.Errorf("--metrics is %q, but must be an address such as 127.0.0.1:9090", o.metrics)
		}
	}
	return nil
}

// handler is where the log goes. Values that look like URLs are written without what may be secret in them.
func (o *observing) handler(w io.Writer, debug bool) slog.Handler {
	level := slog.LevelWarn
	switch {
	case o.logLevel != "":
		_ = level.UnmarshalText([]byte(o.logLevel)) // checked
	case debug:
		level = slog.LevelDebug
	case o.logFormat == "json":
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(storage.Scrub(v))
		case error:
			a.Value = slog.StringValue(storage.Scrub(v.Error()))
		}
		return a
	}}
	var h slog.Handler = slog.NewTextHandler(w, options)
	if o.logFormat == "json" {
		h = slog.NewJSONHandler(w, options)
	}
	return h
}

// called takes a call of the device.
func (o *observing) called(c engine.Call) {
	if o.run != nil {
		o.run.Called(telemetry.Call(c))
	}
}

// observer is what a run tells those who watch it.
type observer struct {
	run    *telemetry.Run
	log    *slog.Logger
	start  telemetry.Start
	series *telemetry.Series
	stops  []func()
}

// observe begins to watch a run: the log, and the metrics if they are asked for.
func (o *runOptions) observe(env *environment) (*observer, error) {
	o.observing.run = telemetry.NewRun()
	w := &observer{run: o.observing.run, log: o.logger(env)}
	before := slog.Default()
	slog.SetDefault(w.log)
	w.stops = append(w.stops, func() { slog.SetDefault(before) })
	if o.observing.metrics != "" {
		at, stop, err := w.run.Serve(o.observing.metrics, w.log)
		if err != nil {
			w.close("")
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		w.stops = append(w.stops, stop)
		w.log.Info("serving metrics", "address", at)
		if o.progress != "none" {
			fmt.Fprintf(env.stderr, "metrics are at http://%s/metrics\n", at)
		}
	}
	if o.observing.logFormat == "json" && o.progress == "auto" {
		o.progress = "none"
		w.logProgress()
	}
	return w, nil
}

// seriesName is the name of the time series beside the journal.
const seriesName = "events.jsonl"

// keep begins to write the time series. Without it a run goes on: it is for people.
func (w *observer) keep(env *environment, dir string, anew bool) {
	if env.fs != vfs.OS {
		return
	}
	path := filepath.Join(dir, seriesName)
	if anew {
		_ = os.Remove(path)
		for _, worker := range workerSeries(dir) {
			_ = os.Remove(worker)
		}
	}
	w.keepIn(path)
}

// workerPattern is the names of time series of workers, each of which has one for all of its units of a job.
const workerPattern = "events-*.jsonl"

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// workerSeries lists the time series of workers in the folder of a job's state.
func workerSeries(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(dir), workerPattern)) // its only error is of the pattern
	return files
}

// keepWorker is keep for a worker, once a unit has made the folder.
func (w *observer) keepWorker(env *environment, dir, name string) {
	if env.fs == vfs.OS && w.series == nil {
		w.keepIn(filepath.Join(dir, strings.Replace(workerPattern, "*", name, 1)))
	}
}

func (w *observer) keepIn(path string) {
	var err error
	if w.series, err = w.run.Keep(path); err != nil {
		w.log.Warn("there will be no time series", "err", err)
	}
}

// started says that the engine is ready.
func (w *observer) started(p engine.Plan, rows, before int64) {
	w.start = telemetry.Start{Version: quireVersion(), Model: p.Model, Backend: p.Backend, Rows: rows, Before: before,
		Slots: p.MaxSeqs, Pages: p.Pages}
	w.run.Started(w.start)
	w.log.Info("engine ready", "backend", p.Backend, "model", p.Model, "slots", p.MaxSeqs, "pages", p.Pages, "rows",
		rows, "rows_before", before)
}

// again says that the engine is ready after a failure.
func (w *observer) again() {
	w.run.Started(w.start)
	w.log.Info("engine ready again")
}

// failed says that the device failed.
func (w *observer) failed(err error) {
	w.run.Failed(err)
	w.log.Warn("device failed", "err", err)
}

// finished takes a row with its results.
func (w *observer) finished(p *pendingRow, failure string) {
	row := telemetry.Row{ID: p.row.ID, Seconds: time.Since(p.begun).Seconds(), PromptTokens: p.results[0].PromptTokens,
		Err: failure}
	for _, r := range p.results {
		row.Tokens += r.CompletionTokens
		if r.Err == "" {
			row.Completions++
		}
	}
	if failure != "" {
		w.log.Debug("row with an error", "id", p.row.ID, "err", failure)
	}
	w.run.Finished(row)
}

// published says that a part is there.
func (w *observer) published(s promptset.PartSummary) {
	w.log.Info("part written", "part", s.Part, "rows", s.Rows, "rows_with_errors", s.RowsWithErrors,
		"completion_tokens", s.CompletionTokens)
}

// logProgress logs how far the run is, as often as lines of progress are printed.
func (w *observer) logProgress() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(plainEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p := w.run.Now()
				w.log.Info("progress", "rows", p.Rows, "rows_with_errors", p.RowsWithErrors, "rows_before", p.Before,
					"completions", p.Completions, "tokens", p.CompletionTokens, "slots_active", p.Active, "waiting",
					p.Waiting)
			}
		}
	}()
	w.stops = append(w.stops, func() { cancel(); <-done })
}

// endSeries ends the time series, if there is one.
func (w *observer) endSeries(result string) {
	if w.series == nil {
		return
	}
	if err := w.series.Close(result); err != nil {
		w.log.Warn("the time series is not whole", "err", err)
	}
	w.series = nil
}

// close ends the watching; result says how the run ended.
func (w *observer) close(result string) {
	w.endSeries(result)
	if result != "" {
		p := w.run.Now()
		w.log.Info("run ended", "result", result, "rows", p.Rows, "rows_with_errors", p.RowsWithErrors, "rows_before",
			p.Before, "tokens", p.CompletionTokens)
	}
	for _, stop := range slices.Backward(w.stops) {
		stop()
	}
}

// resultOf says in a word how a run ended.
func resultOf(err error) string {
	var exit *exitError
	switch {
	case err == nil, errors.As(err, &exit) && exit.code == exitPartial:
		return "finished"
	case exit != nil && exit.code == exitInterrupted:
		return "interrupted"
	}
	return storage.Scrub(err.Error())
}
