package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// 256 of the likeliest tokens with each of 4,096, of prompts or of completions, take at most 64 MB on the host for each
// row that is in flight, alongside what they take for all rows.
func TestMemoryOfScores(t *testing.T) {
	testenv.Slow(t)
	const rows, few, many, tokens = 20, 2, 10, 4096
	dir := t.TempDir()
	model := testenv.Path("testdata", "models", "smollm2-like")
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(model, name))
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Replace(b, []byte(`"max_position_embeddings": 160`), []byte(`"max_position_embeddings": 8192`), 1)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, flag string
		prompt     int
		tokens     int // to generate
	}{
		{"prompts", "--prompt-logprobs", tokens, 0},
		{"completions", "--top-logprobs", 1, tokens},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text bytes.Buffer
			for i := range rows {
				fmt.Fprintf(&text, `{"id":"%d","prompt_token_ids":[%d`, i, i)
				for k := 1; k < c.prompt; k++ {
					fmt.Fprintf(&text, ",%d", (i*k*k+7*k)%250)
				}
				text.WriteString("]}\n")
			}
			input := filepath.Join(t.TempDir(), "in.jsonl")
			if err := os.WriteFile(input, text.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			path, err := exec.LookPath("real-sample")
			if err != nil {
				t.Fatal(err)
			}
			var peaks [2]int64
			for i, slots := range []int{few, many} {
				args := []string{"run", "-m", dir, "-i", input, "--progress", "none", "--max-seqs", fmt.Sprint(slots),
					"--max-model-len", "4200", "--kv-memory", "64MiB", "--ignore-eos", "--features",
					"top_logprobs,prompt_logprobs,wide_logprobs", c.flag, "256"}
				run := func(tokens int) int64 {
					_, peak := runForPeak(t, exec.Command(path, append(args, "-o", filepath.Join(t.TempDir(), "out"),
						"--max-tokens", fmt.Sprint(tokens))...))
					return peak
				}
				run(1) // compiles
				peaks[i] = run(c.tokens)
			}
			each := (peaks[1] - peaks[0]) / (many - few)
			t.Logf("%d MB at most with %d rows in flight, %d with %d: %d MB for each", peaks[0]>>20, few,
				peaks[1]>>20, many, each>>20)
			if each > 64<<20 {
				t.Errorf("a row in flight takes %d MB, want 64 at most", each>>20)
			}
		})
	}
}
