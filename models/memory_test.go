//go:build linux

package models

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// peakMemory gives the largest resident set so far of this process, bytes.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(data, []byte("VmHWM:"))
	var kB int64
	if _, err := fmt.Sscan(string(rest), &kB); err != nil {
		t.Fatal(err)
	}
	return kB << 10
}

// inOwnProcess runs the calling test alone in a new process, so that what other tests used does not count.
func inOwnProcess(t *testing.T, body func()) {
	t.Helper()
	const key = "QUIRE_TEST_OWN_PROCESS"
	if os.Getenv(key) == t.Name() {
		body()
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), key+"="+t.Name(), "GOGC=100")
	out, err := cmd.CombinedOutput()
	t.Log(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
}

const mB = 1 << 20

// TestMemoryOfDequantizing reads every tensor of the demo model as float32, dropping each: the peak must stay near the
// mapped file and the largest tensors, far from the 538 MB that all take.
func TestMemoryOfDequantizing(t *testing.T) {
	path := smollm2(t)
	inOwnProcess(t, func() {
		before := peakMemory(t)
		c := openTest(t, path)
		for _, name := range c.Names() {
			if _, err := c.Read(name, dtypes.Float32); err != nil {
				t.Fatal(err)
			}
		}
		used := peakMemory(t) - before
		t.Logf("%d MB stored, %d MB as float32, peak %d MB above the start", c.StoredBytes()/mB, 4*c.NumParameters()/mB,
			used/mB)
		if used > 400*mB {
			t.Errorf("peak is %d MB above the start", used/mB)
		}
	})
}

// TestMemoryOfViews walks through 256 MB of mapped float32 weights, releasing each tensor: they must not stay resident.
func TestMemoryOfViews(t *testing.T) {
	const tensors, elements = 8, 8 << 20
	dir := t.TempDir()
	inOwnProcess(t, func() {
		var entries []string
		for i := range tensors {
			entries = append(entries, fmt.Sprintf(`"t%d":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}`, i,
				elements, 4*elements*i, 4*elements*(i+1)))
		}
		header := "{" + strings.Join(entries, ",") + "}"
		header += strings.Repeat(" ", (8-len(header)%8)%8) // aligned, as all writers do
		write(t, filepath.Join(dir, configFile), base(nil))
		weights := filepath.Join(dir, weightsFile)
		write(t, weights, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...))
		// a file of holes takes no disk
		if err := os.Truncate(weights, int64(8+len(header)+4*elements*tensors)); err != nil {
			t.Fatal(err)
		}
		before := peakMemory(t)
		c := openTest(t, dir)
		for _, name := range c.Names() {
			flat, err := c.Read(name, dtypes.Float32)
			if err != nil {
				t.Fatal(err)
			}
			var sum float32
			for _, x := range flat.([]float32) {
				sum += x
			}
			if sum != 0 {
				t.Fatalf("sum of zeros is %v", sum)
			}
			c.Release(name)
		}
		used := peakMemory(t) - before
		t.Logf("%d MB read, peak %d MB above the start", c.StoredBytes()/mB, used/mB)
		if used > 80*mB {
			t.Errorf("peak is %d MB above the start", used/mB)
		}
	})
}

// A weight file that is shortened while it is open gives an error that names it, whichever way it is read.
func TestShortenedWhileOpen(t *testing.T) {
	from, err := filepath.Glob(filepath.Join("..", "testdata", "models", "*", "model.safetensors"))
	if err != nil || len(from) == 0 {
		t.Fatal(from, err)
	}
	dir := t.TempDir()
	entries, err := os.ReadDir(filepath.Dir(from[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(from[0]), e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, name := range c.Names() {
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			if _, err := c.Read(name, dtype); err != nil {
				failed++
				if !strings.Contains(err.Error(), "model.safetensors") || !strings.Contains(err.Error(), "shortened") ||
					!strings.Contains(err.Error(), name) {
					t.Error(err)
				}
			}
		}
	}
	if failed == 0 {
		t.Error("all tensors were read from a file that is gone")
	}
	_ = c.FingerPrint()
}
