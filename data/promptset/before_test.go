package promptset

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// What an output has of its completions is read back exactly: written again, each part has the same bytes.
func TestResultsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	input := filepath.Join(dir, "in.jsonl")
	rows := `{"prompt":"a","x":1}` + "\n" + `{"prompt":"b","x":[1.5,null]}` + "\n" + `{"id":"é","prompt":"c"}` + "\n"
	if err := os.WriteFile(input, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	results := []Result{
		{Text: "x\n\u2028<&>\ufffd", TokenIDs: []int32{1, 2}, Logprobs: []float32{-0.1, inf}, FinishReason: "stop",
			PromptTokens: 2, CompletionTokens: 2, ProcessedLogprobs: []float32{inf, -1e-30},
			TopIDs: [][]int32{{4}, {}}, TopLogprobs: [][]float32{{inf}, {}}, PromptTokenIDs: []int32{7, 8},
			PromptLogprobs: []float32{nan, -2}, PromptTopIDs: [][]int32{{}, {3}},
			PromptTopLogprobs: [][]float32{{}, {-1}}, Reasoning: "why", ToolCalls: "[]"},
		{Generation: 1, FinishReason: "length", PromptTokens: 2, TokenIDs: []int32{}, Logprobs: []float32{},
			ProcessedLogprobs: []float32{}, TopIDs: [][]int32{}, TopLogprobs: [][]float32{}},
		{Generation: 2, Text: "half", TokenIDs: []int32{5}, Logprobs: []float32{math.MaxFloat32}, FinishReason: "error",
			CompletionTokens: 1, Err: "it broke"},
	}
	requested := []string{"processed_logprobs", "top_ids", "top_logprobs", "prompt_token_ids", "prompt_logprobs",
		"prompt_top_ids", "prompt_top_logprobs", "reasoning", "tool_calls"}
	for _, format := range []string{FormatParquet, FormatJSONL} {
		write := func(name string, of func(row *Row) []Result) (published folder.Published, text []byte) {
			reader, err := Open(t.Context(), []string{input})
			if err != nil {
				t.Fatal(err)
			}
			place, err := folder.NewLocal(vfs.OS, filepath.Join(dir, format+name))
			if err != nil {
				t.Fatal(err)
			}
			w, err := NewWriter(place, WriterOptions{Format: format, Schema: reader.Schema(),
				Shape: completion.Shape{Requested: requested},
				Parts: folder.Parts{Rows: 3, PartRows: 3}, Write: []int{0}})
			if err != nil {
				t.Fatal(err)
			}
			for row := range reader.Rows(t.Context()) {
				if err := w.Add(row, of(row)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			text, err = os.ReadFile(filepath.Join(dir, format+name, folder.PartName(0, format)))
			if err != nil {
				t.Fatal(err)
			}
			return place, text
		}
		place, first := write("first", func(*Row) []Result { return results })
		out, err := OpenOutput(place)
		if err != nil {
			t.Fatal(err)
		}
		var read []Result
		for c, err := range out.Rows(t.Context(), out.Parts[0]) {
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, c.Result)
		}
		_, again := write("again", func(row *Row) []Result { return read[3*row.Index : 3*row.Index+3] })
		if !bytes.Equal(first, again) {
			t.Errorf("%s:\n%s\n%s", format, first, again)
		}
	}
}

// A file with new rows at its end is distinguished from one with different rows.
func TestBefore(t *testing.T) {
	for name, c := range map[string]struct {
		file, was, now string
		wrong          string
	}{
		"rows":         {"in.jsonl", `{"prompt":"a"}` + "\n", `{"prompt":"a"}` + "\n" + `{"prompt":"b","x":1}`, ""},
		"no newline":   {"in.jsonl", `{"prompt":"a"}`, `{"prompt":"a"}` + "\n" + `{"prompt":"b"}`, ""},
		"goes on":      {"in.jsonl", `{"prompt":"a"`, `{"prompt":"a"}` + "\n" + `{"prompt":"b"}`, "continues row 0"},
		"no rows":      {"in.csv", "prompt\n", "prompt\na\n", ""},
		"csv":          {"in.csv", "prompt\n\"a\"\n", "prompt\n\"a\"\n\"b\nc\"\n", ""},
		"csv goes on":  {"in.csv", "prompt\na", "prompt\nab\nc\n", "continues row 0"},
		"other header": {"in.csv", "prompt", "prompt,x\na,b\n", "its header is not what it was"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.was), 0o666); err != nil {
			t.Fatal(err)
		}
		was, err := Open(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.now), 0o666); err != nil {
			t.Fatal(err)
		}
		now, err := Open(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		before, err := now.Before(t.Context(), 1, int64(len(c.was)))
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %s", name, err, c.wrong)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.wrong == "":
			a, b := was.Sources()[0], before.Sources()[0]
			if a.Digest != b.Digest || a.Rows != b.Rows || a.Bytes != b.Bytes ||
				was.Schema().String() != before.Schema().String() {
				t.Errorf("%s: %+v, want %+v", name, b, a)
			}
		}
	}
}

// The note of a part matches the existing file, even among two with the same size and end.
func TestNoteOfWhatIsThere(t *testing.T) {
	place, err := folder.NewLocal(vfs.NewMem(), "out")
	if err != nil {
		t.Fatal(err)
	}
	notes := folder.NewNotes()
	end := strings.Repeat("x", folder.SealBytes)
	var first folder.PartSummary
	for i, text := range []string{"a" + end, "b" + end} {
		m := folder.NewMeasured(io.Discard)
		_, _ = m.Write([]byte(text))
		p := folder.PartSummary{Changes: i}
		p.SHA256, p.Seal = m.Sums()
		notes.Add(p)
		if i == 0 {
			first = p
			f, err := place.Create(folder.PartName(0, FormatJSONL))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.Write([]byte(text))
			if err := f.Publish(); err != nil {
				t.Fatal(err)
			}
		}
	}
	there, err := notes.There(place, single.Files([]int{0, 1}, FormatJSONL))
	if err != nil || len(there) != 1 || there[0].SHA256 != first.SHA256 || there[0].Changes != 0 {
		t.Errorf("%+v, %v", there, err)
	}
}
