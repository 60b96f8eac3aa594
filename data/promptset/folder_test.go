package promptset

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// Several writers that share a folder, each with parts of its own, write what one would; each clears up after itself
// only.
func TestSharedFolder(t *testing.T) {
	const count, lines = 3, 20
	r := open(t, write(t, "x.jsonl", manyLines(lines)))
	in := rows(t, r)
	for _, format := range []string{FormatParquet, FormatJSONL} {
		o := WriterOptions{Format: format, Parts: folder.Parts{Rows: lines, PartRows: 2}, Schema: r.Schema(),
			Meta: map[string]string{"a": "b"}}
		fill := func(folder *folder.Local, mine func(part int) bool) error {
			o := o
			for _, part := range o.Parts.All() {
				if mine(part) {
					o.Write = append(o.Write, part)
				}
			}
			w, err := NewWriter(folder, o)
			if err != nil {
				return err
			}
			for _, row := range in {
				if mine(o.Parts.Of(row.Index)) {
					if err := w.Add(row, results(row, 2)); err != nil {
						return err
					}
				}
			}
			return w.Close()
		}
		all := func(dir string, files vfs.FS) string {
			names, err := files.List(dir)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, name := range names {
				f, err := files.Open(dir + "/" + name)
				if err != nil {
					t.Fatal(err)
				}
				size, _ := f.Size()
				b := make([]byte, size)
				f.ReadAt(b, 0)
				fmt.Fprintf(&text, "%s\n%x\n", name, b)
			}
			return text.String()
		}
		alone, shared := vfs.NewMem(), vfs.NewMem()
		place, err := folder.NewLocal(alone, "out")
		if err == nil {
			err = fill(place, func(int) bool { return true })
		}
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range count {
			wg.Go(func() {
				folder, err := folder.NewShared(shared, "out", fmt.Sprintf("shard-%d", i))
				if err == nil {
					err = fill(folder, func(part int) bool { return part%count == i })
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if all("out", shared) != all("out", alone) {
			t.Errorf("%s: several wrote other files than one", format)
		}
		left := func() string {
			names, _ := shared.List("left")
			return strings.Join(names, " ")
		}
		for _, name := range []string{".part-00000.parquet.tmp-a", ".part-00001.parquet.tmp-b",
			".part-00002.parquet.tmp", "._meta.json.tmp-a"} {
			f, _ := shared.Create("left/" + name)
			f.Close()
		}
		if _, err := folder.NewShared(shared, "left", "a"); err != nil ||
			left() != ".part-00001.parquet.tmp-b .part-00002.parquet.tmp" {
			t.Errorf("a left %s, %v", left(), err)
		}
		if _, err := folder.NewLocal(shared, "left"); err != nil || left() != "" {
			t.Errorf("a run of its own left %s, %v", left(), err)
		}
	}
}
