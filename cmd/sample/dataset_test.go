package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage/hub/hubtest"
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
	if code, text := run("hf://datasets/org/name@v2/data/train*", "out"); code != cli.ExitFailure ||
		!strings.Contains(text, "train-0.jsonl") {
		t.Error("another revision:", code, text)
	}
	// A branch that moves while the process lives: a new job is of the new commit, and the old one reports what
	// differs.
	hub.Commit("org/name", "main", map[string]string{"data/train-0.jsonl": rows(5, 35), "data/test-0.jsonl": "{}"})
	if code, text := run("hf://datasets/org/name/data/train*", "moved"); code != 0 {
		t.Fatal(text)
	}
	parts := outputOf(t, filepath.Join(dir, "moved"))
	if err := same(parts, outputOf(t, filepath.Join(dir, "out"))); err == nil {
		t.Error("the second job has the rows of the first one's commit")
	}
	if code, text := run("hf://datasets/org/name/data/train*", "out"); code != cli.ExitFailure ||
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

// Workers read the commit of a dataset that was submitted, wherever its branch is by then, and write the files of a
// run.
func TestQueueOfADataset(t *testing.T) {
	hub := hubtest.New(t)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model := filepath.Join(dir, "m.fake")
	if err := os.WriteFile(model, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	server, err := local.Start(local.Options{Address: ":0", Dir: filepath.Join(dir, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Setenv("NATS_URL", "nats://"+server.Address())
	sample := func(want int, args ...string) string {
		t.Helper()
		code, text := sampleFake(args...)
		if code != want {
			t.Fatalf("%q: %d, %s", args, code, text)
		}
		return text
	}
	job := func(command, out string) []string {
		return []string{command, "-m", model, "-i", "hf://datasets/org/name/data", "-o", filepath.Join(dir, out),
			"--part-rows", "2"}
	}
	hub.Commit("org/name", "main", map[string]string{"data/a.jsonl": "{\"prompt\": \"a\"}\n{\"prompt\"\n",
		"data/b.jsonl": "{\"prompt\": \"b\"}\n"})
	sample(cli.ExitPartial, append(job("run", "whole"), "--progress", "none")...)
	id, _, _ := strings.Cut(sample(0, job("submit", "out")...), "\n")
	hub.Commit("org/name", "main", map[string]string{"data/a.jsonl": "{\"prompt\": \"other\"}\n"})
	sample(cli.ExitPartial, "worker", id)
	if err := same(outputOf(t, filepath.Join(dir, "out")), outputOf(t, filepath.Join(dir, "whole"))); err != nil {
		t.Error(err)
	}
	if text := sample(cli.ExitFailure, job("submit", "out")...); !strings.Contains(text, "a commit does not move") {
		t.Error("the branch has moved, and it is said otherwise:", text)
	}
}
