package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/internal/testenv"
)

// A worker goes through several jobs, unit by unit on pages that earlier units left, with room for few of them, and is
// killed at random moments. The files are those of runs that nothing disturbed.
func TestWorkerOfJobsKilled(t *testing.T) {
	testenv.Slow(t)
	cache, err := setup.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server, err := local.Start(local.Options{Address: ":0", Dir: filepath.Join(dir, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	nats := "nats://" + server.Address()
	sample := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		path, err := exec.LookPath("real-sample")
		if err != nil {
			t.Fatal(err)
		}
		cmd, out := exec.Command(path, args...), &bytes.Buffer{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		cmd.Env = append(os.Environ(), "NATS_URL="+nats, "QUIRE_CACHE="+cache)
		return cmd, out
	}
	const rows = 24
	var text strings.Builder
	for i := range rows { // 3 prefixes of 40 tokens
		tokens := make([]string, 40)
		for j := range tokens {
			tokens[j] = fmt.Sprint((7*j + 11*(i%3)) % 200)
		}
		fmt.Fprintf(&text, `{"id": "%d", "prompt_token_ids": [%s, %d, 5]}`+"\n", i, strings.Join(tokens, ", "), i)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	var jobs []string
	wants := map[string]map[string]string{}
	for seed := range 3 {
		job := func(command, out string) []string {
			return []string{command, "-m", testenv.Path("testdata", "models", "llama3"), "-i", "in.jsonl", "-o", out,
				"--format", "jsonl", "--part-rows", "2", "-n", "2", "--max-tokens", "20", "--temperature", "1",
				"--seed", fmt.Sprint(seed), "--max-seqs", "3", "--page-size", "8", "--kv-memory", "300KB"}
		}
		whole, out := filepath.Join(dir, fmt.Sprint("whole", seed)), filepath.Join(dir, fmt.Sprint("out", seed))
		if cmd, text := sample(append(job("run", whole), "--progress", "none")...); cmd.Run() != nil {
			t.Fatal(text)
		}
		wants[out] = outputOf(t, whole)
		cmd, text := sample(append(job("submit", out), "--ack-wait", "2s", "--max-tries", "1000")...)
		if err := cmd.Run(); err != nil {
			t.Fatal(text)
		}
		id, _, _ := strings.Cut(text.String(), "\n")
		jobs = append(jobs, id)
	}
	parts := func() int {
		all, _ := filepath.Glob(filepath.Join(dir, "out*", "part-*"))
		return len(all)
	}
	const kills = 12
	random := rand.New(rand.NewPCG(2026, 11))
	total := len(jobs) * rows / 2
	for killed := 0; parts() < total; killed++ {
		cmd, text := sample("worker", "--name", "one", "--progress", "none")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until := parts() + 1 + random.IntN(total/kills)
		if killed >= kills {
			until = total
		}
		for deadline := time.Now().Add(4 * time.Minute); parts() < until; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Fatalf("the worker does not go on: %s", text)
			}
		}
		time.Sleep(time.Duration(random.IntN(int(20 * time.Millisecond))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, id := range jobs { // a worker that was killed with the last part may not have told of it
		if cmd, text := sample("worker", id, "--name", "one", "--progress", "none"); cmd.Run() != nil {
			t.Error(text)
		}
	}
	for out, want := range wants {
		if err := same(outputOf(t, out), want); err != nil {
			t.Error(err)
		}
	}
}
