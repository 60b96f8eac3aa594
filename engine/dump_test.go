package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
)

// Looking at the tables after each call changes no byte of a completion. What is seen holds the rules, on the device
// and between it and the host; slots hold the requests that run there, and their lengths and queued tokens agree.
func TestDumpsDisturbNothing(t *testing.T) {
	want := wantOfContract(t)
	for name, change := range map[string]func(*engine.Config){
		"roomy": nil,
		"swaps": func(c *engine.Config) { c.KVMemory, c.HostKVMemory = pagesOf(26), 1<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			e := contractEngine(t, change)
			calls, shared, clones, waiting, queued, swapped := int64(0), 0, 0, 0, 0, 0
			back := e.Inspected(func(at engine.Inspection) string {
				if calls++; at.Calls != calls || at.Fault != nil {
					t.Errorf("call %d is inspected as %+v", calls, at)
				}
				d := at.Tables()
				if len(d.Contradictions) > 0 {
					t.Errorf("after call %d: %q", calls, d.Contradictions)
				}
				shared, waiting, swapped = shared+d.Pages.Shared, waiting+len(d.Waiting), swapped+len(d.SwappedOut)
				clones, queued = clones+checkRows(t, d), queued+len(d.Queue)
				return "unused"
			}, nil)
			defer back()
			sameBytes(t, want, collect(t, e, contractRequests()...), true)
			if stats := e.Stats(); int64(stats.Calls) != calls || name == "swaps" && stats.Preemptions == 0 {
				t.Errorf("%d calls were inspected of %+v", calls, stats)
			}
			t.Logf("%d calls, %d shared pages, %d clones, %d waiting, %d queued, %d swapped out", calls, shared, clones,
				waiting, queued, swapped)
			if shared == 0 || waiting == 0 || queued == 0 || name == "swaps" && swapped == 0 {
				t.Error("the job did not come to what this is about")
			}
		})
	}
}

// checkRows compares what a dump says of slots with the requests, and counts clones.
func checkRows(t *testing.T, d *tables.Dump) (clones int) {
	t.Helper()
	requests := map[string]*engine.Request{}
	for _, r := range contractRequests() {
		requests[r.ID] = r
	}
	for _, r := range d.Rows {
		if r.CloneOf != nil {
			clones++
		}
		if r.Kind != tables.Slot || r.Sequence == nil || !r.Used {
			continue
		}
		asked := requests[r.Sequence.Request]
		// What comes back after a swap runs the token that it drew last as one of its prompt.
		if asked == nil || r.PromptLen < len(asked.Tokens) || r.MaxLen != len(asked.Tokens)+asked.MaxTokens ||
			r.Sequence.Generation >= asked.N {
			t.Errorf("row %+v is of request %+v", r, asked)
		}
		if r.QueuedAt != nil && (*r.QueuedAt != r.Length || *r.QueuedNext != int(r.Sequence.Last)) {
			t.Errorf("row %d has %d tokens, the last drawn is %d, and %d is queued at %d", r.Row, r.Length,
				r.Sequence.Last, *r.QueuedNext, *r.QueuedAt)
		}
	}
	return clones
}

// Between runs the tables have the contexts, and nothing else. During a run they are the run's.
func TestTablesBetweenRuns(t *testing.T) {
	e := contextEngine(t, nil)
	c := open(t, e, 1, 2, 3, 4, 5)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	fork(t, c)
	d, err := e.Tables()
	if err != nil || len(d.Rows) != 2 || d.Rows[0].Kind != tables.Context || d.Rows[0].Length != 5 ||
		d.Pages.LargestCount != 2 || len(d.Contradictions) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	var text bytes.Buffer
	if err := e.DumpTables(&text); err != nil || !strings.Contains(text.String(), "contexts: 2 in use, 2 pages") {
		t.Errorf("%v:\n%s", err, &text)
	}
	for c, err := range e.Run(t.Context(), slices.Values([]*engine.Request{greedy("a", []int32{1}, 2)})) {
		if err != nil {
			t.Fatal(c, err)
		}
		if err := e.DumpTables(&text); !errors.Is(err, engine.ErrRunning) {
			t.Errorf("during a run: %v", err)
		}
	}
}

// spans notes what a tracer is told.
type spans struct {
	mu       sync.Mutex
	byTrack  map[string]int
	counters map[string]int
	wrong    []string
}

func (s *spans) Span(track, name string, begin, end time.Time, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTrack[track+"/"+name]++
	if end.Before(begin) || len(args)%2 != 0 {
		s.wrong = append(s.wrong, fmt.Sprint(track, name, begin, end, args))
	}
}

func (s *spans) Counter(name string, _ time.Time, series ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters[name]++
	if len(series) < 2 || len(series)%2 != 0 {
		s.wrong = append(s.wrong, fmt.Sprint(name, series))
	}
}

// A trace has each call with its steps, what the host does between calls, the copies of a run that swaps, and counters
// after each call; and it changes no byte.
func TestTraceOfARun(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory, c.HostKVMemory = pagesOf(26), 1<<20 })
	s := &spans{byTrack: map[string]int{}, counters: map[string]int{}}
	defer e.Inspected(nil, s)()
	sameBytes(t, wantOfContract(t), collect(t, e, contractRequests()...), true)
	calls := e.Stats().Calls
	for _, name := range []string{"host/call", "host/input up", "host/output down", "host/settle", "drain/drain",
		"device/run"} {
		if s.byTrack[name] != calls {
			t.Errorf("%d of %q in %d calls", s.byTrack[name], name, calls)
		}
	}
	for _, name := range []string{"host/take requests", "host/schedule", "host/save pages", "host/load pages",
		"copies down/copy down", "copies up/copy up", "device/save", "device/load"} {
		if s.byTrack[name] == 0 {
			t.Errorf("nothing of %q: %v", name, s.byTrack)
		}
	}
	for name, n := range s.counters {
		if n > calls {
			t.Errorf("counter %q has %d values in %d calls", name, n, calls)
		}
	}
	if len(s.wrong) > 0 || s.counters["pages"] != calls || s.counters["sequences"] != calls {
		t.Errorf("%q, %v", s.wrong, s.counters)
	}
}

var _ schedule.Tracer = (*spans)(nil)
