package xla

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHostMemory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := write("meminfo", "MemTotal:        8000 kB\nMemFree:          100 kB\nMemAvailable:    4000 kB\n")
	check := func(want int64) {
		t.Helper()
		if got, err := hostMemory(meminfo, dir); err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
	}
	check(4000 << 10)
	write("memory.max", "max\n")
	write("memory.current", "1000\n")
	check(4000 << 10)
	write("memory.max", "3000\n")
	check(2000)
	write("memory.current", "5000\n")
	check(0)
	if _, err := hostMemory(write("empty", ""), dir); err == nil {
		t.Error("a file without MemAvailable: no error")
	}
}

func TestCPUFeaturesAreThoseOfOneProcessor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpuinfo")
	if err := os.WriteFile(file,
		[]byte(
			"processor\t: 0\nvendor_id\t: X\ncpu MHz\t\t: 2400.1\nflags\t\t: avx avx2\n\nprocessor\t: 1\nflags\t\t: "+
				"avx\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := cpuFeatures(file), "X; avx avx2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
