package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
)

// shared is a buffer that is read while it is written to.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A run that is under way reports how it stands.
func TestMetricsOfARun(t *testing.T) {
	t.Setenv("QUIRE_FAKE_DELAY", "20ms")
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rows, "{\"prompt\": \"row %d\"}\n", i)
	}
	rows.WriteString("{\"id\": \"nothing\"}\n")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "m.fake"), nil, 0o666),
		os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(rows.String()), 0o666)); err != nil {
		t.Fatal(err)
	}
	var out shared
	done := make(chan int)
	go func() {
		done <- sampleMain([]string{"run", "-m", filepath.Join(dir, "m.fake"), "-i", filepath.Join(dir, "in.jsonl"),
			"-o", filepath.Join(dir, "out"), "--metrics", ":0"},
			&cli.Environment{Stdout: io.Discard, Stderr: &out, Models: fakeModels{}, FS: vfs.OS})
	}()
	address := ""
	for range 6000 {
		if m := regexp.MustCompile(`metrics are at (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(
			out.String()); m != nil {
			address = m[1]
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	get := func(path string) (int, string) {
		answer, err := http.Get(address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	seen := false
	for range 12000 {
		if _, text := get("/metrics"); regexp.MustCompile(`quire_rows_total\{result="good"\} [1-9]`).MatchString(
			text) && strings.Contains(text, "quire_job_rows 101\n") {
			seen = true
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if code, text := get("/readyz"); !seen || code != 200 || text != "ok\n" {
		t.Errorf("%v %d %q\n%s", seen, code, text, out.String())
	}
	if code := <-done; code != cli.ExitPartial {
		t.Errorf("exit code %d", code)
	}
	if code, _ := get("/healthz"); code != 0 {
		t.Error("metrics are served after the run")
	}
}

// A report is made of a job in an object store that has no part yet, and of no folder that has no job.
func TestReportBeforeAPart(t *testing.T) {
	url := fakeBucket(t, 0)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model, page := filepath.Join(dir, "m.fake"), filepath.Join(dir, "page.html")
	put(t, url("in.jsonl"), "{\"prompt\": \"a\"}\n")
	if err := os.WriteFile(model, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, out := sampleFake("run", "-m", model, "-i", url("in.jsonl"), "-o", filepath.Join(dir, "out"), "--progress",
		"none"); code != cli.ExitOK {
		t.Fatal(out)
	}
	job, err := os.ReadFile(filepath.Join(dir, "out", "_job", "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, url("begun/_job/job.json"), string(job))
	if code, out := sampleFake("report", url("begun"), "-o", page); code != cli.ExitOK {
		t.Fatal(out)
	}
	if text, err := os.ReadFile(page); err != nil ||
		!strings.Contains(string(text), "0 of 1 parts of the job are there") {
		t.Errorf("%v\n%s", err, text)
	}
	if code, out := sampleFake("report", url("none"), "-o", page); code != cli.ExitFailure ||
		!strings.Contains(out, "holds no part files") {
		t.Errorf("%d %s", code, out)
	}
}
