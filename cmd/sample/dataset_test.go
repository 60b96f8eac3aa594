package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/storage/hub/hubtest"
)

// A job reads a dataset of the hub by its splits, and is another one when the dataset's rows are others.
func TestDatasetOfTheHub(t *testing.T) {
	hub := hubtest.New(t)
	rows := func(from, to int) string {
		var b strings.Builder
		for i := range to - from {
			fmt.Fprintf(&b, "{\"prompt\": \"row %d\"}\n", from+i)
		}
		return b.String()
	}
	first := hub.Commit("org/name", "main", map[string]string{"data/train-0.jsonl": rows(0, 30),
		"data/train-1.jsonl": rows(30, 40), "data/test-0.jsonl": rows(40, 50)})
	hub.Commit("org/name", "v2", map[string]string{"data/train-0.jsonl": rows(1, 31),
		"data/train-1.jsonl": rows(31, 41)})
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	local := filepath.Join(dir, "data")
	model := filepath.Join(dir, "m.fake")
	if err := os.MkdirAll(local, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"data/train-0.jsonl": rows(0, 30), "data/train-1.jsonl": rows(30, 40),
		"m.fake": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in, out string) (int, string) {
		return sampleFake("run", "-m", model, "-i", in, "-o", filepath.Join(dir, out), "--progress", "none", "-n", "2")
	}
	if code, text := run(local, "local"); code != 0 {
		t.Fatal(text)
	}
	if code, text := run("hf://datasets/org/name/data/train*", "out"); code != 0 {
		t.Fatal(text)
	}
	if err := same(outputOf(t, filepath.Join(dir, "out")), outputOf(t, filepath.Join(dir, "local"))); err != nil {
		t.Error(err)
	}
	if code, text := run("hf://datasets/org/name@"+first+"/data/train*", "out"); code != 0 ||
		!strings.Contains(text, "is finished") {
		t.Error("by its commit:", code, text)
	}
	if code, text := run("hf://datasets/org/name@v2/data/train*", "out"); code != exitFailure ||
		!strings.Contains(text, "train-0.jsonl") {
		t.Error("another revision:", code, text)
	}
	// A branch that moves while the process lives: a new job is of the new commit, and the old one says what differs.
	hub.Commit("org/name", "main", map[string]string{"data/train-0.jsonl": rows(5, 35), "data/test-0.jsonl": "{}"})
	if code, text := run("hf://datasets/org/name/data/train*", "moved"); code != 0 {
		t.Fatal(text)
	}
	parts := outputOf(t, filepath.Join(dir, "moved"))
	if err := same(parts, outputOf(t, filepath.Join(dir, "out"))); err == nil {
		t.Error("the second job has the rows of the first one's commit")
	}
	if code, text := run("hf://datasets/org/name/data/train*", "out"); code != exitFailure ||
		!strings.Contains(text, "a commit does not move (hf://datasets/ORG/NAME@COMMIT/PATH)") {
		t.Error("a job whose branch has moved:", code, text)
	}
	if code, text := run("hf://datasets/org/name@"+first+"/data/train*", "out"); code != 0 ||
		!strings.Contains(text, "is finished") {
		t.Error("by its commit, after its branch has moved:", code, text)
	}
	if code, text := run("hf://datasets/org/name", "other"); code == 0 ||
		!strings.Contains(text, "it has the splits test, train") {
		t.Error("all splits:", code, text)
	}
	if code, text := run("hf://datasets/org/nothing", "other"); code == 0 ||
		!strings.Contains(text, "there is no such") {
		t.Error("no dataset:", code, text)
	}
}
