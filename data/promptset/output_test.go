package promptset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/vfs"
)

// drawResults generates what an engine may return for a row.
func drawResults(t *rapid.T, n int) (all []Result) {
	for g := range n {
		r := Result{Generation: g, FinishReason: "stop", PromptTokens: rapid.IntRange(0, 9).Draw(t, "prompt tokens")}
		if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			r.FinishReason, r.Err = "error", "out of luck"
			all = append(all, r)
			continue
		}
		r.Text = rapid.String().Draw(t, "text")
		r.TokenIDs = rapid.SliceOfN(rapid.Int32Min(0), 0, 4).Draw(t, "tokens")
		r.Logprobs = slices.Repeat([]float32{-0.1}, len(r.TokenIDs))
		r.CompletionTokens = len(r.TokenIDs)
		if rapid.Bool().Draw(t, "scored") {
			drawScores(t, &r)
		}
		all = append(all, r)
	}
	return all
}

// drawScores gives a result what rows have on request.
func drawScores(t *rapid.T, r *Result) {
	lists := func(n int) (ids [][]int32, logprobs [][]float32) {
		width := rapid.IntRange(0, 3).Draw(t, "width")
		ids, logprobs = make([][]int32, n), make([][]float32, n)
		for i := range n {
			ids[i] = slices.Repeat([]int32{int32(i)}, width)
			logprobs[i] = slices.Repeat([]float32{-0.5}, width)
		}
		return ids, logprobs
	}
	r.TopIDs, r.TopLogprobs = lists(len(r.TokenIDs))
	r.ProcessedLogprobs = slices.Repeat([]float32{-0.25}, len(r.TokenIDs))
	r.Embedding = []float32{0.5, float32(r.PromptTokens)}
	r.PromptTokenIDs = slices.Repeat([]int32{3}, r.PromptTokens)
	r.PromptLogprobs = slices.Repeat([]float32{-2}, r.PromptTokens)
	r.PromptTopIDs, r.PromptTopLogprobs = lists(r.PromptTokens)
	if r.PromptTokens > 0 {
		r.PromptLogprobs[0] = float32(math.NaN())
		r.PromptTopIDs[0], r.PromptTopLogprobs[0] = []int32{}, []float32{}
	}
}

// printed is a result as text, with what it has on request if an output has that.
func printed(id string, r *Result, onRequest bool) string {
	s := fmt.Sprintf("%s %d %q %v %v %s %d %d %q", id, r.Generation, r.Text, r.TokenIDs, r.Logprobs, r.FinishReason,
		r.PromptTokens, r.CompletionTokens, r.Err)
	if onRequest {
		s += fmt.Sprint(r.ProcessedLogprobs, r.TopIDs, r.TopLogprobs, r.PromptTokenIDs, r.PromptLogprobs,
			r.PromptTopIDs, r.PromptTopLogprobs, r.TopIDs == nil, r.PromptTopIDs == nil,
			r.Embedding)
	}
	return s
}

func allOnRequest() (names []string) {
	for c := range completion.Columns() {
		if c.OnRequest {
			names = append(names, c.Name)
		}
	}
	return names
}

// What was written is read back: ids, results, digests, the metadata.
func TestOutputReadsBack(t *testing.T) {
	r := open(t, write(t, "x.jsonl",
		strings.Repeat(`{"prompt":"a","logprobs":1,"cumulative_logprob":"x","deep":{"x":[1,2]}}`+"\n", 7)))
	in := rows(t, r)
	meta := map[string]string{"a": "b", "c": ""}
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]string{FormatParquet, FormatJSONL}).Draw(t, "format")
		files := vfs.NewMem()
		place, err := folder.NewLocal(files, "out")
		if err != nil {
			t.Fatal(err)
		}
		var notes []folder.PartSummary
		o := WriterOptions{Format: format, Schema: r.Schema(), Meta: meta, Parts: folder.Parts{Rows: 7, PartRows: 3},
			Write: []int{0, 1, 2},
			Shape: completion.Shape{Requested: rapid.SampledFrom([][]string{nil, {"cumulative_logprob"},
				allOnRequest()}).Draw(t, "columns"),
				Vectors: completion.VectorType{Element: completion.Float32, Dimensions: 2}},
			Publishing: func(p folder.PartSummary) error { notes = append(notes, p); return nil }}
		w, err := NewWriter(place, o)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, row := range in {
			all := drawResults(t, rapid.IntRange(1, 3).Draw(t, "n"))
			for _, r := range all {
				want = append(want, printed(row.ID, &r, len(o.Shape.Requested) > 1))
			}
			if err := w.Add(row, all); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := OpenOutput(folder.OpenLocal(files, "out"))
		if err != nil || len(out.Parts) != 3 {
			t.Fatal(out, err)
		}
		var got []string
		for i, part := range out.Parts {
			c, err := out.Read(context.Background(), part, func(r *Completion) error {
				got = append(got, printed(r.ID, &r.Result, len(o.Shape.Requested) > 1))
				if what := r.Wrong(); strings.Contains(what, "its other columns make it") {
					t.Fatal(what)
				}
				return nil
			})
			if err != nil || c.Damage != "" || c.SHA256 != notes[i].SHA256 || c.Seal != notes[i].Seal ||
				part.Number != i {
				t.Fatalf("%+v: %+v, %v, want %+v", part, c, err, notes[i])
			}
			if format == FormatParquet && !reflect.DeepEqual(c.Meta, meta) {
				t.Fatalf("metadata %v", c.Meta)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("read %q\nwritten %q", got, want)
		}
	})
}

// Parts are in the order of their numbers, also where those have more than five digits; nothing else is a part.
func TestPartsAreInOrder(t *testing.T) {
	files := vfs.NewMem()
	place, err := folder.NewLocal(files, "out")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"part-100001.jsonl", "part-99999.jsonl", "part-1.jsonl", "x.jsonl",
		"part-00009.jsonl", "part-100000.jsonl", "part-00009.jsonl.bak", "part-00009.parquet"} {
		if err := publish(t, place, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	out, err := OpenOutput(folder.OpenLocal(files, "out"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, part := range out.Parts {
		got = append(got, part.Name)
	}
	want := []string{"part-00009.jsonl", "part-00009.parquet", "part-99999.jsonl", "part-100000.jsonl",
		"part-100001.jsonl"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Rows come with their prompts, in any form, from a folder and from single files.
func TestRowsOfAnOutput(t *testing.T) {
	r := open(t, write(t, "x.jsonl", `{"id":"a","prompt":"the prompt"}
{"id":"b","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}
{"id":"c","prompt_token_ids":[65,66]}
{"id":"d"}
`))
	want := []string{"a 0 the prompt", "a 1 the prompt",
		"b 0 system: be brief\nuser: hi", "b 1 system: be brief\nuser: hi",
		"c 0 2 tokens: [65 66]", "c 1 2 tokens: [65 66]", "d 0 (no prompt)"}
	for _, format := range []string{FormatParquet, FormatJSONL} {
		dir := complete(t, r, WriterOptions{Format: format, Meta: map[string]string{"made": "here"}}, 2)
		place, err := OpenOutput(folder.OpenLocal(vfs.OS, dir))
		if err != nil {
			t.Fatal(err)
		}
		if meta, err := place.Meta(); err != nil || meta["made"] != "here" {
			t.Errorf("%s: metadata %v, %v", format, meta, err)
		}
		file := filepath.Join(dir, folder.PartName(0, format))
		for _, out := range []*Output{place, OpenOutputFile(t.Context(), file)} {
			var got []string
			for c, err := range out.Rows(t.Context(), out.Parts[0]) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(c.ID, " ", c.Generation, " ", c.Prompt()))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q", format, got)
			}
			for range out.Rows(t.Context(), out.Parts[0]) {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range place.Rows(ctx, place.Parts[0]) {
			if n++; (n == 2) != errors.Is(err, context.Canceled) {
				t.Errorf("%s: row %d: %v", format, n, err)
			}
			cancel()
		}
		if n != 2 {
			t.Errorf("%s: %d rows after the end of the context", format, n)
		}
	}
}

// A file that is not part of an output is distinguished from a damaged part.
func TestNoCompletions(t *testing.T) {
	good := open(t, write(t, "x.jsonl", `{"prompt":"a"}`+"\n"))
	dir := complete(t, good, WriterOptions{Format: FormatParquet}, 1)
	part := filepath.Join(dir, folder.PartName(0, FormatParquet))
	none := func(name string) error {
		out := OpenOutputFile(t.Context(), name)
		for _, err := range out.Rows(t.Context(), out.Parts[0]) {
			return err
		}
		return nil
	}
	for name, text := range map[string]string{
		"in.jsonl": `{"prompt":"a","id":"b","finish_reason":"x"}`, "in.jsonl.gz": "\x1f\x8b", "in.jsonl.zst": ""} {
		if err := none(write(t, name, text)); !errors.Is(err, completion.ErrNoCompletions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"cut.parquet": text(t, part)[:100], "line.jsonl": "{", "lines.jsonl": "{}}\n"} {
		if err := none(write(t, name, text)); err == nil || errors.Is(err, completion.ErrNoCompletions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := none(part); err != nil {
		t.Error(err)
	}
	if err := none(filepath.Join(dir, "nothing.parquet")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// For any content of an output's file, reading reports what is wrong and does not fail.
func FuzzReadPart(f *testing.F) {
	r := open(f, write(f, "x.jsonl", `{"prompt":"a"}`))
	for _, format := range []string{FormatParquet, FormatJSONL} {
		dir := complete(f, r, WriterOptions{Format: format, Meta: map[string]string{"a": "b"}}, 2)
		f.Add([]byte(text(f, filepath.Join(dir, folder.PartName(0, format)))), format == FormatParquet)
	}
	f.Fuzz(func(t *testing.T, b []byte, parquet bool) {
		files := vfs.NewMem()
		part := folder.Part{Format: FormatJSONL, Name: folder.PartName(0, FormatJSONL)}
		if parquet {
			part = folder.Part{Format: FormatParquet, Name: folder.PartName(0, FormatParquet)}
		}
		file, _ := files.Create(filepath.Join("out", part.Name))
		file.Write(b)
		out, err := OpenOutput(folder.OpenLocal(files, "out"))
		if err != nil {
			t.Fatal(err)
		}
		check := NewRowCheck(0, 1, nil)
		c, err := out.Read(context.Background(), part, func(r *Completion) error {
			check.Add(r.ID, &r.Result)
			r.Prompt()
			return nil
		})
		check.Finish()
		if err != nil || c.Bytes != int64(len(b)) {
			t.Fatal(c, err)
		}
		for _, err := range out.Values(context.Background(), part, []string{"id", "generation", "error"}) {
			if err != nil {
				break
			}
		}
	})
}

// Rows as they are to be are right; with one lost, doubled, moved or renamed they are not.
func TestRowCheck(t *testing.T) {
	type line struct {
		id string
		r  Result
	}
	rapid.Check(t, func(t *rapid.T) {
		var due []WantedRow
		var lines []line
		for i := range rapid.IntRange(1, 5).Draw(t, "rows") {
			row := &Row{Index: int64(i), ID: fmt.Sprint("id", i/rapid.IntRange(1, 2).Draw(t, "ids"))}
			w := WantedRow{Row: row, First: rapid.IntRange(0, 3).Draw(t, "first"), N: rapid.IntRange(1, 4).Draw(t, "n")}
			if rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
				row.Err, w.First, w.N = row.Error("bad"), 0, 2
				lines = append(lines, line{row.ID, Result{FinishReason: "error", Err: "bad"}})
			} else {
				for g := range w.N {
					lines = append(lines,
						line{row.ID, Result{Generation: w.First + g, FinishReason: "stop", PromptTokens: 5}})
				}
			}
			due = append(due, w)
		}
		check := func(lines []line, known bool) (string, *RowCheck) {
			left := due
			next := func() (w WantedRow, ok bool) {
				if len(left) == 0 {
					return w, false
				}
				w, left = left[0], left[1:]
				return w, true
			}
			if !known {
				next = nil
			}
			c := NewRowCheck(0, int64(len(due)), next)
			for _, l := range lines {
				r := l.r
				c.Add(l.id, &r)
			}
			return c.Finish(), c
		}
		for _, known := range []bool{true, false} {
			if what, _ := check(lines, known); what != "" {
				t.Fatalf("known %v: %s", known, what)
			}
		}
		_, c := check(lines, true)
		if c.Summary.Rows != int64(len(due)) || c.Differs(c.Summary) != "" {
			t.Fatalf("%d rows of %d: %s", c.Summary.Rows, len(due), c.Differs(c.Summary))
		}
		broken := slices.Clone(lines)
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		switch what := rapid.SampledFrom([]string{"lost", "doubled", "id", "generation", "reason", "tokens"}).Draw(t,
			"fault"); what {
		case "lost":
			broken = slices.Delete(broken, i, i+1)
		case "doubled":
			broken = slices.Insert(broken, i, broken[i])
		case "id":
			broken[i].id += "x"
		case "generation":
			if broken[i].r.Err != "" {
				return // of a row that can't be run it means nothing
			}
			broken[i].r.Generation += 100
		case "reason":
			broken[i].r.FinishReason = "enough"
		case "tokens":
			broken[i].r.CompletionTokens++
		}
		if what, _ := check(broken, true); what == "" {
			t.Fatalf("nothing is wrong with %v of %v", broken, due)
		}
	})
}

// Keys in any order, as jq and data frames write them, are read as they were; other lines are named by their numbers.
func TestOutputInAnotherOrder(t *testing.T) {
	r := open(t, write(t, "in.jsonl", `{"id":7,"prompt":"a","reasoning":5,"text":"mine","top_ids":"x"}`+"\n"+
		`{"prompt":"b","text":"yours"}`+"\n"))
	part := text(t, filepath.Join(complete(t, r, WriterOptions{Format: FormatJSONL}, 2), "part-00000.jsonl"))
	read := func(t interface{ Fatal(...any) }, text string) (all []string, err error) {
		_, err = readPart(FormatJSONL, strings.NewReader(text), int64(len(text)), 0, func(c *Completion) error {
			all = append(all, printed(c.ID, &c.Result, false)+c.Prompt())
			return nil
		})
		return all, err
	}
	want, err := read(t, part)
	if err != nil || len(want) != 4 {
		t.Fatal(want, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var moved strings.Builder
		for line := range strings.Lines(part) {
			all, err := jsonvalue.ParseRow([]byte(strings.TrimSpace(line)))
			if err != nil {
				t.Fatal(err)
			}
			var pairs []string
			for _, m := range rapid.Permutation(all).Draw(t, "keys") {
				if m.Key == "id" && rapid.Bool().Draw(t, "number") {
					m.Raw = bytes.Trim(m.Raw, `"`)
				}
				pairs = append(pairs, fmt.Sprintf("%q:%s", m.Key, m.Raw))
			}
			moved.WriteString("{" + strings.Join(pairs, ",") + "}\n")
		}
		if got, err := read(t, moved.String()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v\ngot  %q\nwant %q\nof\n%s", err, got, want, moved.String())
		}
	})
	lines := strings.SplitAfter(part, "\n")
	lines[1] = "\n\n" + strings.Replace(lines[1], `"generation"`, `"generations"`, 1)
	if _, err := read(t, strings.Join(lines, "")); err == nil || err.Error() != "line 4: generation is missing" {
		t.Error(err)
	}
}
