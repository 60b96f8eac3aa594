package verify_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verify"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// writtenJob writes the output of a job of three rows in parts of two, as a run does.
func writtenJob(t *testing.T, format string) (output string) {
	t.Helper()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.jsonl")
	rows := []byte("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n")
	if err := os.WriteFile(input, rows, 0o666); err != nil {
		t.Fatal(err)
	}
	reader, err := promptset.Open(t.Context(), []string{input})
	if err != nil {
		t.Fatal(err)
	}
	output = filepath.Join(dir, "out")
	state, err := jobstate.Open(vfs.OS, output)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	meta := map[string]string{"made": "here"}
	err = state.Begin(&jobstate.Description{Inputs: spec.InputsOf(reader), Meta: meta,
		Settings: map[string]any{"format": format, "rows": 3, "part_rows": 2, "n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	place, err := folder.NewLocal(vfs.OS, output)
	if err != nil {
		t.Fatal(err)
	}
	w, err := promptset.NewWriter(place, promptset.WriterOptions{Format: format, Schema: reader.Schema(), Meta: meta,
		Parts: folder.Parts{Rows: 3, PartRows: 2}, Write: []int{0, 1},
		Publishing: func(p folder.PartSummary) error { return state.AddPart(p) }})
	if err != nil {
		t.Fatal(err)
	}
	for row := range reader.Rows(t.Context()) {
		if err := w.Add(row, []promptset.Result{{Text: "x", TokenIDs: []int32{1}, FinishReason: "stop", PromptTokens: 1,
			CompletionTokens: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return output
}

// bytes counts what was read.
type bytes int64

func (b *bytes) Describe(string) {}
func (b *bytes) Add(n int64)     { *b += bytes(n) }

// An output that is whole, and what is found where it is not.
func TestVerify(t *testing.T) {
	for _, format := range []string{promptset.FormatParquet, promptset.FormatJSONL} {
		part := func(output string) string { return filepath.Join(output, folder.PartName(1, format)) }
		for name, c := range map[string]struct {
			damage  func(output string) error
			status  string
			problem string
		}{
			"whole": {func(string) error { return nil }, "whole", ""},
			"removed": {func(output string) error { return os.Remove(part(output)) }, "damaged",
				"it is missing, and was written with 1 row"},
			"longer": {func(output string) error {
				text, err := os.ReadFile(part(output))
				return errors.Join(err, os.WriteFile(part(output), append(text, "x\n"...), 0o666))
			}, "damaged", "bytes, and was written with"},
			"foreign": {func(output string) error {
				return os.WriteFile(filepath.Join(output, folder.PartName(7, format)), nil, 0o666)
			}, "damaged", "it is no part of this job"},
		} {
			output := writtenJob(t, format)
			if err := c.damage(output); err != nil {
				t.Fatal(err)
			}
			var read bytes
			v, err := verify.Output(t.Context(), vfs.OS, output, "", &read)
			if err != nil {
				t.Fatal(err)
			}
			if v.Status != c.status || v.Inputs != "compared" || v.Parts != 2 || int64(read) != v.Bytes || read == 0 {
				t.Errorf("%s, %s: %+v", format, name, v)
			}
			if c.problem != "" && (len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, c.problem)) {
				t.Errorf("%s, %s: %+v", format, name, v.Problems)
			}
		}
	}
}

// What cannot be checked is an error.
func TestVerifyCannot(t *testing.T) {
	if _, err := verify.Output(t.Context(), vfs.OS, t.TempDir(), "", new(bytes)); err == nil ||
		!strings.Contains(err.Error(), "holds no job") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	output := writtenJob(t, promptset.FormatJSONL)
	if _, err := verify.Output(ctx, vfs.OS, output, "", new(bytes)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
