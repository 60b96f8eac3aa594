package batch_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/batch/spec"
)

// startQueue starts a server of queues and connects to it.
func startQueue(t *testing.T) *queue.Queue {
	t.Helper()
	server, err := local.Start(local.Options{Address: ":0", Dir: filepath.Join(t.TempDir(), "nats")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	q, err := queue.Connect(t.Context(), queue.Options{URL: "nats://" + server.Address()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// submit puts a job into the queue.
func submit(t *testing.T, q *queue.Queue, spec spec.Spec) *distribute.Submission {
	t.Helper()
	task, err := batch.NewTask(spec, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := task.Submit(t.Context(), q, distribute.UnitOptions{MaxTries: queue.DefaultMaxTries}, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A job that goes through a queue has the files of one that does not, and submitted again there is nothing to do.
func TestSubmitAndWork(t *testing.T) {
	q := startQueue(t)
	spec := smallSpec(t, 3)
	spec.Engine.MaxSeqs = 4
	dir := t.TempDir()
	spec.Output = filepath.Join(dir, "alone")
	if _, err := batch.Run(t.Context(), spec, process.Options{}); err != nil {
		t.Fatal(err)
	}
	spec.Output = filepath.Join(dir, "queued")
	job := submit(t, q, spec)
	if job.Result != queue.Submitted || job.Waiting != 3 {
		t.Errorf("%v, %d units wait", job.Result, job.Waiting)
	}
	if err := (&distribute.Worker{}).Work(t.Context(), q, job.Job.ID); err != nil {
		t.Fatal(err)
	}
	if again := submit(t, q, spec); again.Result == queue.Submitted || again.Figures.Rows != 3 {
		t.Errorf("%v, %d rows", again.Result, again.Figures.Rows)
	}
	for _, part := range []string{"part-00000.jsonl", "part-00001.jsonl", "part-00002.jsonl"} {
		want, err := os.ReadFile(filepath.Join(dir, "alone", part))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "queued", part)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is %s, %v; want %s", part, got, err, want)
		}
	}
}

// Units that one engine does one after the other find the pages of those before, also of units that were given up. The
// files are those of a run without a queue.
func TestWorkersReuseTheirPages(t *testing.T) {
	const rows = 24
	spec := smallSpec(t, 1)
	var text strings.Builder
	for i := range rows { // 3 prefixes of 40 tokens
		tokens := make([]string, 40)
		for j := range tokens {
			tokens[j] = fmt.Sprint((7*j + 11*(i%3)) % 200)
		}
		fmt.Fprintf(&text, `{"id": "%d", "prompt_token_ids": [%s, %d, 5], "temperature": 1}`+"\n", i,
			strings.Join(tokens, ", "), i)
	}
	if err := os.WriteFile(spec.Inputs[0], []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spec.Sampling.MaxTokens, spec.Engine.MaxSeqs, spec.Engine.PageSize = 20, 2, 8
	spec.Output = filepath.Join(dir, "alone")
	if _, err := batch.Run(t.Context(), spec, process.Options{}); err != nil {
		t.Fatal(err)
	}
	spec.Output = filepath.Join(dir, "queued")
	q := startQueue(t)
	job := submit(t, q, spec)
	part := func(output string, row int) string {
		return filepath.Join(dir, output, fmt.Sprintf("part-%05d.jsonl", row))
	}
	for _, until := range []int{5, 14, rows} { // parts that a worker sees before it is ended
		ctx, end := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if all, _ := filepath.Glob(filepath.Join(dir, "queued", "part-*")); len(all) >= until {
					end()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		if err := (&distribute.Worker{}).Work(ctx, q, job.Job.ID); err != nil &&
			outcome.Of(err) != outcome.Interrupted {
			t.Fatal(err)
		}
		end()
	}
	for row := range rows {
		want, err := os.ReadFile(part("alone", row))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(part("queued", row)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("row %d is %s, %v; want %s", row, got, err, want)
		}
	}
}
