package batch_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/internal/testenv"
)

// smallSpec is a job of so many rows, each a part, whose output is in a folder of its own.
func smallSpec(t *testing.T, rows int) spec.Spec {
	t.Helper()
	dir := t.TempDir()
	input := filepath.Join(dir, "prompts.jsonl")
	text := strings.Repeat(`{"prompt_token_ids": [14, 88, 220, 43]}`+"\n", rows)
	if err := os.WriteFile(input, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := spec.Default()
	spec.Model, spec.Inputs = testenv.Path("testdata", "models", "llama3"), []string{input}
	spec.Output, spec.Format, spec.PartRows = filepath.Join(dir, "out"), "jsonl", 1
	spec.Sampling.MaxTokens, spec.Engine.KVMemory = 5, 1<<20
	return spec
}

// A worker that opened its engine before another process started the job opens it again, with the sizes of that one.
func TestWorkerTakesSizesOfTheJob(t *testing.T) {
	spec := smallSpec(t, 3)
	q := startQueue(t)
	job := submit(t, q, spec)

	other := spec
	other.Engine.MaxModelLen = 64
	var lengths []int
	w := &distribute.Worker{}
	w.Opened = func(s *process.Session) (closing func(), err error) {
		if lengths = append(lengths, s.Plan().MaxModelLen); len(lengths) > 1 {
			return nil, nil
		}
		_, err = batch.Run(t.Context(), other, process.Options{Shard: jobstate.Shard{Index: 2, Count: 3}})
		return nil, err
	}
	if err := w.Work(t.Context(), q, job.Job.ID); err != nil {
		t.Fatal(err)
	}
	if len(lengths) != 2 || lengths[0] == 64 || lengths[1] != 64 {
		t.Errorf("the engines take sequences of %v tokens, want another number than 64, and then 64", lengths)
	}
}

// firstRow ends a run when a row is done.
type firstRow struct{ end context.CancelFunc }

func (p firstRow) Start(int64) {}

func (p firstRow) Finish(_, _, _ tally.Counts) {}

func (p firstRow) Update(done, _, _ tally.Counts) {
	if done.Rows > 0 {
		p.end()
	}
}

// A task that was to start over and was interrupted continues, and does not start over again.
func TestInterruptedTaskGoesOn(t *testing.T) {
	spec := smallSpec(t, 20)
	spec.Engine.MaxSeqs = 1
	ctx, end := context.WithCancel(t.Context())
	defer end()
	task, err := batch.NewTask(spec, process.Options{New: true, Progress: firstRow{end}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := task.Run(ctx)
	if outcome.Of(err) != outcome.Interrupted {
		t.Fatal(err)
	}
	again, err := task.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.Rows == 0 || again.RowsBefore != first.Rows || again.Rows != 20 {
		t.Errorf("%d rows, then %d of them before and %d at last", first.Rows, again.RowsBefore, again.Rows)
	}
}
