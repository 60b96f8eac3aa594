package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/promptset"
)

// recorder notes the rows that are added; it fails at row failAt and says that waiting rows wait.
type recorder struct {
	rows    map[string]string
	failAt  string
	waiting int
}

func (r *recorder) Add(row *promptset.Row, results []promptset.Result) error {
	text := ""
	for _, res := range results {
		text += fmt.Sprintf("%d%s ", res.Generation, res.FinishReason)
	}
	r.rows[row.ID] = strings.TrimSpace(text)
	if row.ID == r.failAt {
		return errors.New("disk full")
	}
	return nil
}

func (r *recorder) Pending() (int, int64) { return r.waiting, 0 }

func newRecorder() *recorder { return &recorder{rows: map[string]string{}} }

// Whatever the order of the completions, each row is written once with all of its own, in order of generation.
func TestCollectorGathersRows(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newRecorder()
		c := newCollector(w, 100)
		want := map[string]string{}
		var completions []*engine.Completion
		for i := range 20 {
			row := &promptset.Row{ID: fmt.Sprint(i)}
			if random.IntN(4) == 0 {
				if err := c.fail(t.Context(), row, errors.New("bad")); err != nil {
					t.Fatal(err)
				}
				want[row.ID] = "0error"
				continue
			}
			n := 1 + random.IntN(4)
			p, err := c.begin(t.Context(), row, n)
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			for g := range n {
				completions = append(completions, &engine.Completion{Request: &engine.Request{Tag: p}, Generation: g, FinishReason: "stop"})
				text = append(text, fmt.Sprintf("%dstop", g))
			}
			want[row.ID] = strings.Join(text, " ")
		}
		random.Shuffle(len(completions), func(i, j int) { completions[i], completions[j] = completions[j], completions[i] })
		for _, done := range completions {
			if err := c.add(done); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(w.rows) != fmt.Sprint(want) {
			t.Fatalf("seed %d: wrote %v; want %v", seed, w.rows, want)
		}
		if counts, running := c.counts(); counts.Rows != 20 || running != 0 || counts.Completions != int64(len(completions)) {
			t.Fatalf("seed %d: counts %+v, %d running", seed, counts, running)
		}
	}
}

// A request that is refused as a whole ends its row with one result; one bad completion of several does not.
func TestCollectorErrors(t *testing.T) {
	w := newRecorder()
	c := newCollector(w, 10)
	add := func(p *pendingRow, g int, err error) {
		t.Helper()
		reason := engine.FinishStop
		if err != nil {
			reason = engine.FinishError
		}
		if err := c.add(&engine.Completion{Request: &engine.Request{Tag: p}, Generation: g, FinishReason: reason, Err: err}); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := c.begin(t.Context(), &promptset.Row{ID: "a"}, 8)
	add(a, 0, fmt.Errorf("%w: 9 tokens", engine.ErrPromptTooLong))
	b, _ := c.begin(t.Context(), &promptset.Row{ID: "b"}, 2)
	add(b, 1, engine.ErrNotANumber)
	add(b, 0, nil)
	if w.rows["a"] != "0error" || w.rows["b"] != "0stop 1error" {
		t.Errorf("wrote %v", w.rows)
	}
	if counts, _ := c.counts(); counts.Rows != 2 || counts.RowsWithErrors != 2 || counts.Completions != 1 || len(c.errors) != 2 {
		t.Errorf("counts %+v, errors %q", counts, c.errors)
	}
}

// Reading waits while too much is in flight, but never for nothing, and the context lets it go.
func TestCollectorBoundsRowsInFlight(t *testing.T) {
	w := newRecorder()
	c := newCollector(w, 2)
	first, _ := c.begin(t.Context(), &promptset.Row{ID: "0"}, 1)
	second, _ := c.begin(t.Context(), &promptset.Row{ID: "1"}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 1)
	go func() {
		_, err := c.begin(ctx, &promptset.Row{ID: "2"}, 1)
		begun <- err
	}()
	finish := func(p *pendingRow) {
		if err := c.add(&engine.Completion{Request: &engine.Request{Tag: p}}); err != nil {
			t.Error(err)
		}
	}
	w.waiting = 1 // the second row waits for the first
	finish(second)
	select {
	case <-begun:
		t.Fatal("a third row was begun while the first one holds the second back")
	case <-time.After(20 * time.Millisecond):
	}
	w.waiting = 0
	finish(first)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	if _, err := c.begin(ctx, &promptset.Row{ID: "3"}, 1); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := c.begin(ctx, &promptset.Row{ID: "4"}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	full := newCollector(&recorder{rows: map[string]string{}, waiting: 100}, 2)
	full.waiting = 100
	if _, err := full.begin(t.Context(), &promptset.Row{ID: "0"}, 1); err != nil { // would hang
		t.Error(err)
	}
}

func TestCollectorStopsAtWriteError(t *testing.T) {
	w := newRecorder()
	w.failAt = "0"
	c := newCollector(w, 4)
	if err := c.fail(t.Context(), &promptset.Row{ID: "0"}, errors.New("bad")); err == nil {
		t.Error("the writer's error is lost")
	}
	if err := c.fail(t.Context(), &promptset.Row{ID: "1"}, errors.New("bad")); err == nil || len(w.rows) != 1 {
		t.Errorf("%v after writing %v", err, w.rows)
	}
}
