package generate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// slowTool takes its time.
type slowTool struct{ takes time.Duration }

func (s slowTool) Ask(ctx context.Context, _ []byte) ([]byte, error) {
	time.Sleep(s.takes)
	return []byte("done"), nil
}

func (slowTool) Close() error { return nil }

// turnsOf is how many turns a row has: one to five.
func turnsOf(id string) int {
	row, _, _ := strings.Cut(id, "/")
	return 1 + int(seedOf(row)%5)
}

// callsTool writes a call in each turn of a row but the last one.
func callsTool(c *engine.Completion) string {
	turn := 0
	if _, number, later := strings.Cut(c.Request.ID, "/"); later {
		fmt.Sscan(number, &turn)
	}
	if turn+1 < turnsOf(c.Request.ID) {
		return `<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	}
	return "done"
}

// talkingRun runs a job whose rows call a tool, on a virtual clock, and returns the share of the slots' time in which
// they generated: in all, and until the last row was started.
func talkingRun(t testing.TB, rows, slots int, token, takes time.Duration) (busy, before float64, took time.Duration) {
	p := &process.Process{Options: process.Options{}.WithDefaults()}
	job := &spec.Job{Spec: spec.Default()}
	job.Tools, job.ToolCallParser = tools.Settings{Command: "unused"}, "hermes"
	device := &slotSampler{slots: slots, token: token, text: callsTool}
	session := &process.Session{Sampler: device, Release: func() {}, Text: ask.Text{Vocab: 9,
		Encode: func(text string, _ bool) ([]int32, error) { return make([]int32, 1+len(text)%7), nil },
		Render: func(messages []promptset.Message, _ *parameter.Set) (text string, err error) {
			for _, m := range messages {
				text += m.Content + "|"
			}
			return text, nil
		}}}
	g := &Generator{Process: p, Job: job, Session: session, builder: process.NewBuilder(job, session)}
	caller, err := tools.NewCaller(&tools.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	caller.Serve("f", &tools.Tool{Parallel: 64 * slots}, slowTool{takes})
	g.caller = caller
	u := &Unit{process: p, reader: noError{}, builder: g.builder, Rows: newRowQueue(
		func(yield func(*promptset.Row) bool) {
			for i := range rows {
				if !yield(&promptset.Row{Index: int64(i), ID: fmt.Sprint(i), Kind: promptset.KindMessages,
					Messages: []promptset.Message{{Role: "user", Content: "x"}}}) {
					return
				}
			}
			before = device.share(time.Since(start))
		}, nil), Listener: &onlyUnit{progress: p.Progress, active: &g.Active}}
	written := newWrittenRows()
	how := collecting{inFlight: rowsInFlight, window: 2 * 16384, enough: 2 * slots, observer: p.Observer}
	if how.results, err = results.NewMaker(p, job, session, nil, nil); err != nil {
		t.Fatal(err)
	}
	if how.conversing, err = converseUnit(t.Context(), g, u, nil); err != nil {
		t.Fatal(err)
	}
	u.Out = newCollector(written, &notes{}, how)
	g.Active.Track(u)
	if err := g.Generate(t.Context(), emptySource{}); err != nil {
		t.Fatal(err)
	}
	took = time.Since(start)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for i := range rows {
		id := fmt.Sprint(i)
		if text := written.rows[id]; text != "0stop" {
			t.Fatalf("row %d is %q", i, text)
		}
		tokens += turnsOf(id) * lengthOf(id, 0)
	}
	if device.tokens != tokens {
		t.Fatalf("%d tokens were generated, and the rows have %d", device.tokens, tokens)
	}
	return device.share(took), before, took
}

// While tools run, other rows have the slots: with a tool that takes 2 s, turns of 1.4 s or of 0.14 s, and three turns
// on average, slots are busy for more than 95 % of the time until the last row is started. What follows takes as long
// as a few rows of many long turns, and counts the less the more rows a slot has. The clock is virtual: the figures are
// the same on each machine.
func TestToolsWhileOthersGenerate(t *testing.T) {
	for _, c := range []struct {
		name        string
		rows, slots int
		token       time.Duration
		busy        float64 // at least, of all and until the last row was started
		before      float64
	}{
		{"long turns", 2500, 16, 10 * time.Millisecond, 0.95, 0.98},
		{"short turns", 30000, 16, time.Millisecond, 0.95, 0.98},
		{"many slots", 20000, 256, 10 * time.Millisecond, 0.9, 0.95},
		{"as many rows as slots", 16, 16, 10 * time.Millisecond, 0.2, 0},
	} {
		if testing.Short() && c.rows > 5000 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy, before, took := talkingRun(t, c.rows, c.slots, c.token, 2*time.Second)
				t.Logf("slots busy %.1f %%, %.1f %% until the last row was started, %s", 100*busy, 100*before,
					took.Round(time.Second))
				if busy < c.busy || before < c.before {
					t.Errorf("slots were busy for %.3f of the time, want %.3f; %.3f until the last row was started, "+
						"want %.3f", busy, c.busy, before, c.before)
				}
			})
		})
	}
}
