package promptset

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// Vectors of all types are read back as they were stored, from Parquet and JSONL. Input columns with names of columns
// of completions keep these names.
func TestVectorsReadBack(t *testing.T) {
	r := open(t, write(t, "x.jsonl",
		`{"prompt":"a","text":"t","finish_reason":"stop","embedding":[1],"truncated":2}`+"\n"+
			`{"prompt":"b","meta":{"deep":[{"x":null}]}}`+"\n"))
	in := rows(t, r)
	rapid.Check(t, func(t *rapid.T) {
		shape := completion.Shape{Task: completion.Embed}
		shape.Vectors.Element = completion.Element(rapid.SampledFrom(completion.Elements()).Draw(t, "element"))
		shape.Vectors.Dimensions = rapid.IntRange(1, 20).Draw(t, "dimensions")
		format := rapid.SampledFrom([]string{FormatParquet, FormatJSONL}).Draw(t, "format")
		files := vfs.NewMem()
		place, err := folder.NewLocal(files, "out")
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(place, WriterOptions{Format: format, Schema: r.Schema(), Shape: shape,
			Meta: map[string]string{"a": "b"}, Parts: folder.Parts{Rows: 2, PartRows: 2}, Write: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		vector := rapid.SliceOfN(rapid.Float32Range(-1, 1), shape.Vectors.Dimensions, shape.Vectors.Dimensions)
		want := []Result{{FinishReason: "stop", PromptTokens: 3, Truncated: rapid.Bool().Draw(t, "truncated"),
			Vector: shape.Vectors.Stored(vector.Draw(t, "vector"))}, {FinishReason: "error", Err: "bad"}}
		for i, row := range in {
			if err := w.Add(row, want[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := OpenOutput(folder.OpenLocal(files, "out"))
		if err != nil {
			t.Fatal(err)
		}
		check, n := NewRowCheck(0, 2, nil), 0
		c, err := out.Read(context.Background(), out.Parts[0], func(got *Completion) error {
			check.Add(got.ID, &got.Result)
			got.CountAlone = false
			if fmt.Sprintf("%+v", got.Result) != fmt.Sprintf("%+v", want[n]) {
				t.Fatalf("row %d is read as %+v, want %+v", n, got.Result, want[n])
			}
			n++
			return nil
		})
		if problem := check.Finish(); err != nil || c.Damage != "" || n != 2 || problem != "" {
			t.Fatal(err, c.Damage, n, problem)
		}
		if format == FormatParquet {
			part, err := files.Open("out/part-00000.parquet")
			if err != nil {
				t.Fatal(err)
			}
			size, err := part.Size()
			if err != nil {
				t.Fatal(err)
			}
			file, err := parquet.OpenFile(part, size)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := file.Lookup("ARROW:schema")
			checkArrowSchema(t, text, shape.Vectors)
		}
	})
}

// checkArrowSchema wants a list of a fixed length for the vectors.
func checkArrowSchema(t *rapid.T, text string, v completion.VectorType) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := ipc.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	fields, _ := reader.Schema().FieldsByName("embedding")
	list, ok := fields[len(fields)-1].Type.(*arrow.FixedSizeListType)
	if !ok || int(list.Len()) != v.Length() {
		t.Fatalf("the vectors are %s", fields[len(fields)-1].Type)
	}
	if b, _ := reader.Schema().Metadata().GetValue("a"); b != "b" {
		t.Fatalf("metadata %v", reader.Schema().Metadata())
	}
}
