package versions

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// A note is read as it was written, and is none if it was cut anywhere but between names. A completion is no note, nor
// is a note a completion.
func TestNotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Note{Generation: rapid.IntRange(0, 1<<20).Draw(t, "generation"),
			First: rapid.IntRange(0, 1<<20).Draw(t, "first"), Version: rapid.String().Draw(t, "version"),
			Names: rapid.SliceOf(rapid.String()).Draw(t, "names")}
		b := n.AppendBinary(nil)
		if got, ok := Parse(b); !ok || !reflect.DeepEqual(got, n) {
			t.Fatalf("%+v, %t, want %+v", got, ok, n)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if got, ok := Parse(b[:cut]); ok && len(got.Names) >= len(n.Names) {
			t.Fatalf("cut at %d it is %+v", cut, got)
		}
		if _, err := completion.GenerationOf(b); err == nil {
			t.Fatal("a note is a completion")
		}
	})
	r := completion.Result{Generation: 3}
	b, _ := r.AppendBinary(nil)
	if _, ok := Parse(b); ok {
		t.Error("a completion is a note")
	}
}

// A later note of a token replaces those of it and of later ones; a completion that ended is not under way.
func TestUnderWay(t *testing.T) {
	l := NewLog()
	for _, n := range []Note{{1, 0, "a", nil}, {1, 5, "b", []string{"x"}}, {1, 9, "c", nil}, {1, 7, "d", nil},
		{0, 0, "a", nil}, {0, 3, "b", nil}, {0, 0, "b", nil}, {0, 4, "b", nil}, {2, 0, "a", nil}} {
		l.Add(6, n)
	}
	l.Add(5, Note{Version: "e"})
	l.End(6, 2)
	want := []UnderWay{{5, 0, []engine.WeightsRun{{Version: "e"}}}, {6, 0, []engine.WeightsRun{{Version: "b"}}},
		{6, 1, []engine.WeightsRun{{Version: "a"}, {First: 5, Version: "b"}, {First: 7, Version: "d"}}}}
	if got := l.UnderWay(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if names := l.Names("b"); fmt.Sprint(names) != "[]" { // noted again, for the model itself
		t.Errorf("%q", names)
	}
}
