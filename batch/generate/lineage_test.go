package generate

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/engine"
)

// Reading waits while too much is in flight, but not while rows can continue.
func TestRowsThatGoOnComeFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte("{\"prompt\": \"x\"}\n"+"{\"prompt\": \"x\", \"parent\": 0}\n"+
		"{\"prompt\": \"x\"}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	reader, err := promptset.Open(t.Context(), []string{file})
	if err != nil {
		t.Fatal(err)
	}
	graph, err := lineage.Read(t.Context(), reader, 3)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := lineage.Open[*pendingRow](vfs.NewMem(), "job", journal.Key{}, journal.Options{}, graph,
		func(int64) bool { return true }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(newWrittenRows(), &notes{}, collecting{inFlight: 1, lineage: stage})
	u := &Unit{Out: c, lineage: &unitLineage{Stage: stage}}
	parent, err := c.begin(t.Context(), &promptset.Row{ID: "0"}, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	stage.Begin(0, parent)
	c.inFlight = 2
	child, err := c.begin(t.Context(), &promptset.Row{ID: "1", Index: 1}, 1, false)
	if err != nil || !stage.Wait(1, child) {
		t.Fatal(err, "it does not wait")
	}
	if u.nextContinuation(t.Context(), false) != nil {
		t.Fatal("it goes on before its parent has ended")
	}
	c.inFlight = 1
	begun := make(chan *pendingRow, 1)
	go func() {
		p, err := c.begin(t.Context(), &promptset.Row{ID: "2", Index: 2}, 1, false)
		if err != nil {
			t.Error(err)
		}
		begun <- p
	}()
	refusal := &engine.Completion{Request: &engine.Request{}, Err: engine.ErrEmptyPrompt}
	if err := c.add(parent, refusal); err != nil {
		t.Fatal(err)
	}
	if p := <-begun; p != nil {
		t.Errorf("%+v is begun", p)
	}
	if u.nextContinuation(t.Context(), true) != child || u.nextContinuation(t.Context(), true) != nil {
		t.Error("another row goes on")
	}
}
