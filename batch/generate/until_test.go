package generate

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// slotSampler is a device whose slots each generate one completion at a time, in the order of the requests. It looks
// ahead as far as the engine does. What a completion costs and whether it is accepted depends on row and generation.
type slotSampler struct {
	slots int
	token time.Duration                     // for one token in one slot
	text  func(c *engine.Completion) string // nil for the generation as text

	mu     sync.Mutex
	busy   time.Duration // of all slots
	tokens int
}

// share returns in which share of some time the slots were generating. A completion counts when it is whole.
func (s *slotSampler) share(of time.Duration) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy.Seconds() / (of.Seconds() * float64(s.slots))
}

func (s *slotSampler) Plan() engine.Plan   { return engine.Plan{MaxSeqs: s.slots, MaxModelLen: 4096} }
func (s *slotSampler) Stats() engine.Stats { return engine.Stats{} }
func (s *slotSampler) Close()              {}

// lengthOf is how many tokens a completion has: a few are ten times as long as most.
func lengthOf(id string, generation int) int {
	random := rand.New(rand.NewPCG(seedOf(id), uint64(generation)))
	return 1 + int(100*math.Exp(random.NormFloat64()*0.8))
}

// accepts reports whether a completion is accepted: some rows are easy, some are hard, and some hopeless.
func accepts(id string, generation int) bool {
	easy := []float64{0.9, 0.6, 0.3, 0.1, 0.02, 0}[seedOf(id)%6]
	return rand.New(rand.NewPCG(seedOf(id), 1<<32+uint64(generation))).Float64() < easy
}

func seedOf(id string) (seed uint64) {
	fmt.Sscan(id, &seed)
	return seed*2654435761 + 12345
}

func (s *slotSampler) Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion,
	error] {
	return func(yield func(*engine.Completion, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		intake, done := make(chan *engine.Completion, 1280), make(chan *engine.Completion)
		go func() {
			defer close(intake)
			for r := range requests {
				for g := r.FirstGeneration; g < r.FirstGeneration+r.N; g++ {
					select {
					case intake <- &engine.Completion{Request: r, Generation: g, FinishReason: engine.FinishStop}:
					case <-ctx.Done():
						return
					}
				}
			}
		}()
		var slots sync.WaitGroup
		for range s.slots {
			slots.Go(func() {
				for c := range intake {
					n := lengthOf(c.Request.ID, c.Generation)
					select {
					case <-time.After(time.Duration(n) * s.token):
					case <-ctx.Done():
						continue
					}
					s.mu.Lock()
					s.busy += time.Duration(n) * s.token
					s.tokens += n
					s.mu.Unlock()
					c.Text, c.Tokens = fmt.Sprint(c.Generation), make([]int32, n)
					if s.text != nil {
						c.Text = s.text(c)
					}
					select {
					case done <- c:
					case <-ctx.Done():
					}
				}
			})
		}
		go func() { slots.Wait(); close(done) }()
		for c := range done {
			if !yield(c, nil) {
				break
			}
		}
		cancel()
		for range done {
		}
	}
}

// slowVerifier takes its time.
type slowVerifier struct{ takes time.Duration }

func (v slowVerifier) Verify(ctx context.Context, c *verdict.Completion) (verdict.Verdict, error) {
	select {
	case <-time.After(v.takes):
	case <-ctx.Done():
		return verdict.Verdict{}, ctx.Err()
	}
	return verdict.Verdict{Accepted: accepts(c.Row.ID, c.Generation)}, nil
}

func (slowVerifier) Close() error { return nil }

type noError struct{}

func (noError) Err() error { return nil }

// judgedRun is what a job of rows that end by verdicts came to.
type judgedRun struct {
	busy   float64 // share of the slots' time in which they generated, until the last row was decided
	vain   float64 // tokens beyond those of an oracle that knows the verdicts, as a share of these
	took   time.Duration
	tokens int
}

// runJudged runs such a job on a virtual clock.
func runJudged(t testing.TB, rows, slots, until, most, processes int, token, takes time.Duration) (run judgedRun) {
	p := &process.Process{Options: process.Options{}.WithDefaults()}
	job := &spec.Job{Spec: spec.Default()}
	job.Accept, job.Sampling.N = verdict.Settings{Regex: ".", Until: until}, most
	device := &slotSampler{slots: slots, token: token}
	session := &process.Session{Sampler: device, Release: func() {}, Text: ask.Text{Vocab: 9,
		Encode: func(string, bool) ([]int32, error) { return []int32{1}, nil }}}
	g := &Generator{Process: p, Job: job, Session: session, builder: process.NewBuilder(job, session)}
	g.judge = verdict.NewJudge(slowVerifier{takes}, processes)
	u := &Unit{process: p, reader: noError{}, builder: g.builder, Rows: newRowQueue(
		func(yield func(*promptset.Row) bool) {
			for i := range rows {
				if !yield(&promptset.Row{Index: int64(i), ID: fmt.Sprint(i), Kind: promptset.KindText, Prompt: "x"}) {
					return
				}
			}
		}, nil), Listener: &onlyUnit{progress: p.Progress, active: &g.Active}}
	written := newWrittenRows()
	how := collecting{inFlight: rowsInFlight, window: max(1, 2*16384/most), enough: 2 * slots, observer: p.Observer}
	var err error
	if how.judging, err = g.judgeUnit(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	u.Out = newCollector(written, &notes{}, how)
	g.Active.Track(u)
	start := time.Now()
	if err := g.Generate(t.Context(), emptySource{}); err != nil {
		t.Fatal(err)
	}
	run.took = time.Since(start)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	oracle := 0
	for i := range rows {
		id, accepted, last := fmt.Sprint(i), 0, 0
		for ; last < most && accepted < until; last++ {
			oracle += lengthOf(id, last)
			if accepts(id, last) {
				accepted++
			}
		}
		text := ""
		for generation := range last {
			text += fmt.Sprintf("%dstop ", generation)
		}
		if written.rows[id]+" " != text {
			t.Fatalf("row %s has %s, and the whole job cut there %s", id, written.rows[id], text)
		}
	}
	run.tokens = device.tokens
	run.busy = device.busy.Seconds() / (run.took.Seconds() * float64(slots))
	run.vain = float64(device.tokens)/float64(oracle) - 1
	return run
}

// With a verifier that takes 200 ms, slots are busy as long as there are rows to start, and little is generated in
// vain, in jobs of all shapes. The clock is virtual: the figures are the same on each machine.
func TestVerdictsWhileOthersGenerate(t *testing.T) {
	for _, c := range []struct {
		name                             string
		rows, slots, until, most, atOnce int
		busy, vain                       float64 // at least, and at most
		token                            time.Duration
	}{
		{"long completions", 800, 64, 4, 64, 16, 0.95, 0.15, 10 * time.Millisecond},
		{"short completions", 800, 64, 4, 64, 160, 0.95, 0.015, time.Millisecond},
		{"the first good one", 1500, 64, 1, 16, 160, 0.95, 0.15, time.Millisecond},
		{"many slots", 1500, 256, 4, 64, 64, 0.9, 0.15, 10 * time.Millisecond},
		{"many slots and rows", 6000, 256, 4, 64, 64, 0.95, 0.15, 10 * time.Millisecond},
		{"fewer rows than slots", 30, 64, 4, 64, 16, 0.2, 0.15, 10 * time.Millisecond},
		{"one row", 1, 64, 4, 64, 16, 0, 0.3, 10 * time.Millisecond},
	} {
		if testing.Short() && c.slots > 64 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := runJudged(t, c.rows, c.slots, c.until, c.most, c.atOnce, c.token, 200*time.Millisecond)
				t.Logf("slots busy %.1f %%, %.1f %% of %d tokens more than an oracle's, %s", 100*run.busy, 100*run.vain,
					run.tokens, run.took.Round(time.Second))
				if run.busy < c.busy || run.vain > c.vain {
					t.Errorf("slots were busy for %.3f of the time, want %.3f; %.3f of the tokens were in vain, want "+
						"at most %.3f", run.busy, c.busy, run.vain, c.vain)
				}
			})
		})
	}
}

// countingVerifier counts what it is asked.
type countingVerifier struct{ asked atomic.Int64 }

func (v *countingVerifier) Verify(context.Context, *verdict.Completion) (verdict.Verdict, error) {
	v.asked.Add(1)
	return verdict.Verdict{}, nil
}

func (*countingVerifier) Close() error { return nil }

// A row that the verdicts of an earlier process decide asks for none of the others; any other row does.
func TestVerdictsOfDecidedRowsAreNotAskedFor(t *testing.T) {
	for _, c := range []struct {
		first completion.Judgment
		asked int64
		wrote int
	}{{completion.Accepted, 0, 1}, {completion.Rejected, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			verifier, w := &countingVerifier{}, newWrittenRows()
			judge := verdict.NewJudge(verifier, 1)
			col := newCollector(w, &notes{}, collecting{inFlight: 10, judging: &judging{judge: judge, slots: 1,
				settings: &verdict.Settings{Command: "x", Until: 1}, told: func(error) {}}})
			p, err := col.begin(t.Context(), &promptset.Row{ID: "a"}, 3, false)
			if err != nil {
				t.Fatal(err)
			}
			col.judgeRow(p, 0, 3)
			if err := col.judgingOf(p).restore([]completion.Result{{Generation: 0, Judgment: c.first, Verdict: "v"},
				{Generation: 1}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := verifier.asked.Load(); got != c.asked || len(w.rows) != c.wrote {
				t.Errorf("asked for %d verdicts, want %d; wrote %v", got, c.asked, w.rows)
			}
			if err := judge.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
