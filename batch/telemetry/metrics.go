package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the run's figures for Prometheus. Rates are left to the reader:
// rate(quire_completion_tokens_total[1m]).
type metrics struct {
	registry                        *prometheus.Registry
	rows, completions, steps        *prometheus.CounterVec
	promptTokens, tokens, restarts  prometheus.Counter
	kept                            prometheus.Counter
	callSeconds, rowSeconds         prometheus.Histogram
	info                            *prometheus.GaugeVec
	slots, pages, jobRows, jobsDone prometheus.Gauge
}

func newMetrics(r *Run) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	vector := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		m.registry.MustRegister(c)
		for _, v := range values { // exist from the start, so that rates of them do
			c.WithLabelValues(v)
		}
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	histogram := func(name, help string, first float64, n int) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(first, 2, n)})
		m.registry.MustRegister(h)
		return h
	}
	m.rows = vector("quire_rows_total", "Rows finished by this process.", "result", "good", "error")
	m.completions = vector("quire_completions_total", "Completions finished by this process.", "finish_reason", "stop",
		"length", "tool_calls", "error")
	m.promptTokens = counter("quire_prompt_tokens_total", "Prompt tokens of finished rows, each row's once.")
	m.tokens = counter("quire_tokens_total", "Tokens generated, including tokens that are not in a completion.")
	m.kept = counter("quire_completion_tokens_total", "Tokens of completions finished by this process.")
	m.steps = vector("quire_steps_total", "Steps of the model on the device.", "kind", "prefill", "decode")
	m.restarts = counter("quire_device_failures_total", "Failures of the device after which it was started again.")
	m.callSeconds = histogram("quire_call_seconds",
		"Time that the device ran the program in each call, transfers left out.", 0.001, 18)
	m.rowSeconds = histogram("quire_row_seconds", "Time from a row's being taken up to its last completion.", 0.01, 20)
	m.slots = gauge("quire_slots", "Sequences that can decode at once.")
	m.pages = gauge("quire_pages", "Pages of the KV cache.")
	m.jobRows = gauge("quire_job_rows", "Rows of the job.")
	m.jobsDone = gauge("quire_job_rows_before", "Rows of the job that earlier processes finished.")
	m.info = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quire_info", Help: "What runs; always 1."},
		[]string{"version", "model", "backend"})
	m.registry.MustRegister(m.info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	live := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return value()
		}))
	}
	live("quire_slots_active", "Sequences that decode, as of the last call.",
		func() float64 { return float64(r.now.Active) })
	live("quire_requests_waiting", "Requests that wait for a slot, as of the last call.",
		func() float64 { return float64(r.now.Waiting) })
	live("quire_pages_used", "Pages of the KV cache in use, as of the last call.",
		func() float64 { return float64(r.now.Pages) })
	live("quire_seconds_since_last_call", "Time since a call of the device ended; 0 while there is nothing to do.",
		func() float64 {
			if r.lastCall.IsZero() || r.waiting {
				return 0
			}
			return time.Since(r.lastCall).Seconds()
		})
	live("quire_waiting", "1 while there is nothing to do: a worker waits for a unit.", func() float64 {
		if r.waiting {
			return 1
		}
		return 0
	})
	return m
}

func (m *metrics) started(s Start, before int64) {
	m.slots.Set(float64(s.Slots))
	m.pages.Set(float64(s.Pages))
	m.jobRows.Set(float64(s.Rows))
	m.jobsDone.Set(float64(before))
	m.info.WithLabelValues(s.Version, s.Model, s.Backend).Set(1)
}

// stalled is how long a run is healthy without a finished call, and openStalled how long it is while an engine is
// opened: meanwhile programs may be compiled, inputs read and the model fetched.
const (
	stalled     = 5 * time.Minute
	openStalled = 6 * time.Hour
)

// health returns what is wrong; nil if nothing is. A process that waits for work is healthy, with an engine or
// without.
func (r *Run) health() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch quiet, opening := time.Since(r.lastCall), time.Since(r.opening); {
	case r.err != "":
		return fmt.Errorf("the device failed and is being started again: %s", r.err)
	case r.waiting:
		return nil
	case !r.ready && opening > openStalled:
		return fmt.Errorf("the model has been being opened for %s", opening.Round(time.Second))
	case !r.ready:
		return errNotReady
	case quiet > stalled:
		return fmt.Errorf("no call of the device has ended for %s", quiet.Round(time.Second))
	}
	return nil
}

var errNotReady = errors.New("the model is being opened")

// Mux serves /metrics in Prometheus' format, /healthz (200 while the process makes progress, 503 with the reason if
// the device failed or hangs; opening a model is not a fault for six hours) and /readyz (also 503 before the first
// call can be made, unless there is nothing to do).
func (r *Run) Mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r.metrics.registry, promhttp.HandlerOpts{}))
	answer := func(w http.ResponseWriter, err error) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		err := r.health()
		if errors.Is(err, errNotReady) {
			err = nil
		}
		answer(w, err)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, r.health()) })
	return mux
}

// Serve serves the Mux at an address until stop is called. Without a host it listens only on this machine; other
// hosts must be given, such as 0.0.0.0:9090.
func (r *Run) Serve(address string, log *slog.Logger) (bound string, stop func(), err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, fmt.Errorf("%q is not an address: write HOST:PORT, such as 127.0.0.1:9090", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: r.Mux(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return listener.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}, nil
}
