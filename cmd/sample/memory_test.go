package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// 100,000 rows stream through in bounded memory: what the command takes beyond the engine stays under 300 MB.
func TestMemoryOfManyRows(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads 100,000 rows; make test-slow runs it")
	}
	const rows = 100_000
	dir := t.TempDir()
	input := filepath.Join(dir, "in.parquet")
	writeManyRows(t, input, rows)
	fake := filepath.Join(dir, "m.fake")
	if err := os.WriteFile(fake, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("sample") // the command of the scripts
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "run", "-m", fake, "-i", input, "-o", filepath.Join(dir, "out"), "-n", "2", "--progress", "none")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := fmt.Sprintf("%d (", 2*rows); !strings.Contains(string(out), want) {
		t.Errorf("the report lacks %q: %s", want, out)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("%d MB at most", used>>20)
	if used > 300<<20 {
		t.Errorf("the command took %d MB, want 300 at most", used>>20)
	}
}

func writeManyRows(t *testing.T, path string, rows int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[parquetPrompt](f, parquet.MaxRowsPerRowGroup(10_000))
	for i := range rows {
		prompt := fmt.Sprintf("prompt number %d %s", i, strings.Repeat("text ", 25))
		if _, err := w.Write([]parquetPrompt{{ID: fmt.Sprint(i), Prompt: &prompt, Topic: strings.Repeat("passed through ", 20)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
