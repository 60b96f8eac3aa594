package promptset

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// single are parts of one row each.
var single = folder.Parts{Rows: 100, PartRows: 1}

// Parts in folders are listed, opened and removed like other parts, locally and in an object store. A folder with its
// own job is another output.
func TestFoldersOfParts(t *testing.T) {
	for _, output := range []string{"out", "mem://folders/out"} {
		files := vfs.NewMem()
		place, err := folder.Open(t.Context(), files, output, "", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"part-00000.jsonl", "a=1/part-00001.jsonl", "a=1/b=x%2Fy/part-00002.jsonl"} {
			if err := publish(t, place, name, name); err != nil {
				t.Fatal(output, err)
			}
		}
		for _, name := range []string{"a=2/_job/job.json", "a=2/part-00003.jsonl", "sub/part-00004.jsonl"} {
			other, err := folder.Open(t.Context(), files, path.Join(output, path.Dir(name)), "", t.TempDir())
			if strings.HasPrefix(output, "mem:") {
				other, err = folder.Open(t.Context(), files, output+"/"+path.Dir(name), "", t.TempDir())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := publish(t, other, path.Base(name), "another's"); err != nil {
				t.Fatal(output, err)
			}
		}
		out, err := OpenOutput(folder.OpenToRead(t.Context(), files, output))
		if err != nil {
			t.Fatal(err)
		}
		want := "[{0 jsonl part-00000.jsonl} {1 jsonl a=1/part-00001.jsonl} {2 jsonl a=1/b=x%2Fy/part-00002.jsonl}]"
		if got := fmt.Sprint(out.Parts); got != want {
			t.Errorf("%s: the parts are %s", output, got)
		}
		for _, part := range out.Parts {
			file, err := out.Open(part.Name)
			if err != nil {
				t.Fatal(output, err)
			}
			text := make([]byte, file.Size())
			if _, err := file.ReadAt(text, 0); string(text) != part.Name {
				t.Errorf("%s: %s is %q, %v", output, part.Name, text, err)
			}
			file.Close()
		}
		if _, err := place.Create("a=1/part-00005.jsonl"); err != nil {
			t.Fatal(output, err)
		}
		if _, err := folder.Open(t.Context(), files, output, "", t.TempDir()); err != nil { // after a kill
			t.Fatal(output, err)
		}
		if names, err := place.Names(); err != nil || slices.ContainsFunc(names,
			func(name string) bool { return strings.Contains(name, ".tmp") }) ||
			slices.Contains(names, "a=1/.part-00005.jsonl.tmp") {
			t.Errorf("%s: unpublished files are among %v, %v", output, names, err)
		}
		if err := place.Clear(); err != nil {
			t.Fatal(output, err)
		}
		if out, err = OpenOutput(place); len(out.Parts) != 0 || err != nil {
			t.Errorf("%s: after Clear there are %v, %v", output, out.Parts, err)
		}
		for _, name := range []string{"a=2/part-00003.jsonl", "sub/part-00004.jsonl"} {
			if file, err := place.Open(name); err != nil {
				t.Errorf("%s: Clear removed another output's %s: %v", output, name, err)
			} else {
				file.Close()
			}
		}
	}
}
