package folder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/vfs"
)

// noteOf is the note of a part with the given content.
func noteOf(part int, content string) PartSummary {
	sums := NewMeasured(&strings.Builder{})
	fmt.Fprint(sums, content)
	p := PartSummary{Part: part}
	p.Rows = 1
	p.SHA256, p.Seal = sums.Sums()
	return p
}

// Deviations from the notes are found, wherever the parts are; notes of other machines count.
func TestInspect(t *testing.T) {
	for _, output := range []string{"out", "mem://inspect/out"} {
		folder, err := Open(t.Context(), vfs.NewMem(), output, "", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		notes := NewNotes()
		for part, content := range []string{"whole", "short", "wrong", "swapped one", "swapped two", "no note",
			"elsewhere"} {
			if err := publish(t, folder, PartName(part, JSONL), content); err != nil {
				t.Fatal(err)
			}
			switch content {
			case "short":
				content += "er"
			case "wrong":
				content = "WRONG"
			case "swapped one":
				content = "swapped two"
			case "swapped two":
				content = "swapped one"
			}
			if content != "no note" && content != "elsewhere" {
				notes.Add(noteOf(part, content))
			}
		}
		if err := folder.AddNote(noteOf(6, "elsewhere"), PartName(6, JSONL)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			numbers []int
			enough  bool
		}{{[]int{0}, true}, {[]int{0, 1}, false}, {[]int{0, 5}, false}, {[]int{7}, false}, {nil, true}} {
			enough, err := notes.Tell(folder, single.Files(c.numbers, JSONL))
			if enough != c.enough || err != nil {
				t.Errorf("%s: the notes tell parts %v: %v, %v", output, c.numbers, enough, err)
			}
		}
		notes.Add(noteOf(7, "gone"))
		found, err := Inspect(folder, single.Files([]int{0, 1, 2, 3, 4, 5, 6, 7}, JSONL), notes)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range found.Damaged {
			got = append(got, d.Part.Name+": "+d.What)
		}
		want := []string{
			"part-00001.jsonl: it has 5 bytes, and was written with 7",
			"part-00002.jsonl: its last bytes are not those that were written",
			"part-00003.jsonl: it has the content of part-00004.jsonl",
			"part-00004.jsonl: it has the content of part-00003.jsonl",
			"part-00005.jsonl: there is no note that this job wrote it",
		}
		noted := 1 // the store's
		if output == "out" {
			want, noted = append(want, "part-00006.jsonl: there is no note that this job wrote it"), 0
		}
		if !slices.Equal(got, want) || !slices.Equal(found.Gone, []int{7}) || len(found.Noted) != noted {
			t.Errorf("%s: damaged %q, gone %v, noted %v", output, got, found.Gone, found.Noted)
		}
		if rows := notes.Counts([]int{0, 1, 5, 6}).Rows; rows != int64(2+noted) {
			t.Errorf("%s: %d rows", output, rows)
		}
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// single are parts of one row each.
var single = Parts{Rows: 100, PartRows: 1}
