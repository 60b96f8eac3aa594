package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/batch/measure"
	"github.com/quire/quire/internal/testenv"
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
	cmd := exec.Command(path, "run", "-m", fake, "-i", input, "-o", filepath.Join(dir, "out"), "-n", "2", "--progress",
		"none")
	out, used := runForPeak(t, cmd)
	if want := fmt.Sprintf("%d (", 2*rows); !strings.Contains(string(out), want) {
		t.Errorf("the report lacks %q: %s", want, out)
	}
	t.Logf("%d MB at most", used>>20)
	if used > 300<<20 {
		t.Errorf("the command took %d MB, want 300 at most", used>>20)
	}
}

// So do 200,000 rows that continue one another, though half of them stand long before their parents: what is generated
// early waits on disk.
func TestMemoryOfFamilies(t *testing.T) {
	testenv.Slow(t)
	const rows = 200_000
	dir := t.TempDir()
	var text bytes.Buffer
	for i := range rows {
		parent := rows - 1 - i // of the first half; each row of the other one but the last continues the next
		if i >= rows/2 {
			parent = i/10*10 + 9
		}
		fmt.Fprintf(&text, `{"id":"%d","prompt":"%d %s","max_tokens":4`, i, i, strings.Repeat("text ", 8))
		if parent != i {
			fmt.Fprintf(&text, `,"parent":"%d","parent_length":3`, parent)
		}
		text.WriteString("}\n")
	}
	input, fake := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "m.fake")
	for name, b := range map[string][]byte{input: text.Bytes(), fake: nil} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path, err := exec.LookPath("sample")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	out, used := runForPeak(t, exec.Command(path, "run", "-m", fake, "-i", input, "-o", filepath.Join(dir, "out"),
		"--progress", "none"))
	if want := fmt.Sprintf("rows         %d", rows); !strings.Contains(string(out), want) {
		t.Errorf("the report lacks %q: %s", want, out)
	}
	t.Logf("%d MB at most, %s", used>>20, time.Since(start))
	if used > 300<<20 {
		t.Errorf("the command took %d MB, want 300 at most", used>>20)
	}
}

// runForPeak runs a command to its end and returns what it printed and its largest resident set, bytes. What the system
// says of a child that has ended (ru_maxrss) counts that of the process it was forked from, so the child is asked while
// it runs: what it took in its last moments is not seen.
func runForPeak(t *testing.T, cmd *exec.Cmd) (out []byte, peak int64) {
	t.Helper()
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	for tick := time.Tick(10 * time.Millisecond); ; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, printed.Bytes())
			}
			if peak == 0 {
				t.Fatal("the command ended before it was asked what memory it takes")
			}
			return printed.Bytes(), peak
		case <-tick:
			peak = max(peak, measure.ProcBytes(status, "VmHWM"))
		}
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
		if _, err := w.Write([]parquetPrompt{{ID: fmt.Sprint(i), Prompt: &prompt,
			Topic: strings.Repeat("passed through ", 20)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
