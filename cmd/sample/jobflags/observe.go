package jobflags

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
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
)

// Observing are the flags for watching a run from outside, and what they ask for.
type Observing struct {
	Metrics, LogFormat, LogLevel string
}

func (o *Observing) Define(s *pflag.FlagSet) {
	s.StringVar(&o.Metrics, "metrics", "",
		"`ADDRESS` serve /metrics for Prometheus, /healthz and /readyz, such as 127.0.0.1:9090; on this machine only, "+
			"unless the address names another host, such as 0.0.0.0:9090")
	s.StringVar(&o.LogFormat, "log-format", "text",
		"`FORMAT` log format on standard error: text, or json (for programs; with --progress auto, progress is logged "+
			"too)")
	s.StringVar(&o.LogLevel, "log-level", "",
		"`LEVEL` minimum level of the log: debug (each device call), info, warn or error (default: warn; info with "+
			"--log-format json, debug with --debug)")
}

func (o *Observing) Check() error {
	if !slices.Contains([]string{"text", "json"}, o.LogFormat) {
		return fmt.Errorf("--log-format is %q, but must be text or json", o.LogFormat)
	}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, o.LogLevel) {
		return fmt.Errorf("--log-level is %q, but must be debug, info, warn or error", o.LogLevel)
	}
	if o.Metrics != "" {
		if _, _, err := net.SplitHostPort(o.Metrics); err != nil {
			return fmt.Errorf("--metrics is %q, but must be an address such as 127.0.0.1:9090", o.Metrics)
		}
	}
	return nil
}

// handler writes the log. It writes values that look like URLs without what may be secret in them.
func (o *Observing) handler(w io.Writer, debug bool) slog.Handler {
	level := slog.LevelWarn
	switch {
	case o.LogLevel != "":
		_ = level.UnmarshalText([]byte(o.LogLevel)) // checked
	case debug:
		level = slog.LevelDebug
	case o.LogFormat == "json":
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(storage.Scrub(v))
		case error:
			a.Value = slog.StringValue(storage.Scrub(cli.Message(v)))
		}
		return a
	}}
	var h slog.Handler = slog.NewTextHandler(w, options)
	if o.LogFormat == "json" {
		h = slog.NewJSONHandler(w, options)
	}
	return h
}

// observer receives what a run reports.
type observer struct {
	*observe.Observer
	stops []func()
}

// Observe begins to watch a run: the log, and the metrics if they are asked for.
func (o *Options) Observe(env *cli.Environment) (*observer, error) {
	w := &observer{Observer: &observe.Observer{Run: telemetry.NewRun(), Log: o.Logger(env), Version: cli.QuireVersion(),
		Trace: o.Diagnostics.tracing}}
	before := slog.Default()
	slog.SetDefault(w.Log)
	w.stops = append(w.stops, func() { slog.SetDefault(before) })
	if o.Observing.Metrics != "" {
		address, stop, err := w.Run.Serve(o.Observing.Metrics, w.Log)
		if err != nil {
			w.Close("")
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		w.stops = append(w.stops, stop)
		w.Log.Info("serving metrics", "address", address)
		if o.Progress != "none" {
			fmt.Fprintf(env.Stderr, "metrics are at http://%s/metrics\n", address)
		}
	}
	if o.Observing.LogFormat == "json" && o.Progress == "auto" {
		o.Progress = "none"
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
		ticker := time.NewTicker(cli.PlainEvery)
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

// Close ends the watching; result reports how the run ended.
func (w *observer) Close(result string) {
	if result != "" {
		p := w.Run.Now()
		w.Log.Info("run ended", "result", result, "rows", p.Rows, "rows_with_errors", p.RowsWithErrors, "rows_before",
			p.Before, "tokens", p.CompletionTokens)
	}
	for _, stop := range slices.Backward(w.stops) {
		stop()
	}
}

// ResultOf returns in one word how a run ended.
func ResultOf(err error) string {
	switch code, _ := cli.CodeOf(err); code {
	case cli.ExitOK, cli.ExitPartial:
		return "finished"
	case cli.ExitInterrupted:
		return "interrupted"
	}
	return storage.Scrub(cli.Message(err))
}

// Logger is for the log of a run, which goes to standard error.
func (o *Options) Logger(env *cli.Environment) *slog.Logger {
	return slog.New(o.Observing.handler(env.Stderr, o.Process.Debug))
}
