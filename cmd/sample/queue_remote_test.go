package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/queue/local"
)

// Workers of several machines, each with a work folder of its own, write objects: those of a run here. One that dies
// costs its units in flight; no parameter of a URL is in the queue, nor anywhere else.
func TestQueueOfObjects(t *testing.T) {
	url := fakeBucket(t, 0)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	var rows strings.Builder
	for i := range 120 {
		fmt.Fprintf(&rows, "{\"prompt\": \"row %d\"}\n", i)
	}
	put(t, url("in/a.jsonl"), rows.String())
	model := filepath.Join(dir, "m.fake")
	for path, text := range map[string]string{model: "", filepath.Join(dir, "a.jsonl"): rows.String()} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	server, err := local.Start(local.Options{Address: ":0", Dir: filepath.Join(dir, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	nats := "nats://" + server.Address()
	sample := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		path, err := exec.LookPath("sample")
		if err != nil {
			t.Fatal(err)
		}
		cmd, out := exec.Command(path, args...), &bytes.Buffer{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		cmd.Env = append(os.Environ(), "NATS_URL="+nats, "QUIRE_FAKE_DELAY=3ms")
		return cmd, out
	}
	job := func(command, in, out string) []string {
		return []string{command, "-m", model, "-i", in, "-o", out, "--part-rows", "7", "-n", "2"}
	}
	whole := filepath.Join(dir, "whole")
	if cmd, out := sample(append(job("run", "a.jsonl", whole), "--progress", "none")...); cmd.Run() != nil {
		t.Fatal(out)
	}
	// Only the rows' file has another name, which is in no output.
	want := outputOf(t, whole)

	cmd, out := sample(append(job("submit", url("in/"), url("out/")), "--ack-wait", "1s")...)
	if err := cmd.Run(); err != nil {
		t.Fatal(out)
	}
	id, _, _ := strings.Cut(out.String(), "\n")
	q, err := queue.Connect(context.Background(), queue.Options{URL: nats})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if j, err := q.Job(t.Context(), id); err != nil || bytes.Contains(j.Config, []byte("path_style")) ||
		strings.Contains(j.Name, "endpoint") {
		t.Fatalf("%s, %v", j.Config, err)
	}
	type running struct {
		cmd *exec.Cmd
		out *bytes.Buffer
	}
	var workers []running
	for i := range 3 {
		cmd, out := sample("worker", id, "--work-dir", fmt.Sprintf("machine-%d", i), "--storage", url(""))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, running{cmd, out})
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s, err := q.Status(t.Context(), id)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v: %s", s, err, workers[0].out)
		}
		if s.Done > 2 && s.Running > 0 {
			break
		}
	}
	_ = workers[0].cmd.Process.Signal(syscall.SIGKILL)
	_ = workers[0].cmd.Wait()
	for _, w := range workers[1:] {
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, w.out)
		}
		if strings.Contains(w.out.String(), "path_style") {
			t.Errorf("a worker shows the parameters: %s", w.out)
		}
	}
	if err := same(outputOf(t, url("out/")), want); err != nil {
		t.Error(err)
	}

	// On one machine the parameters go to the workers too.
	cmd, out = sample(append(job("run", url("in/"), url("out2/")), "--workers", "2", "--progress", "none")...)
	if err := cmd.Run(); err != nil || strings.Contains(out.String(), "path_style") {
		t.Fatal(err, out)
	}
	if err := same(outputOf(t, url("out2/")), want); err != nil {
		t.Error(err)
	}
}
