package engine_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// From the start of a process to the first completion, compiling included, SmolLM2 takes no more memory than its
// weights, its cache and 1 GiB. Another process does it, so that the peak is its own.
func TestPeakMemory(t *testing.T) {
	testenv.Slow(t)
	const kvMemory = 64 << 20
	if os.Getenv("QUIRE_TEST_PEAK_MEMORY") != "" {
		backend, err := xla.Open("xla:cpu", xla.OpenOptions{FindPlugin: setup.FindPlugin})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(context.Background(), engine.Config{Model: testenv.SmolLM2(t), Backend: backend,
			DType: dtypes.Float32, MaxSeqs: 16, MaxModelLen: 256, KVMemory: kvMemory})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		collect(t, e, sampled("a", []int32{504, 3575, 282}, 2, 4, 1))
		// What the system says of a child's peak counts that of the process it was forked from.
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.Write(status)
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestPeakMemory$")
	child.Env = append(os.Environ(), "QUIRE_TEST_PEAK_MEMORY=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no peak in %s", out)
	}
	peak, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	peak <<= 10
	weights := testenv.SmolLM2(t).NumParameters() * 4
	t.Logf("peak %d MiB, weights %d MiB, cache %d MiB", peak>>20, weights>>20, kvMemory>>20)
	if limit := weights + kvMemory + 1<<30; peak > limit {
		t.Errorf("the peak is %d MiB, want at most %d MiB", peak>>20, limit>>20)
	}
}
