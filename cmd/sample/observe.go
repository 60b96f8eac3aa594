package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/telemetry"
)

// observing are the flags for watching a run from outside, and what they ask for.
type observing struct {
	metrics, logFormat, logLevel string
}

func (o *observing) define(s *pflag.FlagSet) {
	s.StringVar(&o.metrics, "metrics", "",
		"`ADDRESS` serve /metrics for Prometheus, /healthz and /readyz, such as 127.0.0.1:9090; on this machine only, "+
			"unless the address names another host, such as 0.0.0.0:9090")
	s.StringVar(&o.logFormat, "log-format", "text",
		"`FORMAT` log format on standard error: text, or json (for programs; with --progress auto, progress is logged "+
			"too)")
	s.StringVar(&o.logLevel, "log-level", "",
		"`LEVEL` minimum level of the log: debug (each device call), info, warn or error (default: warn; info with "+
			"--log-format json, debug with --debug)")
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

// observer is what a run tells those who watch it.
type observer struct {
	*observe.Observer
	stops []func()
}

// observe begins to watch a run: the log, and the metrics if they are asked for.
func (o *runOptions) observe(env *environment) (*observer, error) {
	w := &observer{Observer: &observe.Observer{Run: telemetry.NewRun(), Log: o.logger(env), Version: quireVersion(),
		Trace: o.diagnostics.tracing}}
	before := slog.Default()
	slog.SetDefault(w.Log)
	w.stops = append(w.stops, func() { slog.SetDefault(before) })
	if o.observing.metrics != "" {
		at, stop, err := w.Run.Serve(o.observing.metrics, w.Log)
		if err != nil {
			w.close("")
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		w.stops = append(w.stops, stop)
		w.Log.Info("serving metrics", "address", at)
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
				p := w.Run.Now()
				w.Log.Info("progress", "rows", p.Rows, "rows_with_errors", p.RowsWithErrors, "rows_before", p.Before,
					"completions", p.Completions, "tokens", p.CompletionTokens, "slots_active", p.Active, "waiting",
					p.Waiting)
			}
		}
	}()
	w.stops = append(w.stops, func() { cancel(); <-done })
}

// close ends the watching; result says how the run ended.
func (w *observer) close(result string) {
	if result != "" {
		p := w.Run.Now()
		w.Log.Info("run ended", "result", result, "rows", p.Rows, "rows_with_errors", p.RowsWithErrors, "rows_before",
			p.Before, "tokens", p.CompletionTokens)
	}
	for _, stop := range slices.Backward(w.stops) {
		stop()
	}
}

// resultOf says in a word how a run ended.
func resultOf(err error) string {
	switch code, _ := codeOf(err); code {
	case exitOK, exitPartial:
		return "finished"
	case exitInterrupted:
		return "interrupted"
	}
	return storage.Scrub(err.Error())
}

// logger is for the log of a run, which goes to standard error.
func (o *runOptions) logger(env *environment) *slog.Logger {
	return slog.New(o.observing.handler(env.stderr, o.process.Debug))
}
