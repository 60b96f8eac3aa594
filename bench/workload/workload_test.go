package workload_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/bench/workload"
	"github.com/quire/quire/data/parameter"
)

const vocab = 49152

func rows(t *testing.T, name string) []workload.Row {
	t.Helper()
	w, err := workload.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.Rows(vocab)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != w.NumRows {
		t.Fatalf("%s: %d rows, want %d", name, len(rows), w.NumRows)
	}
	return rows
}

func tokens(rows []workload.Row) (n int) {
	for _, r := range rows {
		n += r.N * r.MaxTokens
	}
	return n
}

// The figures of an earlier day are held against those of a later one: what a workload is must not change.
func TestFixed(t *testing.T) {
	want := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join("testdata", "hashes"))))) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = hash
	}
	for _, name := range workload.Names() {
		if got := workload.Hash(rows(t, name)); got != want[name] {
			t.Errorf("%s %s: testdata/hashes has %q", name, got, want[name])
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRows(t *testing.T) {
	for _, name := range workload.Names() {
		seen := map[string]bool{}
		for _, r := range rows(t, name) {
			if seen[r.ID] || (r.Prompt == "") == (len(r.TokenIDs) == 0) || r.N < 1 || r.MaxTokens < 1 {
				t.Errorf("%s: row %+v", name, r)
			}
			seen[r.ID] = true
			for _, id := range r.TokenIDs {
				if id < 0 || id >= vocab {
					t.Fatalf("%s: token %d", name, id)
				}
			}
		}
	}
	if got := tokens(rows(t, "gsm")); got != 128*128 {
		t.Errorf("gsm has %d tokens", got)
	}
	if a, b := tokens(rows(t, "gsm-n4")), tokens(rows(t, "gsm")); a != b {
		t.Errorf("gsm-n4 has %d tokens, gsm %d", a, b)
	}
	mixed, equal := rows(t, "lengths-mixed"), rows(t, "lengths-equal")
	if tokens(mixed) != tokens(equal) {
		t.Errorf("lengths-mixed has %d tokens, lengths-equal %d", tokens(mixed), tokens(equal))
	}
	least, most := mixed[0].MaxTokens, mixed[0].MaxTokens
	for i := range mixed {
		least, most = min(least, mixed[i].MaxTokens), max(most, mixed[i].MaxTokens)
		if d := equal[i].MaxTokens - equal[0].MaxTokens; d < 0 || d > 1 {
			t.Errorf("lengths-equal: %d and %d tokens", equal[0].MaxTokens, equal[i].MaxTokens)
		}
	}
	if least < 16 || least > 32 || most > 512 || most < 480 {
		t.Errorf("lengths-mixed is %d to %d", least, most)
	}
	shared := rows(t, "gsm-fewshot")
	prefix, _, _ := strings.Cut(shared[0].Prompt, rows(t, "gsm")[0].Prompt)
	if strings.Count(prefix, "####") != 4 || !strings.HasPrefix(shared[99].Prompt, prefix) {
		t.Errorf("the prefix %q", prefix)
	}
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("prompts: sums\nrows: 3\nmax_tokens: 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, file); tokens(got) != 15 {
		t.Errorf("%+v", got)
	}
	if _, err := workload.Open("nosuch"); !errors.Is(err, workload.ErrUnknown) ||
		!strings.Contains(err.Error(), "gsm-n4") {
		t.Errorf("an unknown name gives %v", err)
	}
}

func TestRefused(t *testing.T) {
	for src, want := range map[string]string{
		"prompts: sums\nrows: 3\nmax_tokens: 5\nrow: 3":                   "row",
		"prompts: poems\nrows: 3\nmax_tokens: 5":                          "poems",
		"prompts: sums\nrows: 0\nmax_tokens: 5":                           "rows is 0",
		"prompts: sums\nrows: 3\nn: 0\nmax_tokens: 5":                     "n is 0",
		"prompts: sums\nrows: 3":                                          "max_tokens is 0",
		"prompts: sums\nrows: 3\nmax_tokens_range: [9, 5]":                "max_tokens_range",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nmax_tokens_range: [1, 5]": "max_tokens_range",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nequal_lengths: true":      "equal_lengths",
		"prompts: tokens\nrows: 3\nmax_tokens: 5":                         "prompt_tokens",
		"prompts: sums\nprompt_tokens: 4\nrows: 3\nmax_tokens: 5":         "prompt_tokens",
		"prompts: sums\nrows: 3\nmax_tokens: 5\ntemperature: -1":          "temperature",
		"[": "",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {stop: [a]}":            "stop, which a workload",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {seed: 3}":              "seed, which a workload",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {nosuch: 3}":            "nosuch",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {top_p: 3}":             "top_p is 3",
		"prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {top_k: a lot}":         "top_k",
		"prompts: sums\nrows: three\nmax_tokens: 5":                                 "int",
		"prompts: tokens\nprompt_tokens: 1000000000000\nrows: 3\nmax_tokens: 5\n\n": "prompt_tokens",
	} {
		if _, err := workload.Parse([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q in it", src, err, want)
		}
	}
}

func TestParameters(t *testing.T) {
	w, err := workload.Parse([]byte("prompts: sums\nrows: 3\nmax_tokens: 5\ntemperature: 0.5\n" +
		"parameters: {typical_p: 0.9, logit_bias: {\"7\": 2}, top_logprobs: 3}"))
	if err != nil {
		t.Fatal(err)
	}
	model := parameter.Defaults().Sampling
	model.TopK = 20
	set, err := w.Over(model)
	if err != nil || set.TypicalP != 0.9 || set.Temperature != 0.5 || set.TopK != 20 || set.LogitBias[7] != 2 ||
		set.TopLogprobs != 3 {
		t.Errorf("%+v, %v", set, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("prompts: sums\nrows: 3\nmax_tokens_range: [1, 5]\nequal_lengths: true\n"))
	f.Add([]byte("prompts: sums\nrows: 3\nmax_tokens: 5\nparameters: {top_p: 0.5, logit_bias: {\"1\": 1}}"))
	f.Add([]byte("prompts: tokens\nprompt_tokens: 2\nrows: 3\nn: 2\nmax_tokens: 1\ntemperature: 0.5\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		w, err := workload.Parse(src)
		if err != nil || w.NumRows*(w.PromptTokens+1) > 1<<12 {
			return
		}
		rows, err := w.Rows(vocab)
		if err != nil || len(rows) != w.NumRows {
			t.Fatalf("%+v: %d rows, %v", w, len(rows), err)
		}
		for _, r := range rows {
			if r.MaxTokens < 1 {
				t.Fatalf("%+v: row %+v", w, r)
			}
		}
	})
}
