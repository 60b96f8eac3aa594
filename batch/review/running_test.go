package review

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// unfinished is a job of rows with n completions each, in parts of two rows, of which some are in parts, some in the
// journals of runs and shards, and some nowhere.
type unfinished struct {
	dir     string
	rows, n int
	reader  *promptset.Reader
}

func (u *unfinished) result(row, generation int) promptset.Result {
	return promptset.Result{Generation: generation, Text: fmt.Sprint(row, ".", generation), TokenIDs: []int32{7},
		FinishReason: "stop", PromptTokens: 1, CompletionTokens: 1}
}

// begin writes inputs and job.json. Ids repeat: rows i and i+1 of the same half have one.
func (u *unfinished) begin(t rapid.TB) *jobstate.State {
	var lines strings.Builder
	for i := range u.rows {
		fmt.Fprintf(&lines, "{\"id\":\"id %d\",\"prompt\":\"p%d\"}\n", i/2, i)
	}
	input := filepath.Join(u.dir, "in.jsonl")
	err := os.WriteFile(input, []byte(lines.String()), 0o666)
	if err == nil {
		u.reader, err = promptset.OpenFrom(context.Background(), promptset.Anywhere(), []string{input})
	}
	if err != nil {
		t.Fatal(err)
	}
	source := u.reader.Sources()[0]
	s, err := jobstate.Open(vfs.OS, filepath.Join(u.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(&jobstate.Description{Settings: map[string]any{"format": "jsonl", "rows": u.rows, "part_rows": 2,
		"n": u.n}, Inputs: []jobstate.Input{{Name: input, Bytes: source.Bytes, Rows: source.Rows,
		Digest: source.Digest}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each completion that is in a part or in a journal is there once, in the order of the job, whatever else is there.
func TestEachCompletionOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "review")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		u := &unfinished{dir: dir, rows: rapid.IntRange(1, 6).Draw(t, "rows"), n: rapid.IntRange(1, 2).Draw(t, "n")}
		state := u.begin(t)
		defer state.Close()
		parts := folder.Parts{Rows: int64(u.rows), PartRows: 2}
		published := map[int]bool{}
		for _, part := range parts.All() {
			published[part] = rapid.Bool().Draw(t, "published")
		}
		write(t, u, parts, published)
		want := journals(t, u, state, parts, published)
		out, err := Open(context.Background(), vfs.OS, filepath.Join(dir, "out"), "")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		var got []string
		for c, err := range out.Completions(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %s %s", c.ID, c.Prompt(), c.Text))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		all := !slices.ContainsFunc(parts.All(), func(part int) bool { return !published[part] })
		if p := out.Progress(); (p == nil) != all || p != nil && (p.Of != int64(u.rows*u.n) ||
			p.Completions != int64(len(want))) {
			t.Fatalf("%+v of %d completions", p, len(want))
		}
	})
}

// write publishes parts.
func write(t *rapid.T, u *unfinished, parts folder.Parts, published map[int]bool) {
	folder, err := folder.NewLocal(vfs.OS, filepath.Join(u.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, part := range parts.All() {
		if published[part] {
			numbers = append(numbers, part)
		}
	}
	w, err := promptset.NewWriter(folder, promptset.WriterOptions{Format: "jsonl", Schema: u.reader.Schema(),
		Parts: parts, Write: numbers})
	if err != nil {
		t.Fatal(err)
	}
	for row := range u.reader.Rows(context.Background()) {
		if !published[parts.Of(row.Index)] {
			continue
		}
		var results []promptset.Result
		for g := range u.n {
			results = append(results, u.result(int(row.Index), g))
		}
		if err := w.Add(row, results); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// journals writes completions to the journals of the whole job and of a shard, some to both, and returns what is there
// with the parts.
func journals(t *rapid.T, u *unfinished, state *jobstate.State, parts folder.Parts,
	published map[int]bool) (want []string) {
	shard := filepath.Join(state.Dir(), jobstate.Shard{Index: 1, Count: 3}.Name())
	var to []*journal.Journal
	for _, dir := range []string{state.Dir(), shard} {
		j, _, err := journal.Open(vfs.OS, dir, state.Key(), journal.Options{SegmentBytes: 200}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		to = append(to, j)
	}
	for row := range u.rows {
		for g := range u.n {
			r := u.result(row, g)
			in := rapid.IntRange(0, 3).Draw(t, "in")
			for i, j := range to {
				if in&(1<<i) == 0 {
					continue
				}
				text, err := r.AppendBinary(nil)
				if err == nil {
					err = j.Append(int64(row), text)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if in > 0 || published[parts.Of(int64(row))] {
				want = append(want, fmt.Sprintf("id %d p%d %s", row/2, row, r.Text))
			}
		}
	}
	return want
}

// A job of another program's description, or a damaged one, hides no part.
func TestPartsWithoutAJob(t *testing.T) {
	for _, text := range []string{"{", `{"settings":{}}`} {
		dir := t.TempDir()
		if _, err := writeRows(dir, [][3]any{{"a", 0, "x"}}); err != nil {
			t.Fatal(err)
		}
		job := filepath.Join(dir, jobstate.JobFile)
		if err := os.MkdirAll(filepath.Dir(job), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(job, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := Open(t.Context(), vfs.OS, dir, "")
		if err != nil || len(out.Parts) != 1 || out.Progress() != nil || out.Close() != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
