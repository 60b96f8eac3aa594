package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// compiledPrograms are the files of the compiled programs in the cache.
func compiledPrograms(t *testing.T, cache string) map[string]os.FileInfo {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "programs"))
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]os.FileInfo{}
	for _, entry := range entries {
		if programs[entry.Name()], err = entry.Info(); err != nil {
			t.Fatal(err)
		}
	}
	return programs
}

// What --compile-only leaves in the cache is all that a run with the same flags needs, on every replica's devices.
func TestRunAfterCompileOnlyCompilesNothing(t *testing.T) {
	testenv.Slow(t)
	plugin, err := setup.FindPlugin("cpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(setup.EnvPlugin("cpu"), plugin)
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(rows, []byte(`{"id": "a", "prompt_token_ids": [1, 2, 3]}`+"\n"+
		`{"id": "b", "prompt_token_ids": [4]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	model := testenv.Path("testdata", "models", "smollm2-like")
	withTokenizer := t.TempDir()
	if err := os.CopyFS(withTokenizer, os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(withTokenizer, os.DirFS(testenv.Path("text", "tokenizer", "testdata", "llama2"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, model string
		flags       []string
		apart       int // replicas that have programs of their own
	}{
		{"one device", withTokenizer, nil, 1},
		{"two replicas", model, []string{"--dp", "2"}, 1},
		{"two replicas of two devices", model, []string{"--tp", "2", "--dp", "2"}, 2},
		{"features", withTokenizer, []string{"--features", strings.Join(engine.FeatureNames(), ",")}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv(setup.EnvCache, cache)
			args := append([]string{"--model", c.model, "--backend", "xla:cpu", "--kv-memory", "1MiB",
				"--max-seqs", "4", "--max-model-len", "16"}, c.flags...)
			plan, code, stderr := runPlanCommand(t, append(args, "--compile-only")...)
			if code != cli.ExitOK {
				t.Fatal(stderr)
			}
			planned := compiledPrograms(t, cache)
			if want := c.apart * len(plan.Plan.Programs); len(planned) != want {
				t.Errorf("%d programs are in the cache, want %d", len(planned), want)
			}
			run := append([]string{"run", "--input", rows, "--output", filepath.Join(t.TempDir(), "out"), "--format",
				"jsonl", "--max-tokens", "4", "--progress", "none"}, args...)
			if code := sampleMain(run, &cli.Environment{Stdout: t.Output(), Stderr: t.Output(), Models: load.Models{},
				FS: vfs.OS}); code != cli.ExitOK {
				t.Fatalf("the run ended with %d", code)
			}
			// A program that is not found is compiled and kept under a new name, one that is not usable is replaced by
			// another file.
			if after := compiledPrograms(t, cache); !maps.EqualFunc(planned, after, os.SameFile) {
				t.Errorf("the run compiled: there were %d programs before, and are %d", len(planned), len(after))
			}
		})
	}
}
