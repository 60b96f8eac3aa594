package lineage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// The rows that rows continue are those of a plain model: by id, unless there is none, or several, or a circle.
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
		got, err := Read(t.Context(), reader, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		direct := make([]int64, n)
		for i, parent := range parents {
			at := []int64{None}
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
				direct[i] = missing
			case 1:
				direct[i] = at[0]
			default:
				direct[i] = Ambiguous
			}
		}
		want := slices.Clone(direct)
		for i := range direct {
			at := direct[i]
			for range n {
				if at == int64(i) {
					want[i] = cycle
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
			if got.IsNamed(int64(i)) != slices.Contains(want, int64(i)) {
				t.Fatalf("row %d is named: %v", i, got.IsNamed(int64(i)))
			}
		}
	})
}

func FuzzParent(f *testing.F) {
	f.Add(appendParent(nil, &Parent{Prompt: []int32{1, 300}, Results: []completion.Result{{TokenIDs: []int32{5}}}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseParent(b)
		if err != nil {
			return
		}
		again, err := parseParent(appendParent(nil, k))
		if err != nil || !reflect.DeepEqual(k, again) || bytes.Equal(b, nil) {
			t.Errorf("%+v, then %+v (%v)", k, again, err)
		}
	})
}
