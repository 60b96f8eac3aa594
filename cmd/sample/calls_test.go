package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// The metrics have what the engine says of its calls.
func TestMetricsOfTheEngine(t *testing.T) {
	run := telemetry.NewRun()
	e, err := engine.New(t.Context(), engine.Config{
		Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 8, PageSize: 16, PrefillTokens: 64,
		MaxModelLen: 160, KVMemory: 1 << 20,
		Observe: func(c engine.Call) { run.Called(telemetry.Call(c)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plan := e.Plan()
	const others = 5 // pages that are never free, so that pages in use are told from none known
	run.Started(telemetry.Start{Slots: plan.MaxSeqs, Pages: plan.Pages + others})
	requests := func(yield func(*engine.Request) bool) {
		for i := range 20 {
			if !yield(&engine.Request{ID: fmt.Sprint(i), Tokens: []int32{1, 2, int32(3 + i)}, N: 1, MaxTokens: 12,
				IgnoreEOS: true, Sampling: sampling.DefaultSettings()}) {
				return
			}
		}
	}
	active, waiting := 0, 0
	for c, err := range e.Run(context.Background(), requests) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c)
		}
		now := run.Now()
		active, waiting = max(active, now.Active), max(waiting, now.Waiting)
	}
	s, p := e.Stats(), run.Now()
	if p.Calls == 0 || int(p.Calls) != s.Calls || int(p.Tokens) != s.DrawnTokens || p.CallSeconds != s.DeviceSeconds ||
		p.Pages != others || active == 0 || waiting == 0 {
		t.Errorf(
			"the engine counted %d calls of %v s and %d tokens, the metrics have %+v, and %d slots and %d waiting "+
				"at most", s.Calls, s.DeviceSeconds, s.DrawnTokens, p, active, waiting)
	}
	at, stop, err := run.Serve("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("quire_steps_total{kind=\"prefill\"} %d\n", s.PrefillSteps),
		fmt.Sprintf("quire_steps_total{kind=\"decode\"} %d\n", s.DecodeSteps),
		fmt.Sprintf("quire_tokens_total %d\n", s.DrawnTokens),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if s.PrefillSteps == 0 || s.DecodeSteps == 0 {
		t.Errorf("%+v", s)
	}
}
