package batch_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/internal/testenv"
)

// A job in this process: prompts in, completions out. Run again, it finds that nothing is left to do.
func Example() {
	dir, err := os.MkdirTemp("", "batch")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(input, []byte(`{"prompt_token_ids": [14, 88, 220, 43]}`+"\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	spec := spec.Default()
	spec.Model, spec.Inputs, spec.Output = testenv.Path("testdata", "models", "llama3"), []string{input}, dir+"/out"
	spec.Sampling.N, spec.Sampling.MaxTokens, spec.Sampling.Temperature = 2, 5, 0.7
	spec.Engine.MaxSeqs, spec.Engine.KVMemory = 4, 1<<20
	for range 2 {
		report, err := batch.Run(context.Background(), spec, process.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Completions, "completions,", report.RowsHere, "rows by this run")
	}
	// Output:
	// 2 completions, 1 rows by this run
	// 2 completions, 0 rows by this run
}
