package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quire/quire/data/storage"
)

// A store in an object store, whose answers are sometimes errors, serves jobs that write to it at once. A pack that is
// cut off or is none is a miss.
func TestStoreInObjects(t *testing.T) {
	url := fakeBucket(t, 40)
	store, dir := url("kept/completions"), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := write("m.fake", "")
	input := func(name string, from, to int) string {
		var rows strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&rows, "{\"id\": \"%d\", \"prompt\": \"row %[1]d\"}\n", i)
		}
		return write(name, rows.String())
	}
	run := func(in, out string, more ...string) string {
		args := []string{"run", "-m", model, "-i", in, "-o", filepath.Join(dir, out), "-n", "2", "--seed", "5",
			"--format", "jsonl", "--progress", "none"}
		code, output := sampleFake(append(args, more...)...)
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", out, code, output)
		}
		return output
	}
	command := func(args ...string) string {
		code, output := sampleFake(append([]string{"store"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, output)
		}
		return output
	}
	wants := func(output string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(output, text) {
				t.Errorf("%q is not in: %s", text, output)
			}
		}
	}
	var writers sync.WaitGroup
	for i := range 4 {
		in := input(fmt.Sprintf("in%d", i), 5*i, 5*i+10)
		writers.Go(func() { run(in, fmt.Sprintf("out%d", i), "--store", store) })
	}
	writers.Wait()
	wants(command("stats", store), "0 damaged", ": ")
	all := input("all", 0, 25)
	run(all, "nothing")
	wants(run(all, "copied", "--store", store), "copied       50 completions of other outputs")
	compare := func(out string) {
		t.Helper()
		if err := same(outputOf(t, filepath.Join(dir, out)), outputOf(t, filepath.Join(dir, "nothing"))); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	}
	compare("copied")
	wants(command("gc", store), "completions  50, 0 of them again")
	wants(run(all, "joined", "--store", store), "copied       50 completions of other outputs")
	compare("joined")

	packs, err := storage.List(t.Context(), store)
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	whole, err := storage.ReadFile(t.Context(), packs[0].Name, packs[0].Size)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{"cut": string(whole[:len(whole)-len(whole)/3]), "none": "x",
		"edited": strings.Replace(string(whole), ":row 7", ":row 8", 1)} {
		there, err := storage.List(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range there {
			if err := storage.Remove(t.Context(), one.Name); err != nil {
				t.Fatal(err)
			}
		}
		put(t, packs[0].Name, damaged)
		wants(run(all, name, "--store", store), "which could be copied, are generated: ")
		compare(name)
	}
}
