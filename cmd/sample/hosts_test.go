package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/testenv"
)

// A process that is killed ends the other one, with an error that names it; the same commands continue, and write what
// one process does.
func TestHostKilled(t *testing.T) {
	testenv.Slow(t)
	path, err := exec.LookPath("real-sample")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := setup.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), testenv.FreeAddress(t)
	var rows bytes.Buffer
	for i := range 400 {
		fmt.Fprintf(&rows, "{\"prompt_token_ids\": [%d, 2, %d]}\n", 1+i%200, 1+i/200)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), rows.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	start := func(out string, more ...string) (*exec.Cmd, *bytes.Buffer) {
		args := []string{"run", "-m", testenv.Path("testdata", "models", "smollm2-like"), "-i", "in.jsonl", "-o", out,
			"--format", "jsonl", "-t", "1", "--ignore-eos",
			"--max-tokens", "24", "--max-seqs", "4", "--max-model-len", "32", "--max-rounds", "4", "--kv-memory",
			"1MiB", "--part-rows", "10", "--tp", "2", "--progress", "none"}
		cmd, text := exec.Command(path, append(args, more...)...), &bytes.Buffer{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, text, text
		cmd.Env = append(os.Environ(), "QUIRE_CACHE="+cache)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, text
	}
	both := func() (cmds [2]*exec.Cmd, texts [2]*bytes.Buffer) {
		for id := range cmds {
			cmds[id], texts[id] = start("two", "--num-processes", "2", "--process-id", fmt.Sprint(id),
				"--coordinator-address", address, "--heartbeat-timeout", "1h")
		}
		return cmds, texts
	}
	parts := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "two", "part-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	// underWay starts both, and returns when they have made a part.
	underWay := func() (cmds [2]*exec.Cmd, texts [2]*bytes.Buffer) {
		before := parts()
		cmds, texts = both()
		for deadline := time.Now().Add(5 * time.Minute); parts() <= before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no part appears")
			}
		}
		return cmds, texts
	}
	for victim := range 2 {
		cmds, texts := underWay()
		killed := time.Now()
		if err := cmds[victim].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmds[victim].Wait()
		other := 1 - victim
		err := cmds[other].Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailure ||
			!strings.Contains(texts[other].String(), fmt.Sprintf("process %d", victim)) ||
			!strings.Contains(texts[other].String(), "is lost") {
			t.Errorf("process %d was killed: %v: %s", victim, err, texts[other])
		}
		t.Logf("process %d noticed the death of process %d after %s", other, victim, time.Since(killed))
		if parts() == 40 {
			t.Error("all was done before: the test does not reach what it is for")
		}
	}
	// One that is told to end ends both, in peace.
	cmds, texts := underWay()
	if err := cmds[1].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for id := range cmds {
		var exit *exec.ExitError
		if err := cmds[id].Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
			t.Errorf("process %d: %v: %s", id, err, texts[id])
		}
	}
	cmds, texts = both()
	for id := range cmds {
		if err := cmds[id].Wait(); err != nil {
			t.Fatalf("process %d: %v: %s", id, err, texts[id])
		}
	}
	one, text := start("one")
	if err := one.Wait(); err != nil {
		t.Fatal(text)
	}
	sameParts(t, filepath.Join(dir, "one"), filepath.Join(dir, "two"), 40)
}

// sameParts fails unless two folders have the same parts, so many of them.
func sameParts(t *testing.T, one, two string, number int) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(one), "part-*")
	if err != nil || len(names) != number {
		t.Fatalf("%d parts, want %d: %v", len(names), number, err)
	}
	for _, name := range names {
		a, err := os.ReadFile(filepath.Join(one, name))
		b, err2 := os.ReadFile(filepath.Join(two, name))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
}
