package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// featureRows are rows that ask for all kinds of things, n after one another: what each has alongside its prompt. Every
// sixteenth has an error. Lines of batch files have several prompts where rows have a parent.
func featureRows(n int, lines bool) (rows []map[string]any) {
	type of = map[string]any
	schema := of{"type": "object", "properties": of{"a": of{"type": "integer", "minimum": 0, "maximum": 999},
		"b": of{"enum": []any{true, false, "x"}}}, "required": []string{"a", "b"}, "additionalProperties": false}
	tops := of{"top_logprobs": 3}
	if lines {
		tops = of{"logprobs": 3}
	}
	wrong := []of{{"structured_outputs": of{"regex": "a("}}, {"temperature": -1}, {"logit_bias": of{"9999": 1}},
		{"prompt_logprobs": 300}, {"parent": "nobody"}}
	for i := range n {
		row := []of{
			tops,
			{"prompt_logprobs": 2},
			{"max_tokens": 0, "prompt_logprobs": 1},
			{"response_format": of{"type": "json_schema", "json_schema": of{"name": "n", "schema": schema}}},
			{"structured_outputs": of{"regex": fmt.Sprintf("[a-c]{5}[0-9]{%d}", 1+i%7)}},
			{"structured_outputs": of{"choice": []string{"yes", "no, or not", fmt.Sprint("row ", i)}}},
			{"structured_outputs": of{"grammar": `root ::= "a" root "b" | "c"`}},
			{"repetition_penalty": 1.2, "frequency_penalty": 0.4, "presence_penalty": -0.1},
			{"logit_bias": of{"5": 4, "77": -100, "131": 2}, "min_tokens": 5},
			{"stop": []string{"ab", "e", "zz"}, "n": 2},
			{"parent": fmt.Sprint("r", max(0, i-[]int{1, 7, 10}[i%3])), "parent_length": 4, "n": 2},
			{"n": 3, "frequency_penalty": 0.3, "prompt_logprobs": 0, "dry_multiplier": 0.8, "dry_allowed_length": 1},
			wrong[i/16%len(wrong)],
			{"typical_p": 0.7, "top_n_sigma": 1.5, "n": 2, "no_repeat_ngram_size": 2},
			{"response_format": of{"type": "json_object"}, "n": 2, "repetition_penalty": 1.1},
			{"structured_outputs": of{"regex": "[a-z]{200}"}, "max_tokens": 9},
		}[i%16]
		prompt := fmt.Sprintf("row %d %s", i, strings.Repeat("x", i*7%30))
		if row["prompt"] = prompt; lines && row["parent"] != nil {
			row = of{"prompt": []string{prompt, "another", prompt + "y"}, "n": 2}
		}
		rows = append(rows, row)
	}
	return rows
}

// newFeatureJob makes a job of such rows for a random model whose tokens are characters and pairs of letters.
func newFeatureJob(t *testing.T, rows int, format string, extra ...string) *crashJob {
	t.Helper()
	return newFeatureJobOf(t, "smollm2-like", rows, format, extra...)
}

// newFeatureJobOf is newFeatureJob with the weights of a checkpoint of 256 tokens.
func newFeatureJobOf(t *testing.T, checkpoint string, rows int, format string, extra ...string) *crashJob {
	t.Helper()
	dir := t.TempDir()
	j := &crashJob{dir: dir, count: os.DevNull, real: true, code: cli.ExitPartial}
	model := testenv.Path("testdata", "models", checkpoint)
	var vocabulary strings.Builder
	for i := range 95 {
		token, _ := json.Marshal(string(rune(32 + i)))
		fmt.Fprintf(&vocabulary, "%s: %d, ", token, i)
	}
	for i := 95; i < 255; i++ {
		fmt.Fprintf(&vocabulary, "\"%c%c\": %d, ", 'a'+i%26, 'a'+i/26, i)
	}
	const tokenizer = `{"model": {"type": "BPE", "merges": [], "vocab": {%s"<end>": 255}}, "added_tokens": [{"id": 255,
		"content": "<end>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
		"normalized": false}], "decoder": {"type": "Fuse"}}`
	var lines strings.Builder
	for i, row := range featureRows(rows, format == promptset.FormatOpenAI) {
		line := map[string]any{"id": fmt.Sprint("r", i)}
		if format == promptset.FormatOpenAI {
			line = map[string]any{"custom_id": fmt.Sprint("r", i), "method": "POST", "url": "/v1/completions",
				"body": row}
		} else {
			for key, value := range row {
				line[key] = value
			}
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	for name, text := range map[string]string{"in.jsonl": lines.String(),
		"model/generation_config.json": `{"eos_token_id": 255}`,
		"model/tokenizer.json":         fmt.Sprintf(tokenizer, vocabulary.String()),
		"model/config.json":            "", "model/model.safetensors": ""} {
		if text == "" {
			b, err := os.ReadFile(filepath.Join(model, filepath.Base(name)))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	j.args = append([]string{"run", "-m", "model", "-i", "in.jsonl", "--format", format, "--max-tokens", "30",
		"--seed", "3", "--max-seqs", "8", "--max-model-len", "128", "--kv-memory", "240KiB", "--part-rows", "40",
		"--progress", "none", "--features", strings.Join(engine.FeatureNames(), ",")}, extra...)
	return j
}

// kept is how many bytes of completions there are, in journals and in parts.
func (j *crashJob) kept(t *testing.T, output string) (n int64) {
	t.Helper()
	for _, pattern := range []string{"part-*", "_job/journal-*"} {
		names, err := filepath.Glob(filepath.Join(j.dir, output, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil { // a journal may go away
				n += info.Size()
			}
		}
	}
	return n
}

// A job whose rows ask for all that rows may ask for is killed at random moments, and started again where it ends
// before: its files are those of a job that nothing disturbed.
func TestFeaturesKilledAtRandom(t *testing.T) {
	rows, kills, formats := 320, 12, []string{promptset.FormatJSONL, promptset.FormatOpenAI, promptset.FormatParquet}
	if testing.Short() {
		rows, kills, formats = 96, 2, formats[:1]
	}
	killed := func(name string, seed uint64, j *crashJob) {
		t.Run(name, func(t *testing.T) { killedAtRandom(t, j, seed, rows, kills) })
	}
	columns := []string{"--columns", completion.ChoicesColumn}
	for i, format := range formats {
		if format == promptset.FormatOpenAI {
			killed(format, uint64(i), newFeatureJob(t, rows, format))
			continue
		}
		killed(format, uint64(i), newFeatureJob(t, rows, format, columns...))
	}
	if !testing.Short() {
		for i, value := range []string{"8", "auto"} {
			drafts := newFeatureJob(t, rows, promptset.FormatJSONL, columns...)
			drafts.more = []string{"--speculate", value}
			killed("drafts "+value, uint64(10+i), drafts)
		}
		killed("experts", 8, newFeatureJobOf(t, "qwen3-moe", rows, promptset.FormatJSONL, "--columns",
			"experts,entropy"))
		killed("hidden", 12, newFeatureJobOf(t, "llama3", rows, promptset.FormatJSONL, "--columns", "hidden",
			"--hidden-layers", "1,-1", "--hidden-tokens", "all", "--hidden-dtype", "f16"))
		killed("blocks", 9, newFeatureJobOf(t, "mixtral", rows, promptset.FormatJSONL, "--weights", "q8_0",
			"--dtype", "bf16"))
	}
}

// killedAtRandom kills a job of rows so many times, and compares each whole output with that of an undisturbed job.
func killedAtRandom(t *testing.T, j *crashJob, seed uint64, rows, kills int) {
	random := rand.New(rand.NewPCG(seed, 24))
	times := 0
	for left := kills; left > 0; {
		moment := time.Duration(random.IntN(int(3 * time.Second)))
		more := j.kept(t, "out") + 1 + random.Int64N(int64(rows)*200)
		early := random.IntN(4) == 0
		done := j.killed(t, func(since time.Duration) bool {
			return early && since > moment || !early && j.kept(t, "out") > more
		})
		if !done {
			left--
		}
		j.undamaged(t)
		if !done && left > 0 {
			continue
		}
		j.same(t)
		j.undamaged(t)
		if err := os.RemoveAll(filepath.Join(j.dir, "out")); err != nil {
			t.Fatal(err)
		}
		times++
	}
	t.Logf("%d kills, the job was through %d times; it keeps %d bytes", kills, times, j.kept(t, "whole"))
}
