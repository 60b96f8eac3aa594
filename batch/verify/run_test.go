package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verify"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/testenv"
)

// The output of a job is whole, until a byte of it changes.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "prompts.jsonl")
	rows := strings.Repeat(`{"prompt_token_ids": [14, 88, 220, 43]}`+"\n", 2)
	if err := os.WriteFile(input, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := spec.Default()
	spec.Model, spec.Inputs, spec.Output = testenv.Path("testdata", "models", "llama3"), []string{input}, dir+"/out"
	spec.Format, spec.PartRows, spec.Sampling.MaxTokens = "jsonl", 1, 5
	spec.Engine.MaxSeqs, spec.Engine.KVMemory = 4, 1<<20
	if _, err := batch.Run(t.Context(), spec, process.Options{}); err != nil {
		t.Fatal(err)
	}
	look := func() *verify.Report {
		r, err := verify.Output(t.Context(), vfs.OS, spec.Output, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := look(); r.Status != "whole" || r.Whole != 2 || r.Inputs != "compared" || r.Rows != 2 {
		t.Errorf("%+v", r)
	}
	part := filepath.Join(spec.Output, "part-00001.jsonl")
	text, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(part, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := look(); r.Status != "damaged" || len(r.Problems) != 1 || r.Problems[0].File != "part-00001.jsonl" {
		t.Errorf("%+v", r)
	}
}
