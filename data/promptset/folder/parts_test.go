package folder

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPartNames(t *testing.T) {
	for name, want := range map[string]string{
		"part-00000.parquet": "0 parquet true", "part-00042.jsonl": "42 jsonl true",
		"part-123456.jsonl": "123456 jsonl true",
		"part-000001.jsonl": "1 jsonl false", "part-1.jsonl": "0  false", "part-00000.csv": "0  false",
		".part-00000.jsonl": "0  false", "lang=en/part-00003.jsonl": "3 jsonl true",
		"lang=en/split=a%2Fb/part-00003.parquet": "3 parquet true", "lang/part-00003.jsonl": "0  false",
		"lang=en/x/part-00003.jsonl": "0  false", "=en/part-00003.jsonl": "0  false",
		"_job=1/part-00003.jsonl": "0  false",
		"/part-00003.jsonl":       "0  false", "a=b//part-00003.jsonl": "0  false",
	} {
		part, format, ok := ParsePartName(name)
		if got := fmt.Sprint(part, " ", format, " ", ok); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Parts equal those of a sequential walk through a list of rows: a part ends when it is full, or when the folder
// changes.
func TestPartsInFolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Parts{PartRows: rapid.Int64Range(1, 5).Draw(t, "part rows")}
		var folders, of []string
		var rows []int64
		for range rapid.IntRange(0, 8).Draw(t, "inputs") {
			folder := rapid.SampledFrom([]string{"", "a=1", "a=2", "a=1/b=2"}).Draw(t, "folder")
			n := rapid.IntRange(0, 12).Draw(t, "rows")
			folders, rows = append(folders, folder), append(rows, int64(n))
			of = append(of, slices.Repeat([]string{folder}, n)...)
		}
		of = of[:rapid.IntRange(0, len(of)).Draw(t, "limit")]
		p.Rows = int64(len(of))
		p = p.In(folders, rows)

		type part struct {
			from, to int64
			name     string
		}
		var all []part
		for row, folder := range of {
			last := len(all) - 1
			if last < 0 || all[last].to-all[last].from == p.PartRows || of[row-1] != folder {
				last++
				all = append(all, part{int64(row), 0, path.Join(folder, PartName(last, JSONL))})
			}
			all[last].to = int64(row) + 1
			if p.Of(int64(row)) != last {
				t.Fatalf("row %d is in part %d, not %d", row, p.Of(int64(row)), last)
			}
		}
		if len(of) == 0 {
			all = []part{{0, 0, p.Name(0, JSONL)}}
		}
		if p.Count() != len(all) {
			t.Fatalf("%d parts, want %d", p.Count(), len(all))
		}
		for i, want := range all {
			from, to := p.Range(i)
			if got := (part{from, to, p.Name(i, JSONL)}); got != want {
				t.Fatalf("part %d is %v, want %v", i, got, want)
			}
			if number, _, ok := ParsePartName(want.name); number != i || !ok {
				t.Fatalf("%s is read as %d, %v", want.name, number, ok)
			}
		}
	})
}
