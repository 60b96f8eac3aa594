package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
)

// A job whose process is being taken down still is started again all the same.
func TestLockOfADyingProcess(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"m.fake": "", "in.jsonl": `{"prompt":"a"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	output := filepath.Join(dir, "out")
	lock, err := jobstate.Open(vfs.OS, output)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { lock.Close() })
	var out shared
	env := &cli.Environment{Stdout: io.Discard, Stderr: &out, Models: fakeModels{}, FS: vfs.OS}
	if code := sampleMain([]string{"run", "-m", filepath.Join(dir, "m.fake"), "-i", filepath.Join(dir, "in.jsonl"),
		"-o", output}, env); code != cli.ExitOK {
		t.Error(code, out.String())
	}
}
