package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCompare(t *testing.T) {
	golden := func() []completion {
		return []completion{{ID: "a", Tokens: []int32{5, 6}, Logprobs: []float64{-1, -2},
			TopIDs: [][]int32{{5, 7}, {6, 8}}, TopLogprobs: [][]float64{{-1, -1.001}, {-2, -3}}}}
	}
	for _, c := range []struct {
		name   string
		change func(made *completion)
		wrong  string // "" if it compares
		same   int
		tied   int
	}{
		{"equal", func(*completion) {}, "", 1, 0},
		{"rounding", func(m *completion) { m.Logprobs[1] += 0.004 }, "", 1, 0},
		{"a tie", func(m *completion) { m.Tokens = []int32{7, 9} }, "", 0, 1},
		{"another token", func(m *completion) { m.Tokens[1] = 8 }, "its log-probability is 1 higher", 0, 0},
		{"an unlikely token", func(m *completion) { m.Tokens[1] = 9 }, "9 is none of the likeliest", 0, 0},
		{"another logprob", func(m *completion) { m.Logprobs[0] -= 0.1 }, "0.1 apart", 1, 0},
		{"fewer tokens", func(m *completion) { m.Tokens = m.Tokens[:1] }, "1 tokens, and 2 in the golden", 0, 0},
		{"another row", func(m *completion) { m.ID = "b" }, "is of id b", 0, 0},
	} {
		made, figures := golden(), comparison{Model: "m"}
		c.change(&made[0])
		err := figures.compare(golden(), made, 0.005)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", c.name, err)
		}
		if figures.Same != c.same || figures.Tied != c.tied {
			t.Errorf("%s: %+v", c.name, figures)
		}
	}
	if err := (&comparison{}).compare(golden(), nil, 1); err == nil {
		t.Error("no completions compare")
	}
}

// A part that fails, hangs or panics in its process is recorded, with its figures, and has no more time than its own.
func TestParts(t *testing.T) {
	s := &session{messages: io.Discard, options: &options{}}
	failed := s.do(t.Context(), part{name: "p", do: func(context.Context, *session) (any, error) {
		return map[string]int{"figure": 1}, errors.New("wrong")
	}}, time.Now().Add(time.Minute))
	if failed.OK || failed.Error != "wrong" || failed.Figures == nil {
		t.Errorf("failed: %+v", failed)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	p := &program{path: sleep}
	late := s.do(t.Context(), part{name: "p", do: func(ctx context.Context, _ *session) (any, error) {
		_, err := p.do(ctx, nil, "100")
		return nil, err
	}}, time.Now().Add(50*time.Millisecond))
	if late.OK || !strings.Contains(late.Error, "it was not done within the 0 s") || late.Seconds > 50 {
		t.Errorf("late: %+v", late)
	}
	if _, err := p.do(t.Context(), nil, "nonsense"); err == nil || !strings.Contains(err.Error(), "exit status 1: ") {
		t.Errorf("a process that fails: %v", err)
	}
}

// A stripped program is smaller, and runs.
func TestStripped(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := copyStripped(&text, self); err != nil {
		t.Fatal(err)
	}
	whole, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	if int64(text.Len()) >= whole.Size() {
		t.Errorf("%d bytes of %d remain", text.Len(), whole.Size())
	}
	stripped := filepath.Join(t.TempDir(), "stripped.test")
	if err := os.WriteFile(stripped, text.Bytes(), 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(stripped, "-test.list", "TestStripped").Output(); err != nil ||
		string(out) != "TestStripped\n" {
		t.Errorf("it printed %q: %v", out, err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := copyStripped(&text, other); err != nil || text.String() != "#!/bin/sh\n" {
		t.Errorf("a script: %q, %v", text.String(), err)
	}
}

// The prompts are the same each time, within the vocabulary of all models that have goldens.
func TestRows(t *testing.T) {
	var texts []string
	for range 2 {
		path := filepath.Join(t.TempDir(), "rows")
		if err := writeRows(path, promptLengths); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Error("the prompts differ")
	}
	lines := json.NewDecoder(strings.NewReader(texts[0]))
	for _, want := range promptLengths {
		var line struct {
			IDs []int `json:"prompt_token_ids"`
		}
		if err := lines.Decode(&line); err != nil || len(line.IDs) != want {
			t.Errorf("%d ids, want %d: %v", len(line.IDs), want, err)
		}
	}
	for _, model := range goldenModels {
		text, err := content.ReadFile("models/" + model + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var s shape
		if err := json.Unmarshal(text, &s); err != nil || s.Tokens < 2048 {
			t.Errorf("%s: a vocabulary of %d: %v", model, s.Tokens, err)
		}
	}
}
