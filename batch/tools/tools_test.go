package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
)

func TestRegistries(t *testing.T) {
	for text, want := range map[string]string{
		`{"f": {"command": "x", "timeout": "3s", "memory": "1GiB", "max_output": 7, "parallel": 2, "idempotent": true,
			"definition": {"type": "function", "function": {"name": "f"}}}}`: "",
		`{"f": {"url": "http://[::1]:3/x"}, "g": {"url": "https://localhost/x"}}`: "",
		`{"f": {"url": "https://a.example/x", "remote": true}}`:                   "",
		`[]`:                                  "is no registry of tools: json: cannot unmarshal array into Go value of type tools.Registry",
		`{}`:                                  "has no tools",
		`{} {}`:                               "is no registry of tools: there is more after the object",
		`{"f": null}`:                         `has the tool "f": it is null; give it a command or a url`,
		`{"f": {"command": "x", "url": "y"}}`: `has the tool "f": give it a command or a url, and not both`,
		`{"f": {"url": "localhost:3"}}`:       `has the tool "f": its url "localhost:3" is none of http:// or https://`,
		`{"f": {"url": "http://127.0.0.1.example/"}}`: `has the tool "f": its url "http://127.0.0.1.example/" is not of ` +
			`this machine: give one at localhost, or "remote": true if calls may go there`,
		`{"f": {"url": "http://localhost/", "memory": 3}}`: `has the tool "f": memory is for processes of a command, and ` +
			`it has a url: leave memory out`,
		`{"f": {"command": "x", "remote": true}}`: `has the tool "f": remote is for a url, and it has a command: leave ` +
			`remote out`,
		`{"f": {"command": "x", "parallel": -1}}`: `has the tool "f": parallel is -1, but must be above 0`,
		`{"f": {"command": "x", "timeout": 3}}`: `is no registry of tools: 3 is no time: write text with a unit, such as ` +
			`"10s"`,
		`{"f": {"command": "x", "memory": "much"}}`: `is no registry of tools: "much" is no size: write it as "64KiB" or ` +
			`"512MiB"`,
		`{"f": {"command": "x", "definition": {"name": "f"}}}`: `has the tool "f": its definition is not of the form ` +
			`{"type": "function", "function": {...}}`,
		`{"f": {"command": "x", "definition": {"type": "function", "function": {"name": "g"}}}}`: `has the tool "f": its ` +
			`definition has the name "g": give it the same`,
	} {
		r, err := ParseRegistry(text)
		if err != nil && err.Error() != want || err == nil && want != "" {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
		if err == nil && r["f"].Timeout == 0 {
			t.Errorf("%s has no limits", text)
		}
	}
}

// The identity of a job has all of a registry but its limits, in any order.
func TestIdentity(t *testing.T) {
	of := func(registry string) string {
		b, err := json.Marshal((&Settings{Registry: registry}).Identity())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	was := of(`{"f": {"command": "x"}, "g": {"url": "http://localhost/", "idempotent": true}}`)
	if now := of(`{"g": {"idempotent": true, "url": "http://localhost/", "timeout": "3s", "parallel": 3},` +
		`"f": {"command": "x", "memory": "1GB"}}`); now != was {
		t.Errorf("%s and %s", was, now)
	}
	for _, other := range []string{`{"f": {"command": "x"}}`, `{"f": {"command": "x", "max_output": 3}, ` +
		`"g": {"url": "http://localhost/", "idempotent": true}}`} {
		if of(other) == was {
			t.Errorf("%s has the same identity", other)
		}
	}
	if id := (&Settings{MaxTurns: 3}).Identity(); id != nil {
		t.Errorf("a job without tools has %+v", id)
	}
}

// told is what Submit tells of calls.
type told struct {
	mu      sync.Mutex
	answers map[int]string
}

func (s *told) tell(number int) func(Answer, error) {
	return func(a Answer, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text := a.Content
		if err != nil {
			text = "error: " + err.Error()
		}
		s.answers[number] = text
	}
}

// callAll makes calls and waits for what is told of them.
func callAll(t *testing.T, s *Settings, calls ...Call) map[int]string {
	t.Helper()
	c, err := NewCaller(s)
	if err != nil {
		t.Fatal(err)
	}
	all := &told{answers: map[int]string{}}
	made := c.Begin(nil)
	defer made.Close()
	for i, call := range calls {
		made.Submit(call, NotMade, all.tell(i))
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all.mu.Lock()
		n := len(all.answers)
		all.mu.Unlock()
		if n == len(calls) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("calls have no answers")
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return all.answers
}

// An endpoint gets each call as JSON, and its answer is the body. What is no answer is a failure that the model sees.
func TestEndpoints(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Content-Type"), body)
		case "/text":
			fmt.Fprint(w, `"two\nlines"`)
		case "/long":
			fmt.Fprint(w, strings.Repeat("a", 101))
		case "/moved":
			http.Redirect(w, r, "/text", http.StatusFound)
		case "/late":
			<-r.Context().Done()
		case "/broken":
			panic(http.ErrAbortHandler)
		default:
			http.Error(w, "no such\nthing", http.StatusNotFound)
		}
	}))
	defer server.Close()
	registry := map[string]Tool{}
	for _, path := range []string{"echo", "text", "long", "moved", "late", "broken", "none"} {
		registry[path] = Tool{URL: server.URL + "/" + path}
	}
	text, _ := json.Marshal(registry)
	settings := &Settings{Registry: strings.ReplaceAll(string(text), `"}`, `","max_output":100,"timeout":"200ms"}`)}
	settings.Registry = strings.Replace(settings.Registry, `/echo","max_output":100`, `/echo"`, 1)
	var calls []Call
	want := []string{
		`POST application/json {"id":"c1","name":"echo","arguments":{"a":[1, 2]},"row":"r","generation":2,"turn":3}`,
		"two\nlines", "Error: the tool wrote more than 100 bytes", "Error: the tool answered with status 302: ",
		"Error: the tool gave no answer within 200ms", "Error: the tool can't be reached: ",
		`Error: the tool answered with status 404: no such thing`}
	for _, path := range []string{"echo", "text", "long", "moved", "late", "broken", "none"} {
		calls = append(calls, Call{Place: Place{Row: 1, Generation: 2, Turn: 3}, ID: "c1", Name: path, RowID: "r",
			Arguments: `{"a":[1, 2]}`})
	}
	got := callAll(t, settings, calls...)
	for i := range want {
		if i == 0 && strings.ReplaceAll(got[i], " ", "") == strings.ReplaceAll(want[i], " ", "") {
			continue
		}
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s: %q; want %q", calls[i].Name, got[i], want[i])
		}
	}
}

// Addresses are checked when an endpoint is called: a name that the registry allows may stand for any.
func TestOtherMachines(t *testing.T) {
	tool := &Tool{URL: "http://192.0.2.1:9/x"}
	tool.limit()
	if _, err := newEndpoint(tool).Ask(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "192.0.2.1:9 is not of this machine") {
		t.Error(err)
	}
}

// fakeTool answers after a while.
type fakeTool struct {
	takes time.Duration
	mu    sync.Mutex
	made  []string
	most  int // at once
	now   int
}

func (f *fakeTool) Ask(ctx context.Context, question []byte) ([]byte, error) {
	f.mu.Lock()
	f.made = append(f.made, string(question))
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.now--; f.mu.Unlock() }()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.takes):
	}
	return []byte("done"), nil
}

func (f *fakeTool) Close() error { return nil }

// callerOf has one tool, f.
func callerOf(t *testing.T, f *fakeTool, tool *Tool) *Caller {
	t.Helper()
	c, err := NewCaller(&Settings{})
	if err != nil {
		t.Fatal(err)
	}
	c.Serve("f", tool, f)
	return c
}

func openLog(t *testing.T, files vfs.FS) *Log {
	t.Helper()
	l, err := OpenLog(files, "out", journal.Key{1}, journal.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Calls run side by side up to a bound. A caller that is closed lets those finish that may not be made again, and has
// their answers in the log; it ends the others, and starts none.
func TestClosedCallers(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			files := vfs.NewMem()
			log, f := openLog(t, files), &fakeTool{takes: time.Second}
			c, all := callerOf(t, f, &Tool{Parallel: 3, Idempotent: idempotent}), &told{answers: map[int]string{}}
			if err := log.Turn(Place{Row: 7}, &completion.Result{}); err != nil {
				t.Fatal(err)
			}
			made := c.Begin(log)
			for i := range 10 {
				made.Submit(Call{Place: Place{Row: 7, Number: i}, Name: "f"}, NotMade, all.tell(i))
			}
			time.Sleep(1500 * time.Millisecond)
			made.Close()
			made.Submit(Call{Name: "f"}, NotMade, all.tell(11))
			if err := errors.Join(c.Close(), log.Close()); err != nil {
				t.Fatal(err)
			}
			finished, underWay := 6, 0
			if idempotent {
				finished, underWay = 3, 3
			}
			if f.most != 3 || len(all.answers) != finished || len(f.made) != 6 {
				t.Errorf("idempotent %v: %d calls at once, %d answers of %d calls", idempotent, f.most,
					len(all.answers), len(f.made))
			}
			h, err := openLog(t, files).HistoryOf(7, 0)
			if err != nil || len(h.Turns) != 1 {
				t.Fatal(h, err)
			}
			states := map[State]int{}
			for i := range 10 {
				states[h.Turns[0].StateOf(i)]++
			}
			if states[Finished] != finished || states[UnderWay] != underWay {
				t.Errorf("idempotent %v: the log has %v", idempotent, states)
			}
			// The next process makes what was not made, and what may be made again.
			c, all = callerOf(t, f, &Tool{Parallel: 9, Idempotent: idempotent}), &told{answers: map[int]string{}}
			made = c.Begin(nil)
			for i := range 10 {
				if state := h.Turns[0].StateOf(i); state != Finished {
					made.Submit(Call{Place: Place{Row: 7, Number: i}, Name: "f"}, state, all.tell(i))
				}
			}
			time.Sleep(time.Hour)
			made.Close()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if len(all.answers) != 10-finished || len(f.made) != 6+10-finished {
				t.Errorf("idempotent %v: %d answers, %d calls", idempotent, len(all.answers), len(f.made))
			}
		})
	}
}

// A call that was under way when a process died is an error of its completion unless it may be made again.
func TestInterruptedCalls(t *testing.T) {
	f := &fakeTool{}
	c, all := callerOf(t, f, &Tool{}), &told{answers: map[int]string{}}
	made := c.Begin(nil)
	made.Submit(Call{Name: "f"}, UnderWay, all.tell(0))
	made.Close()
	if got := all.answers[0]; !strings.HasPrefix(got, `error: a call of the tool "f" was under way when the job was `+
		"interrupted, and is not made again") || len(f.made) > 0 {
		t.Errorf("%s after %d calls", got, len(f.made))
	}
}

// A log has of each completion what a plain model has after the same records, also after a loss of power, which takes
// no call that must survive it.
func TestLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := vfs.NewMem()
		l, err := OpenLog(files, "out", journal.Key{}, journal.Options{SegmentBytes: 300}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		want := map[[2]int]*History{}
		for range rapid.IntRange(0, 40).Draw(t, "records") {
			row, generation := rapid.IntRange(0, 2).Draw(t, "row"), rapid.IntRange(0, 1).Draw(t, "generation")
			h := want[[2]int{row, generation}]
			if h == nil {
				h = &History{}
				want[[2]int{row, generation}] = h
			}
			p := Place{Row: int64(row), Generation: generation, Turn: len(h.Turns) - 1,
				Number: rapid.IntRange(0, 3).Draw(t, "number")}
			kind := rapid.SampledFrom([]string{"turn", "over", "started", "finished", "failed"}).Draw(t, "kind")
			if len(h.Turns) == 0 {
				kind = "over"
			}
			call := &Call{Place: p}
			switch kind {
			case "over", "turn":
				if p.Turn++; kind == "over" {
					*h, p.Turn = History{}, 0
				}
				r := completion.Result{Text: rapid.String().Draw(t, "text"), TokenIDs: []int32{1, 2}}
				err = l.Turn(p, &r)
				h.Turns = append(h.Turns, Turn{r, map[int]bool{}, map[int]Answer{}})
			case "started":
				err = l.started(call, true)
				h.Turns[p.Turn].Started[p.Number] = true
			case "finished":
				a := Answer{rapid.String().Draw(t, "answer"), rapid.Bool().Draw(t, "failed")}
				err = l.finished(call, &a)
				h.Turns[p.Turn].Answers[p.Number] = a
			case "failed":
				err = l.Failed(p)
				h.Failed = true
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = OpenLog(files, "out", journal.Key{}, journal.Options{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for at, h := range want {
			if got, err := l.HistoryOf(int64(at[0]), at[1]); err != nil || !reflect.DeepEqual(got, *h) {
				t.Fatalf("row %d, generation %d: %+v, %v; want %+v", at[0], at[1], got, err, *h)
			}
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add([]byte{turnRecord, 0, 0, 0, 1, 0})
	f.Add([]byte{startedRecord, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		h := History{Turns: []Turn{{Started: map[int]bool{}, Answers: map[int]Answer{}}}}
		_ = h.add(b, 0)
	})
}

// A command has its answers in the order of its calls, and each process one call at a time.
func TestCommands(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	s := &Settings{Command: `while IFS= read -r x; do echo "$x" >>` + asked + `; echo "$x"; done`, Processes: 3}
	var calls []Call
	for i := range 20 {
		calls = append(calls, Call{Place: Place{Number: i}, ID: fmt.Sprint(i), Name: "f", Arguments: "no JSON"})
	}
	for i, answer := range callAll(t, s, calls...) {
		if answer != fmt.Sprintf(`{"id":"%d","name":"f","arguments":"no JSON","row":"","generation":0,"turn":0}`, i) {
			t.Errorf("%d: %s", i, answer)
		}
	}
	if b, err := os.ReadFile(asked); err != nil || strings.Count(string(b), "\n") != 20 {
		t.Errorf("%s, %v", b, err)
	}
}

// A job whose tools are all pure, or all idempotent, names none that is not; a pure tool is idempotent, too.
func TestToolsThatAreNot(t *testing.T) {
	for _, c := range []struct {
		settings     Settings
		impure, once string
	}{
		{Settings{}, "", ""},
		{Settings{Command: "x"}, "`tool-command`", "`tool-command`"},
		{Settings{Registry: `{"a": {"command": "x", "pure": true}}`}, "", ""},
		{Settings{Registry: `{"a": {"command": "x", "pure": true}, "b": {"command": "x", "idempotent": true}}`}, `"b"`,
			""},
		{Settings{Registry: `{"a": {"command": "x", "pure": true}, "b": {"command": "x"}}`}, `"b"`, `"b"`},
		{Settings{Registry: `{"a": {"command": "x", "pure": true}}`, Command: "x"}, "`tool-command`",
			"`tool-command`"},
	} {
		impure, isImpure := c.settings.Impure()
		once, isOnce := c.settings.Once()
		if impure.String() != c.impure || isImpure != (c.impure != "") || once.String() != c.once ||
			isOnce != (c.once != "") {
			t.Errorf("%+v: %s is impure, and %s is called once", c.settings, impure, once)
		}
	}
}

// JSON that is a text stands for that text; all else, null too, is the content as it is.
func TestContents(t *testing.T) {
	for answer, want := range map[string]string{`"a\nb"`: "a\nb", `null`: "null", `7`: "7", `{"a": 1}`: `{"a": 1}`,
		`"a`: `"a`, ``: ""} {
		if got, err := contentOf([]byte(answer)); err != nil || got != want {
			t.Errorf("%s: %q, %v", answer, got, err)
		}
	}
}
