package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// With loops in CUDA graphs a job's program for a GPU is one graph: the device asks the host nothing between steps. In
// a loop of layers each turn reads other slices, and no graph has that.
func TestGPUProgramIsOneGraph(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		name, topology, flags string
		args                  []string
		whole                 bool
	}{
		{"as XLA does by default", "h200:1", "", nil, false},
		{"with loops", "h200:1", "+WHILE", nil, true},
		{"with all features", "b200:1", "+WHILE",
			[]string{"--features", strings.Join(engine.FeatureNames(), ",")}, true},
		{"several devices", "h100:2", "+WHILE,+COLLECTIVES", []string{"--tp", "2"}, true},
		{"layers in a loop", "h200:1", "+WHILE", []string{"--layers", "loop"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Topology(t, c.topology) // skips where its compiler is not
			dump := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "real-sample", append([]string{"plan", "--model", smallLlama(t),
				"--dtype", "bf16", "--topology", c.topology, "--kv-memory", "64MiB"}, c.args...)...)
			flags := "--xla_dump_to=" + dump + " --xla_dump_hlo_as_text"
			if c.flags != "" {
				flags += " --xla_gpu_enable_command_buffer=" + c.flags
			}
			cmd.Env = append(os.Environ(), "XLA_FLAGS="+flags)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			const warning = "with --layers loop, programs for GPUs copy the weights"
			if warned := strings.Contains(string(out), warning); warned != slices.Contains(c.args, "--layers") {
				t.Errorf("it warns of copies, %t:\n%s", warned, out)
			}
			files, err := filepath.Glob(filepath.Join(dump, "*.run.thunk_sequence_after_thunk_passes.txt"))
			if err != nil || len(files) != 1 {
				t.Fatalf("the dump has %v, %v", files, err)
			}
			text, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			var top []string // what the host runs one after the other
			for line := range strings.Lines(string(text)) {
				if fields := strings.Fields(line); len(fields) > 1 && line[0] != ' ' && fields[0] != "condition:" {
					top = append(top, fields[1])
				}
			}
			if whole := len(top) == 1 && top[0] == "kCommandBuffer"; whole != c.whole {
				t.Errorf("one graph: %t, want %t: the host runs %v", whole, c.whole, top)
			}
		})
	}
}
