package generate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// writtenRows notes the rows that are added; it fails at row failAt and reports that waiting rows wait.
type writtenRows struct {
	rows    map[string]string
	failAt  string
	waiting int
}

func (r *writtenRows) Add(row *promptset.Row, results []completion.Result) error {
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

func (r *writtenRows) Pending() (int, int64) { return r.waiting, 0 }

func newWrittenRows() *writtenRows { return &writtenRows{rows: map[string]string{}} }

// notes is a journal that counts.
type notes struct {
	rows []int64
	err  error
}

func (n *notes) Put(row int64, _ []byte) (journal.Position, error) {
	n.rows = append(n.rows, row)
	return journal.Position{}, n.err
}

// failed begins a row that has one result: an error.
func failed(t *testing.T, c *collector, row *promptset.Row, err error) error {
	t.Helper()
	p, beginErr := c.begin(t.Context(), row, 1, false)
	if beginErr != nil {
		return beginErr
	}
	return c.fail(p, err)
}

// Whatever the order of the completions, each row is written once with all of its own, in order of generation.
func TestCollectorGathersRows(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWrittenRows()
		c := newCollector(w, &notes{}, collecting{inFlight: 100})
		want := map[string]string{}
		type completion struct {
			row *pendingRow
			*engine.Completion
		}
		var completions []completion
		for i := range 20 {
			row := &promptset.Row{ID: fmt.Sprint(i)}
			if random.IntN(4) == 0 {
				if err := failed(t, c, row, errors.New("bad")); err != nil {
					t.Fatal(err)
				}
				want[row.ID] = "0error"
				continue
			}
			n := 1 + random.IntN(4)
			p, err := c.begin(t.Context(), row, n, false)
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			for g := range n {
				completions = append(completions, completion{p, &engine.Completion{Request: &engine.Request{},
					Generation: g, FinishReason: "stop"}})
				text = append(text, fmt.Sprintf("%dstop", g))
			}
			want[row.ID] = strings.Join(text, " ")
		}
		random.Shuffle(len(completions), func(i, j int) {
			completions[i], completions[j] = completions[j],
				completions[i]
		})
		for _, done := range completions {
			if err := c.add(done.row, done.Completion); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(w.rows) != fmt.Sprint(want) {
			t.Fatalf("seed %d: wrote %v; want %v", seed, w.rows, want)
		}
		if counts, _, running := c.Counts(); counts.Rows != 20 || running != 0 ||
			counts.Completions != int64(len(completions)) {
			t.Fatalf("seed %d: counts %+v, %d running", seed, counts, running)
		}
	}
}

// A request that is refused as a whole ends its row with one result; one bad completion of several does not.
func TestCollectorErrors(t *testing.T) {
	w := newWrittenRows()
	c := newCollector(w, &notes{}, collecting{inFlight: 10})
	add := func(p *pendingRow, g int, err error) {
		t.Helper()
		reason := engine.FinishStop
		if err != nil {
			reason = engine.FinishError
		}
		if err := c.add(p, &engine.Completion{Request: &engine.Request{}, Generation: g, FinishReason: reason,
			Err: err}); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := c.begin(t.Context(), &promptset.Row{ID: "a"}, 8, false)
	add(a, 0, fmt.Errorf("%w: 9 tokens", engine.ErrPromptTooLong))
	b, _ := c.begin(t.Context(), &promptset.Row{ID: "b"}, 2, false)
	add(b, 1, engine.ErrNotANumber)
	add(b, 0, nil)
	if w.rows["a"] != "0error" || w.rows["b"] != "0stop 1error" {
		t.Errorf("wrote %v", w.rows)
	}
	if counts, _, _ := c.Counts(); counts.Rows != 2 || counts.RowsWithErrors != 2 || counts.Completions != 1 ||
		len(c.errors) != 2 {
		t.Errorf("counts %+v, errors %q", counts, c.errors)
	}
}

// What is missing of a row is asked for in as few requests as there are gaps.
func TestCollectorRequestsWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		have    []int
		want    string
		prompts int
	}{
		{nil, "10+6", 1}, {[]int{10}, "11+5", 1}, {[]int{15}, "10+5", 1}, {[]int{12, 11}, "10+1 13+3", 1},
		{[]int{10, 12, 14}, "11+1 13+1 15+1", 1},
		{[]int{10, 11, 12, 13, 14}, "15+1", 1},
		{nil, "10+3 13+3", 2}, {[]int{10, 15}, "11+2 13+2", 2}, {[]int{13, 14, 15, 11}, "10+1 12+1", 2},
		{[]int{12, 13}, "10+2 14+2", 2},
	} {
		w := newWrittenRows()
		n := &notes{}
		col := newCollector(w, n, collecting{inFlight: 10})
		p, err := col.begin(t.Context(), &promptset.Row{ID: "a", Index: 7}, 6, false)
		if err != nil {
			t.Fatal(err)
		}
		p.requests = []*engine.Request{{ID: "a", FirstGeneration: 10, N: 6}}
		if c.prompts == 2 {
			p.requests = []*engine.Request{{ID: "a", FirstGeneration: 10, N: 3}, {ID: "a", FirstGeneration: 13, N: 3}}
		}
		var done []completion.Result
		for _, g := range c.have {
			done = append(done, completion.Result{Generation: g, FinishReason: "stop"})
		}
		if err := col.restore(p, done); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range col.requests(p) {
			got += fmt.Sprintf(" %d+%d", r.FirstGeneration, r.N)
			if r.ID != "a" {
				t.Errorf("request %+v", r)
			}
			for g := r.FirstGeneration; g < r.FirstGeneration+r.N; g++ {
				if err := col.add(p, &engine.Completion{Request: r, Generation: g, FinishReason: "stop"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if strings.TrimSpace(got) != c.want || w.rows["a"] != "10stop 11stop 12stop 13stop 14stop 15stop" ||
			len(n.rows) != 6-len(c.have) {
			t.Errorf("with %v asked for %s, wrote %s, journaled %v", c.have, got, w.rows["a"], n.rows)
		}
	}
}

// A completion is in the journal before its row is written, and one that can't be is not written either. Refusals are
// not kept.
func TestCollectorJournals(t *testing.T) {
	w := newWrittenRows()
	n := &notes{}
	c := newCollector(w, n, collecting{inFlight: 10})
	p, _ := c.begin(t.Context(), &promptset.Row{ID: "a", Index: 3}, 4, false)
	if err := c.add(p, &engine.Completion{Request: &engine.Request{}, Err: engine.ErrEmptyPrompt}); err != nil ||
		len(n.rows) != 0 || len(w.rows) != 1 {
		t.Errorf("refused: %v, journaled %v, wrote %v", err, n.rows, w.rows)
	}
	n.err = errors.New("disk full")
	p, _ = c.begin(t.Context(), &promptset.Row{ID: "b", Index: 4}, 1, false)
	for range 2 {
		if err := c.add(p, &engine.Completion{Request: &engine.Request{}}); err != n.err || len(n.rows) != 1 ||
			len(w.rows) != 1 || c.failed() != n.err {
			t.Errorf("%v, journaled %v, wrote %v", err, n.rows, w.rows)
		}
	}
}

// Reading waits while too much is in flight, but never for nothing, and the context lets it go.
func TestCollectorBoundsRowsInFlight(t *testing.T) {
	w := newWrittenRows()
	c := newCollector(w, &notes{}, collecting{inFlight: 2})
	first, _ := c.begin(t.Context(), &promptset.Row{ID: "0"}, 1, false)
	second, _ := c.begin(t.Context(), &promptset.Row{ID: "1"}, 1, false)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 1)
	go func() {
		_, err := c.begin(ctx, &promptset.Row{ID: "2"}, 1, false)
		begun <- err
	}()
	finish := func(p *pendingRow) {
		if err := c.add(p, &engine.Completion{Request: &engine.Request{}}); err != nil {
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
	if _, err := c.begin(ctx, &promptset.Row{ID: "3"}, 1, false); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := c.begin(ctx, &promptset.Row{ID: "4"}, 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	full := newCollector(&writtenRows{rows: map[string]string{}, waiting: 100}, &notes{}, collecting{inFlight: 2})
	full.waiting = 100
	if _, err := full.begin(t.Context(), &promptset.Row{ID: "0"}, 1, false); err != nil { // would hang
		t.Error(err)
	}
}

// Rows are started no further from the first that is not written than two parts, but for as many as keep slots busy.
func TestCollectorKeepsRowsTogether(t *testing.T) { synctest.Test(t, collectorKeepsRowsTogether) }

func collectorKeepsRowsTogether(t *testing.T) {
	w := newWrittenRows()
	c := newCollector(w, &notes{}, collecting{inFlight: 1000})
	c.window, c.enough = 6, 2
	var rows []*pendingRow
	begin := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := c.begin(ctx, &promptset.Row{ID: fmt.Sprint(len(rows)), Index: int64(len(rows))}, 1, false)
		if err == nil {
			rows = append(rows, p)
		}
		return err == nil
	}
	finish := func(i int) {
		if w.waiting++; i == 0 { // all that waited are written
			w.waiting = 0
		}
		if err := c.add(rows[i], &engine.Completion{Request: &engine.Request{}}); err != nil {
			t.Fatal(err)
		}
	}
	for begin() {
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows were begun, want two parts of 3", len(rows))
	}
	// The first is long: rows after it continue as long as a slot would be free.
	for i := 1; i < 40; i++ {
		if finish(i); i < 5 == begin() {
			t.Fatalf("row %d, with %d running", len(rows), len(c.running))
		}
	}
	if len(c.running) != 2 {
		t.Fatalf("%d rows run, want 2", len(c.running))
	}
	finish(0)
	n := len(rows)
	for begin() {
	}
	if len(rows) != n+5 {
		t.Errorf("%d rows were begun when the first was written, want 5", len(rows)-n)
	}
}

func TestCollectorStopsAtWriteError(t *testing.T) {
	w := newWrittenRows()
	w.failAt = "0"
	c := newCollector(w, &notes{}, collecting{inFlight: 4})
	if err := failed(t, c, &promptset.Row{ID: "0"}, errors.New("bad")); err == nil {
		t.Error("the writer's error is lost")
	}
	if err := failed(t, c, &promptset.Row{ID: "1"}, errors.New("bad")); err == nil || len(w.rows) != 1 {
		t.Errorf("%v after writing %v", err, w.rows)
	}
}
