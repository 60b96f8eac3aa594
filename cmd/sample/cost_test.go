package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/internal/testenv"
)

// onePrompt is a row of a million.
type onePrompt struct {
	Prompt string `parquet:"prompt"`
}

// A million rows of one token cost the host some microseconds each, journal and fsyncs included, and no memory that
// grows with them. The model is the fake one, whose own cost is in the figure.
func TestMillionRows(t *testing.T) {
	testenv.Slow(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.fake"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("sample")
	if err != nil {
		t.Fatal(err)
	}
	run := func(rows int) (megabytes int64, aRow time.Duration) {
		t.Helper()
		input := filepath.Join(dir, fmt.Sprint(rows, ".parquet"))
		f, err := os.Create(input)
		if err != nil {
			t.Fatal(err)
		}
		w := parquet.NewGenericWriter[onePrompt](f, parquet.MaxRowsPerRowGroup(50_000))
		for i := range rows {
			if _, err := w.Write([]onePrompt{{fmt.Sprint("prompt ", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		cmd := exec.Command(path, "run", "-m", "m.fake", "-i", input, "-o", fmt.Sprint("out", rows), "--max-tokens",
			"1", "--progress", "none")
		cmd.Dir = dir
		start := time.Now()
		_, peak := runForPeak(t, cmd)
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		t.Logf("%d rows: %s a row of the clock, %s of the CPU, %d MB at most", rows,
			time.Since(start)/time.Duration(rows), cpu/time.Duration(rows), peak>>20)
		return peak >> 20, time.Since(start) / time.Duration(rows)
	}
	few, _ := run(100_000)
	many, aRow := run(1_000_000)
	if many > few+100 {
		t.Errorf("a million rows take %d MB, a tenth of them %d", many, few)
	}
	if aRow > time.Millisecond {
		t.Errorf("a row costs %s", aRow)
	}
}
