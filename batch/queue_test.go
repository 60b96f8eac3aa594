package batch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/queue/local"
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

// A job that goes through a queue has the files of one that does not, and submitted again there is nothing to do.
func TestSubmitAndWork(t *testing.T) {
	q := startQueue(t)
	spec := smallSpec(t, 3)
	spec.Engine.MaxSeqs = 4
	dir := t.TempDir()
	spec.Output = filepath.Join(dir, "alone")
	if _, err := batch.Run(t.Context(), spec, batch.Options{}); err != nil {
		t.Fatal(err)
	}
	spec.Output = filepath.Join(dir, "queued")
	submit := func() *batch.Submission {
		task, err := batch.NewTask(spec, batch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := task.Submit(t.Context(), q, batch.UnitOptions{MaxTries: queue.DefaultMaxTries}, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	job := submit()
	if job.Result != queue.Submitted || job.Waiting != 3 {
		t.Errorf("%v, %d units wait", job.Result, job.Waiting)
	}
	if err := (&batch.Worker{}).Work(t.Context(), q, job.Job.ID); err != nil {
		t.Fatal(err)
	}
	if again := submit(); again.Result == queue.Submitted || again.Figures.Rows != 3 {
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
