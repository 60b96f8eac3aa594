package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/cmd/sample/queues"
	"github.com/quire/quire/data/vfs"
)

// queueAndRow starts a queue's server, and makes a folder with a model, m.fake, and an input of one row, in.jsonl.
func queueAndRow(t *testing.T) (dir, nats string) {
	t.Helper()
	dir = t.TempDir()
	server, err := local.Start(local.Options{Address: ":0", Dir: filepath.Join(dir, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "m.fake"), nil, 0o666),
		os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(`{"prompt":"a"}`), 0o666)); err != nil {
		t.Fatal(err)
	}
	return dir, "nats://" + server.Address()
}

// A unit whose worker is silent and lives, as its lock says, stays that worker's, and does not count as failed.
func TestUnitOfAWorkerThatLives(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, nats := queueAndRow(t)
	var out, id shared
	env := &cli.Environment{Stdout: &id, Stderr: &out, Models: fakeModels{}, FS: vfs.OS}
	output := filepath.Join(dir, "out")
	submit := []string{"submit", "-m", filepath.Join(dir, "m.fake"), "-i", filepath.Join(dir, "in.jsonl"), "-o", output,
		"--part-rows", "1", "--nats", nats, "--ack-wait", "1s", "--max-tries", "2"}
	if code := sampleMain(submit, env); code != cli.ExitOK {
		t.Fatal(code, out.String())
	}
	connect := func() (*queue.Queue, queue.Job) {
		q, err := queue.Connect(t.Context(), queue.Options{URL: nats})
		if err != nil {
			t.Fatal(err)
		}
		j, err := q.Job(t.Context(), strings.TrimSpace(id.String()))
		if err != nil {
			t.Fatal(err)
		}
		return q, j
	}
	silent, job := connect()
	w, err := silent.Worker(t.Context(), job, "silent")
	if err != nil {
		t.Fatal(err)
	}
	var lease *queue.Lease
	for range 100 {
		if lease, err = w.Next(t.Context(), 100*time.Millisecond); err != nil || lease != nil {
			break
		}
	}
	if lease == nil {
		t.Fatal("no unit", err)
	}
	lock, err := jobstate.OpenShard(vfs.OS, output, jobstate.Shard{Index: lease.Number, Count: job.Units})
	if err != nil {
		t.Fatal(err)
	}
	silent.Close() // its heartbeats do not come any more
	q, _ := connect()
	defer q.Close()
	o := queues.WorkerOptions{Queue: jobflags.Queue{URL: nats, Patience: time.Minute},
		Worker: distribute.Worker{Name: "w",
			Options: process.Options{MaxRestarts: 1}}, Progress: "plain",
		Observing: jobflags.Observing{LogFormat: "text", LogLevel: "info"}}
	done := make(chan error)
	go func() { done <- o.RunWorker(t.Context(), env, job.ID) }()
	for deadline := time.Now().Add(time.Minute); strings.Count(out.String(),
		"a unit is worked on elsewhere") < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(out.String())
		}
	}
	for range 20 {
		// on a busy machine it may wait for a moment
		if s, err := q.Status(t.Context(), job.ID); err != nil || s.Parked > 0 {
			t.Fatalf("%d are parked, %v", s.Parked, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	lock.Close() // it died
	if err := <-done; err != nil {
		t.Error(err, out.String())
	}
}

// A worker that has nothing to do is healthy, before its first job and after it.
func TestWaitingWorkerIsHealthy(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, nats := queueAndRow(t)
	var out shared
	env := &cli.Environment{Stdout: io.Discard, Stderr: &out, Models: fakeModels{}, FS: vfs.OS}
	o := queues.WorkerOptions{Queue: jobflags.Queue{URL: nats, Patience: time.Minute},
		Worker:   distribute.Worker{Name: "w"},
		Progress: "plain", Observing: jobflags.Observing{Metrics: ":0", LogFormat: "text"}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.RunWorker(ctx, env, "") }()
	// until asks until the answer is what is wanted.
	until := func(path string, code int, text string) {
		t.Helper()
		last := ""
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			m := regexp.MustCompile(`metrics are at (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(out.String())
			if m == nil {
				continue
			}
			answer, err := http.Get(m[1] + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if last = string(body); answer.StatusCode == code && strings.Contains(last, text) {
				return
			}
		}
		t.Fatalf("%s is not %d with %q: %s\n%s", path, code, text, last, out.String())
	}
	until("/readyz", http.StatusOK, "ok") // without a model
	until("/metrics", http.StatusOK, "quire_waiting 1\n")
	submit := []string{"submit", "-m", filepath.Join(dir, "m.fake"), "-i", filepath.Join(dir, "in.jsonl"), "-o",
		filepath.Join(dir, "out"), "--nats", nats}
	if code := sampleMain(submit, env); code != cli.ExitOK {
		t.Fatal(code, out.String())
	}
	until("/metrics", http.StatusOK, `quire_rows_total{result="good"} 1`)
	until("/metrics", http.StatusOK, "quire_waiting 1\n")
	until("/healthz", http.StatusOK, "ok")
	cancel()
	if err := <-done; outcome.Of(err) != outcome.Interrupted {
		t.Error(err)
	}
}
