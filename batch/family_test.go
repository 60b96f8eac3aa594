package batch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// The rows that rows go on from are those of a plain model: by id, unless there is none, or several, or a circle.
func TestLineage(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "rows")
		ids, parents := make([]string, n), make([]string, n)
		var text strings.Builder
		for i := range n {
			ids[i] = fmt.Sprint("r", rapid.IntRange(0, 40).Draw(t, "id"))
			if rapid.IntRange(0, 3).Draw(t, "child") > 0 {
				parents[i] = fmt.Sprint("r", rapid.IntRange(0, 40).Draw(t, "parent"))
			}
			fmt.Fprintf(&text, "{\"id\": %q, \"parent\": %q, \"prompt\": \"x\"}\n", ids[i], parents[i])
		}
		file := filepath.Join(dir, "in.jsonl")
		if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		reader, err := promptset.Open(t.Context(), []string{file})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readLineage(t.Context(), reader, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		direct := make([]int64, n)
		for i, parent := range parents {
			at := []int64{noParent}
			if parent != "" {
				at = nil
			}
			for k, id := range ids {
				if id == parent {
					at = append(at, int64(k))
				}
			}
			switch len(at) {
			case 0:
				direct[i] = parentMissing
			case 1:
				direct[i] = at[0]
			default:
				direct[i] = parentAmbiguous
			}
		}
		want := slices.Clone(direct)
		for i := range direct {
			at := direct[i]
			for range n {
				if at == int64(i) {
					want[i] = parentCycle
				}
				if at >= 0 {
					at = direct[at]
				}
			}
		}
		if got == nil {
			if slices.ContainsFunc(parents, func(p string) bool { return p != "" }) {
				t.Fatal("no lineage")
			}
			return
		}
		if !slices.Equal(got.parents, want) {
			t.Fatalf("%v; want %v\n%s", got.parents, want, text.String())
		}
		for i := range n {
			if got.isNamed(int64(i)) != slices.Contains(want, int64(i)) {
				t.Fatalf("row %d is named: %v", i, got.isNamed(int64(i)))
			}
		}
	})
}

// What a row goes on from is the parent's prompt, what is wanted of a completion, and its own prompt in the form that
// it has there: text without what begins one, turns without what begins a conversation.
func TestPromptBehindParent(t *testing.T) {
	b := &requestBuilder{job: &Job{}, session: &Session{Vocab: 300, Config: models.Config{EOS: []int32{9}},
		Encode: func(text string, special bool) (ids []int32, err error) {
			if special {
				ids = append(ids, 256)
			}
			for _, c := range []byte(text) {
				ids = append(ids, int32(c))
			}
			return ids, nil
		},
		Render: func(messages []promptset.Message, _ *parameter.Set) (string, error) {
			text := "BEGIN"
			for _, m := range messages {
				text += fmt.Sprintf("<%s>%s\t", m.Role, m.Content) // a tab, 9, ends a turn
			}
			return text + "<a>", nil
		}}}
	parent := &kin{prompt: []int32{256, 65}, results: []promptset.Result{
		{Generation: 3, TokenIDs: []int32{66, 67}}, {Generation: 4, TokenIDs: []int32{68, 9}},
		{Generation: 5, Err: "not a number"}}}
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		row  promptset.Row
		want string
	}{
		{promptset.Row{Kind: promptset.KindText, Prompt: "x"}, "[256 65 66 67 120]"},
		{promptset.Row{}, "[256 65 66 67]"},
		{promptset.Row{Kind: promptset.KindTokens, TokenIDs: []int32{7}, Parent: promptset.Parent{Length: number(1)}},
			"[256 65 66 7]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(0)}}, "[256 65]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(50)}}, "[256 65 66 67]"},
		// An answer that was cut is closed as the template does, one that ends with the same token is not closed twice.
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}}},
			"[256 65 66 67 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}},
			Parent: promptset.Parent{Generation: number(4)}}, "[256 65 68 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(5)}}, "generation 5 of parent \"p\" has an error"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(2)}}, "has generations 3 to 5"},
	} {
		c.row.Parent.ID = "p"
		got, err := b.prompt(&c.row, parent)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%+v: %v %v; want %s", c.row, got, err, c.want)
		}
	}
	failed := &kin{results: []promptset.Result{{Err: "bad"}}}
	child := &promptset.Row{Parent: promptset.Parent{ID: "p", Generation: number(1)}}
	if _, err := b.prompt(child, failed); err == nil || !strings.Contains(err.Error(), `parent "p" has an error`) {
		t.Error(err)
	}
}

// Reading waits while too much is in flight, but not while rows can go on.
func TestRowsThatGoOnComeFirst(t *testing.T) {
	c := newCollector(newWrittenRows(), &notes{}, 1)
	c.family = &family{lineage: &lineage{parents: []int64{noParent, 0, noParent}, named: []uint64{1}},
		failed: map[int64]bool{}, running: map[int64]*pendingRow{}}
	parent, err := c.begin(t.Context(), &promptset.Row{ID: "0"}, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	c.inFlight = 2
	child, err := c.begin(t.Context(), &promptset.Row{ID: "1", Index: 1}, 1, false)
	if err != nil || !c.wait(child) {
		t.Fatal(err, "it does not wait")
	}
	if c.goOn(t.Context(), false) != nil {
		t.Fatal("it goes on before its parent has ended")
	}
	c.inFlight = 1
	begun := make(chan error, 1)
	go func() {
		_, err := c.begin(t.Context(), &promptset.Row{ID: "2", Index: 2}, 1, false)
		begun <- err
	}()
	refusal := &engine.Completion{Request: &engine.Request{}, Err: engine.ErrEmptyPrompt}
	if err := c.add(parent, refusal); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; !errors.Is(err, errGoOn) {
		t.Errorf("begun with %v", err)
	}
	if c.goOn(t.Context(), true) != child || c.goOn(t.Context(), true) != nil {
		t.Error("another row goes on")
	}
}

func FuzzKin(f *testing.F) {
	f.Add(appendKin(nil, &kin{prompt: []int32{1, 300}, results: []promptset.Result{{TokenIDs: []int32{5}}}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKin(b)
		if err != nil {
			return
		}
		again, err := parseKin(appendKin(nil, k))
		if err != nil || !reflect.DeepEqual(k, again) || bytes.Equal(b, nil) {
			t.Errorf("%+v, then %+v (%v)", k, again, err)
		}
	})
}
