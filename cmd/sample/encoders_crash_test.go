package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/testenv"
)

// newEncoderJob makes a job of rows for a tiny model of testdata, by a command of a task.
func newEncoderJob(t *testing.T, task, model string, rows int, row func(i int) map[string]any,
	extra ...string) *crashJob {
	t.Helper()
	j := &crashJob{dir: t.TempDir(), count: os.DevNull, real: true}
	var lines strings.Builder
	for i := range rows {
		values := row(i)
		values["id"] = fmt.Sprint("r", i)
		line, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(j.dir, "in.jsonl"), []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	j.args = append([]string{task, "-m", testenv.Path("testdata", model), "-i", "in.jsonl", "--part-rows", "40",
		"--progress", "none"}, extra...)
	return j
}

// Jobs of vectors, of labels of tokens, of classes by the head in a GGUF file, of rankings and of several outputs of a
// row, with real models, are killed at random moments and started again: their files equal the files of undisturbed
// jobs.
func TestEncodersKilledAtRandom(t *testing.T) {
	rows, kills := 800, 50
	if testing.Short() {
		rows, kills = 160, 2
	}
	text := func(i int) string {
		words := strings.Fields("the movie is good bad a film not it was")
		text := ""
		for k := range 1 + i%23 {
			text += words[(i*7+k*k)%len(words)] + []string{" ", ", ", "! "}[(i+k)%3]
		}
		return text
	}
	prompt := func(i int) map[string]any { return map[string]any{"prompt": text(i)} }
	tokens := func(i int) map[string]any {
		ids := make([]int, 1+i%60)
		for k := range ids {
			ids[k] = (i*13 + k*k) % 64
		}
		return map[string]any{"prompt_token_ids": ids}
	}
	pairs := func(i int) map[string]any {
		documents := make([]string, 1+i%5)
		for k := range documents {
			documents[k] = text(i + 31*k)
		}
		return map[string]any{"query": text(3 * i), "documents": documents}
	}
	for i, c := range []struct {
		name string
		job  func() *crashJob
	}{
		{"embed", func() *crashJob {
			return newEncoderJob(t, "embed", "encoders/bert", rows, tokens, "--embedding-type", "float16")
		}},
		{"embed tokens", func() *crashJob {
			return newEncoderJob(t, "embed", "encoders/colbert", rows, prompt, "--multi-vector")
		}},
		{"embed by devices", func() *crashJob {
			return newEncoderJob(t, "embed", "encoders/mpnet", rows, tokens, "--mesh", "tp=2,dp=2")
		}},
		{"tag", func() *crashJob {
			return newEncoderJob(t, "classify", "classifiers/bert-tokens", rows, prompt, "--format", "jsonl",
				"--columns", "token_labels")
		}},
		{"classify by gguf", func() *crashJob {
			return newEncoderJob(t, "classify", "classifiers/distilbert.gguf", rows, prompt, "--format", "jsonl")
		}},
		{"rerank", func() *crashJob {
			return newEncoderJob(t, "rerank", "classifiers/bert-reranker", rows, pairs, "--format", "jsonl")
		}},
		{"outputs", func() *crashJob {
			return newFeatureJob(t, rows/4, promptset.FormatJSONL, "--columns", "embedding,choice_probabilities",
				"--pooling", "last")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "embed" && c.name != "outputs" {
				testenv.Slow(t)
			}
			killedAtRandom(t, c.job(), uint64(62+i), rows, kills)
		})
	}
}
