package telemetry

import (
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire/quire/internal/traceformat"
)

// A trace is well formed, with the tracks of a process and of each replica apart.
func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	trace, err := NewTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_700_000_000, 123_456_789)
	at := func(us int) time.Time { return begin.Add(time.Duration(us) * time.Microsecond) }
	var all sync.WaitGroup
	for replica := range 2 {
		all.Go(func() {
			tracks := trace.Replica(replica)
			for i := range 100 {
				tracks.Span("host", "inner", at(10*i+1), at(10*i+2), "rows", i)
				tracks.Span("host", "outer", at(10*i), at(10*i+9))
				tracks.Span("device", "run", at(10*i+5), at(10*i+4)) // a clock that was set back
				tracks.Counter("pages", at(10*i), "free", i, "held", 0.5)
			}
		})
	}
	all.Wait()
	trace.Job().Span("completions", "tokens/s", at(0), at(1), "value", math.Inf(1))
	trace.Job().Apart("publish", at(0), at(5), "part", 1)
	trace.Job().Apart("publish", at(2), at(9))
	end := trace.Job().Begin("completions", "write")
	end("bytes", 5)
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := traceformat.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(read.Named("X", "inner")); n != 200 {
		t.Errorf("there are %d spans", n)
	}
	if outer := read.Named("X", "outer")[0]; *outer.At != 1700000000123456 || *outer.Duration != 9 {
		t.Errorf("a span is %+v", outer)
	}
	if len(read.Tracks) != 5 {
		t.Errorf("the tracks are %v", read.Tracks)
	}
	processes := map[int]bool{}
	for _, e := range read.Named("M", "process_name") {
		processes[*e.Process] = true
	}
	if len(processes) != 3 {
		t.Errorf("the processes are %v", processes)
	}
}

// What is in memory is bounded, and all but the last second is in the file when the process is killed.
func TestTraceOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "trace.json")
		trace, err := NewTrace(path)
		if err != nil {
			t.Fatal(err)
		}
		tracks := trace.Replica(0)
		const spans = 20_000
		for range spans {
			tracks.Span("host", "span", time.Now(), time.Now())
			trace.mu.Lock()
			n := cap(trace.buffer)
			trace.mu.Unlock()
			if n > 2*traceBuffer {
				t.Fatalf("%d bytes are in memory", n)
			}
		}
		time.Sleep(2 * traceEvery)
		synctest.Wait()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		read, err := traceformat.Read(data)
		if err != nil || len(read.Named("X", "span")) != spans {
			t.Errorf("the file of a process that goes on has %d events: %v", len(read.Events), err)
		}
		if err := trace.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A trace that can not be written ends with the error, and nothing else does. Without a trace nothing happens.
func TestTraceThatFails(t *testing.T) {
	if _, err := NewTrace(filepath.Join(t.TempDir(), "none", "trace.json")); err == nil {
		t.Error("a file in no folder was made")
	}
	trace, err := NewTrace("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	trace.Replica(0).Span("host", "span", time.Now(), time.Now())
	if err := trace.Close(); err == nil {
		t.Error("a full disk is no error")
	}
	trace.Replica(0).Span("host", "late", time.Now(), time.Now())
	var none *Trace
	none.Job().Span("host", "span", time.Now(), time.Now())
	none.Job().Apart("span", time.Now(), time.Now())
	none.Job().Counter("n", time.Now(), "v", 1)
	none.Job().Begin("host", "span")()
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkSpan is what an event costs who writes it.
func BenchmarkSpan(b *testing.B) {
	trace, err := NewTrace(filepath.Join(b.TempDir(), "trace.json"))
	if err != nil {
		b.Fatal(err)
	}
	tracks := trace.Replica(0)
	for b.Loop() {
		tracks.Begin("host", "call")("steps", 16, "tokens", 1024)
	}
	if err := trace.Close(); err != nil {
		b.Fatal(err)
	}
}
