package promptset

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quire/quire/data/storage"
)

// upload puts the files below a folder under the same paths into a bucket.
func upload(t *testing.T, dir, bucket string) {
	t.Helper()
	files, err := storage.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := storage.Put(t.Context(), storage.Join(bucket, strings.TrimPrefix(f.Name, dir+"/")),
			bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
}

// Objects give the rows that local files of the same content give, in the same order, from the start and from the
// middle.
func TestObjectsAreReadAsFilesAre(t *testing.T) {
	paths := manyRows(t)
	dir := paths[0]
	// Hidden files, and outputs of jobs.
	for _, name := range []string{"_hidden.jsonl", "sub/.x/y.jsonl", "notes.txt", "sub/out/_job/job.json",
		"sub/out/part-00000.jsonl", "sub/out/lang=en/part-00001.jsonl", "copied/_meta.json",
		"copied/part-00000.jsonl"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{\"prompt\":\"no\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const bucket = "mem://promptset/data?unused=1"
	upload(t, dir, bucket)
	for _, pattern := range []string{"", "*.parquet", "[a-c].*", "*", "?.*"} {
		local, err := Open(t.Context(), []string{filepath.Join(dir, pattern)})
		if err != nil && pattern != "*" {
			t.Fatal(pattern, err)
		}
		remote, remoteErr := OpenFrom(t.Context(), Anywhere(), []string{storage.Join(bucket, pattern)})
		if (err == nil) != (remoteErr == nil) {
			t.Fatalf("%q: %v, want %v", pattern, remoteErr, err)
		}
		if err != nil {
			continue // a file that is none of prompts is as wrong there as here
		}
		if a, b := local.NumRows(), remote.NumRows(); a != b || a == 0 ||
			local.Schema().String() != remote.Schema().String() {
			t.Fatalf("%q: %d rows, want %d", pattern, b, a)
		}
		for _, from := range []int64{0, local.NumRows() / 2} {
			want := []*Row{}
			for row := range local.Range(t.Context(), from, local.NumRows()) {
				want = append(want, row)
			}
			i := 0
			for row := range remote.Range(t.Context(), from, remote.NumRows()) {
				w := want[i]
				if strings.TrimPrefix(row.File, "mem://promptset/data/") != strings.TrimPrefix(w.File, dir+"/") {
					t.Fatalf("row %d is of %s, want %s", i, row.File, w.File)
				}
				if row.Prompt == "no" {
					t.Fatalf("%q: a row of %s", pattern, row.File)
				}
				row.File = w.File
				if row.Err != nil && w.Err != nil {
					row.Err = w.Err
				}
				shareLayout(row, w)
				if !reflect.DeepEqual(row, w) {
					t.Fatalf("row %d is %+v, want %+v", i, row, w)
				}
				i++
			}
			if remote.Err() != nil || i != len(want) {
				t.Fatal(i, len(want), remote.Err())
			}
		}
		for i, s := range remote.Sources() {
			if w := local.Sources()[i]; s.Digest != w.Digest || s.Bytes != w.Bytes ||
				strings.Contains(s.Name, "unused") {
				t.Errorf("%+v, want %+v", s, w)
			}
		}
	}
}

func TestObjectsThatAreNotThere(t *testing.T) {
	upload(t, filepath.Dir(write(t, "a.txt", "x")), "mem://promptset2")
	for name, want := range map[string]string{
		"mem://promptset2/no.jsonl?sig=SECRET":  "mem://promptset2/no.jsonl: there is no such file or folder",
		"mem://promptset2/*.jsonl?sig=SECRET":   "mem://promptset2/*.jsonl: no file matches",
		"mem://promptset2/[.jsonl?sig=SECRET":   "mem://promptset2/[.jsonl: not a well-formed glob",
		"mem://promptset2/?sig=SECRET":          "mem://promptset2/: the folder has no files named",
		"mem://promptset2/a.txt?sig=SECRET":     "mem://promptset2/a.txt: neither a Parquet file nor",
		"s3://user:SECRET@b/x.jsonl?sig=SECRET": "credentials do not belong",
	} {
		_, err := OpenFrom(context.Background(), Anywhere(), []string{name})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An object that was put again is not what the job started with, even with the same size and rows.
func TestObjectsThatChange(t *testing.T) {
	const name = "mem://promptset3/a.jsonl"
	put := func(text string) {
		t.Helper()
		if err := storage.Put(t.Context(), name, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	put("{\"prompt\":\"a\"}\n")
	r, err := OpenFrom(t.Context(), Anywhere(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	for i, problem := range []string{"", "it was written again since the job started"} {
		n := 0
		for range r.Rows(t.Context()) {
			n++
		}
		if i == 0 && (n != 1 || r.Err() != nil) || i == 1 &&
			(n != 0 || r.Err() == nil || !strings.Contains(r.Err().Error(), problem)) {
			t.Errorf("time %d: %d rows, %v", i, n, r.Err())
		}
		if err := storage.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		put("{\"prompt\":\"b\"}\n")
	}
}

// An output is a folder with a job's state, or with parts and their metadata; the input itself is none.
func TestOutputsAmongInputs(t *testing.T) {
	in := outputsAmong([]string{"_job/job.json", "part-00000.jsonl", "a/b/_job/parts/part-00000.json",
		"a/b/lang=en/part-00000.parquet", "c/_meta.json", "c/part-00000.jsonl", "docs/_meta.json", "docs/a.jsonl",
		"spark/part-00000.parquet"})
	for path, want := range map[string]string{
		"part-00000.jsonl": "", "a/x.jsonl": "", "a/b/x.jsonl": "a/b", "a/b/lang=en/part-00000.parquet": "a/b",
		"a/b/_job/parts/part-00000.json": "a/b", "c/part-00000.jsonl": "c", "docs/a.jsonl": "",
		"spark/part-00000.parquet": "",
	} {
		if got := in(path); got != want {
			t.Errorf("%s is in output %q, want %q", path, got, want)
		}
	}
}
