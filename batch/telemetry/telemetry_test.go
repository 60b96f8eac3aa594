package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

var start = Start{Version: "v1", Model: "m", Backend: "b", Rows: 100, Before: 10, Slots: 16, Pages: 64}

func calls(r *Run, n int) {
	for range n {
		r.Called(Call{PrefillSteps: 1, DecodeSteps: 8, Tokens: 50, Seconds: 0.25, Active: 12, Waiting: 3, FreePages: 9,
			FewestFree: 4})
	}
}

func get(t *testing.T, r *Run, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.Mux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestMetrics(t *testing.T) {
	r := NewRun()
	r.Started(start)
	calls(r, 4)
	r.Completed("stop", 8, false)
	r.Completed("length", 12, false)
	r.Finished(Row{ID: "a", Seconds: 2, PromptTokens: 7, Tokens: 20, Completions: 2})
	r.Completed("error", 0, true)
	r.Finished(Row{ID: "b", Seconds: 1, Err: "no prompt"})
	r.Failed(errors.New("out of memory"))
	if _, text := get(t, r, "/metrics"); !strings.Contains(text, "quire_waiting 0\n") {
		t.Error("it waits")
	}
	r.Waiting()
	_, text := get(t, r, "/metrics")
	for _, want := range []string{
		`quire_rows_total{result="good"} 1`, "quire_waiting 1", "quire_seconds_since_last_call 0",
		`quire_rows_total{result="error"} 1`, `quire_completions_total{finish_reason="stop"} 1`,
		`quire_completions_total{finish_reason="error"} 1`, "quire_tokens_total 200", "quire_prompt_tokens_total 7",
		`quire_steps_total{kind="prefill"} 4`, `quire_steps_total{kind="decode"} 32`, "quire_call_seconds_sum 1",
		"quire_call_seconds_count 4",
		"quire_slots 16", "quire_slots_active 12", "quire_requests_waiting 3", "quire_pages 64", "quire_pages_used 55",
		"quire_device_failures_total 1",
		"quire_job_rows 100", "quire_job_rows_before 10", `quire_info{backend="b",model="m",version="v1"} 1`,
		"quire_row_seconds_sum 3", "go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, want+" ") {
			t.Errorf("%s is not there", want)
		}
	}
	if problems, err := testutil.GatherAndLint(r.metrics.registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestHealth(t *testing.T) {
	r := NewRun()
	check := func(when string, healthy, ready int, text string) {
		t.Helper()
		h, _ := get(t, r, "/healthz")
		code, body := get(t, r, "/readyz")
		if h != healthy || code != ready || !strings.Contains(body, text) {
			t.Errorf("%s: %d %d %q", when, h, code, body)
		}
	}
	check("at first", 200, 503, "being opened")
	r.Started(start)
	check("when it runs", 200, 200, "ok")
	r.Failed(errors.New("out of memory"))
	check("when it failed", 503, 503, "out of memory")
	r.Started(start)
	check("when it runs again", 200, 200, "ok")
	r.lastCall = time.Now().Add(-2 * stalled)
	check("when it stands still", 503, 503, "no call")
	r.Waiting()
	check("when there is nothing to do", 200, 200, "ok")
	r.Working()
	check("when there is something again", 200, 200, "ok")
	r.lastCall = time.Now().Add(-2 * stalled)
	check("when it stands still at that", 503, 503, "no call")
	r.Opening()
	check("when another is opened", 200, 503, "being opened")
	r.opening = time.Now().Add(-2 * openStalled)
	check("when that takes too long", 503, 503, "being opened for 12h0m")
	r.Waiting()
	check("when it waits without an engine", 200, 200, "ok")
	r.Working()
	check("when it goes on to open one", 200, 503, "being opened")
	r.Failed(errors.New("out of memory"))
	r.Waiting()
	check("when it waits after a failure", 503, 503, "out of memory")
}

// Without a host only this machine can ask.
func TestServesThisMachineOnly(t *testing.T) {
	r := NewRun()
	at, stop, err := r.Serve(":0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	host, _, _ := net.SplitHostPort(at)
	if !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens at %s", at)
	}
	answer, err := http.Get("http://" + at + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != "ok\n" {
		t.Errorf("%q", text)
	}
	if _, _, err := r.Serve(at, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("an address was served twice")
	}
	if _, _, err := r.Serve("nonsense", slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:9090") {
		t.Error(err)
	}
}

func TestSlowest(t *testing.T) {
	r := NewRun()
	for i := range 200 {
		r.Finished(Row{ID: fmt.Sprint(i), Seconds: float64(i * 7 % 200)})
	}
	if len(r.slowest) != slowestRows {
		t.Fatal(len(r.slowest))
	}
	for i, row := range r.slowest {
		if row.Seconds != float64(199-i) {
			t.Errorf("number %d took %g", i, row.Seconds)
		}
	}
}

// What was written is read; processes follow one another in one file; half a line is passed over.
func TestSeries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for i := range 2 {
		r := NewRun()
		s, err := r.keep(path, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // nothing before the engine is ready
		r.Took(Weights{Version: "a"})
		r.Started(start)
		r.Took(Weights{Name: "step-1", Version: "b"})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 20 {
					calls(r, 1)
					r.Finished(Row{ID: "x", Seconds: 1, Completions: 1, PromptTokens: 5})
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		if err := s.Close([]string{"interrupted", "finished"}[i]); err != nil {
			t.Fatal(err)
		}
		f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		f.WriteString(`{"point":{"s":`)
		f.Close()
	}
	all, err := Read(path)
	if err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	for i, p := range all {
		last := p.Points[len(p.Points)-1]
		if p.Start.Slots != 16 || p.End == nil || p.End.Result != []string{"interrupted", "finished"}[i] ||
			len(p.Slowest) != slowestRows || len(p.Weights) != 2 || p.Weights[1].Name != "step-1" {
			t.Errorf("%+v %+v", p.Start, p.End)
		}
		if last.Rows != 60 || last.Tokens != 3000 || last.Calls != 60 || last.PromptTokens != 300 ||
			math.Abs(last.CallSeconds-15) > 1e-9 {
			t.Errorf("%+v", last)
		}
		most := 0
		for j, point := range p.Points {
			most = max(most, point.Pages)
			if j > 0 && (point.Seconds < p.Points[j-1].Seconds || point.Rows < p.Points[j-1].Rows) {
				t.Error("points go back")
			}
		}
		if most != 60 { // the fewest free pages within a call were 4
			t.Errorf("%d pages at most", most)
		}
	}
}

// Of a process that does one job after the other each has a series of its own, and the metrics are of all.
func TestSeriesOfJobs(t *testing.T) {
	r := NewRun()
	for i, id := range []string{"a", "b"} {
		r.Begin()
		path := filepath.Join(t.TempDir(), "events.jsonl")
		s, err := r.keep(path, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		r.Started(start)
		calls(r, 2)
		r.Finished(Row{ID: id, Seconds: 1})
		if err := s.Close("finished"); err != nil {
			t.Fatal(err)
		}
		all, err := Read(path)
		if err != nil || len(all) != 1 || len(all[0].Slowest) != 1 || all[0].Slowest[0].ID != id {
			t.Fatalf("%+v, %v", all, err)
		}
		if last := all[0].Points[len(all[0].Points)-1]; last.Rows != 1 || last.Calls != 2 || last.Tokens != 100 {
			t.Errorf("%+v", last)
		}
		if _, text := get(t, r, "/metrics"); !strings.Contains(text,
			fmt.Sprintf("quire_tokens_total %d\n", 100*(i+1))) {
			t.Error(text)
		}
	}
}

// A file stays small however long the run.
func TestSeriesIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	synctest.Test(t, func(t *testing.T) {
		r := NewRun()
		r.Started(start)
		s, err := r.keep(path, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(70_000 * time.Second) // of a clock that does not wait
		if err := s.Close("finished"); err != nil {
			t.Error(err)
		}
	})
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all[0].Points); n > 9*pointsAtOnce || n < 100 {
		t.Errorf("%d points", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"start":{"slots":1}}` + "\n" + `{"point":{"s":1}}` + "\n" +
		`{"slowest":[{"id":"a"}],"end":{"result":"finished"}}`))
	f.Add([]byte(`{"point":{}}`))
	f.Add([]byte("{\"start\":{}}\n{\"point\":"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _ := read(bytes.NewReader(data))
		for _, p := range all {
			if len(p.Slowest) > slowestRows {
				t.Error(len(p.Slowest))
			}
		}
	})
}
