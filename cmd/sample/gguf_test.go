package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// drawsGGUF generates completions of ids.jsonl by a GGUF file of models/testdata, and wants all of them without an
// error: "drawsgguf NAME [loop]". With its layers in a loop the file is to generate the same bytes.
func drawsGGUF(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: drawsgguf NAME [loop]")
	}
	job := []string{"run", "-m", filepath.Join(ts.Getenv("REPO"), "models", "testdata", args[0]+".gguf"), "-i",
		"ids.jsonl", "--format", "jsonl", "-n", "2", "--max-tokens", "8", "--max-seqs", "4", "--max-model-len", "64",
		"--kv-memory", "16MiB", "--seed", "3", "--progress", "none"}
	var parts []string
	for _, layers := range append([]string{"unrolled"}, args[1:]...) {
		out := args[0] + "-" + layers
		ts.Check(ts.Exec("real-sample", append(slices.Clone(job), "-o", out, "--layers", layers)...))
		parts = append(parts, ts.ReadFile(filepath.Join(out, "part-00000.jsonl")))
	}
	if n := strings.Count(parts[0], `"finish_reason":"`); n != 4 || strings.Contains(parts[0], `"error":"`) {
		ts.Fatalf("%s: %d completions, want 4:\n%s", args[0], n, parts[0])
	}
	if len(parts) > 1 && parts[1] != parts[0] {
		ts.Fatalf("%s: with layers in a loop the completions are\n%s\nwithout\n%s", args[0], parts[1], parts[0])
	}
}
