package distribute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Workers does the units of a job that are missing by processes of its own, until none is left or ctx is done. store is
// a folder for a queue's server, which is empty. The status is how far it came.
type Workers func(ctx context.Context, store string, job queue.Job, units []queue.Unit) (*queue.Status, error)

// Report describes what a run with workers came to; "sample run --workers --report" writes it as JSON.
type Report struct {
	Version     string         `json:"version"`
	Model       string         `json:"model"`
	Fingerprint string         `json:"model_fingerprint"`
	Inputs      []string       `json:"inputs"`
	Output      string         `json:"output"`
	Parameters  map[string]any `json:"parameters"`

	tally.Counts          // counts of the published parts
	RowsBefore   int64    `json:"rows_before"` // rows in parts that earlier runs published
	RowsHere     int64    `json:"rows_here"`   // the others
	Workers      int      `json:"workers"`
	Restarts     int      `json:"worker_restarts"`
	Parked       []string `json:"parked,omitempty"`
	Interrupted  bool     `json:"interrupted"`
	TotalSeconds float64  `json:"total_seconds"`

	// AlreadyFinished is the report if nothing was left to do.
	AlreadyFinished *generate.Report `json:"-"`
}

// Run is [Task.Distribute] once the job is open.
func Run(ctx context.Context, p *process.Process, opened *prepare.Opened, started time.Time, units UnitOptions,
	crew Workers) (
	report *Report, err error) {
	j := opened.Job
	if err := opened.CheckLineage(ctx, jobstate.Shard{}); err != nil {
		return nil, err
	}
	dir, lock, err := lockQueue(ctx, p, j)
	if err != nil {
		saved, err := resume.OpenFinished(ctx, p, opened, err)
		if err != nil {
			return nil, err
		}
		return finishedReport(saved, started)
	}
	defer lock.Close()
	job, err := queueJob(ctx, opened, units, tally.Counts{})
	if err != nil {
		return nil, err
	}
	saved, err := resume.OpenPatiently(ctx, p, opened)
	if err != nil {
		return nil, err
	}
	saved.ReportDamage(p.Messages)
	if len(saved.Missing) == 0 {
		return finishedReport(saved, started)
	}
	prepare.WarnAboutInput(ctx, p, opened)
	before := saved.Before
	job.Before = before
	if before.Rows > 0 {
		p.Statusf("continuing the job in %s: %d of %d parts are published", j.Output,
			opened.Parts.Count()-len(saved.Missing), opened.Parts.Count())
	}
	missing := saved.Missing
	if err := saved.Close(); err != nil { // the units take locks of their own
		return nil, err
	}
	store := filepath.Join(dir, "nats")
	if err := os.RemoveAll(store); err != nil {
		return nil, fmt.Errorf("cannot clear the queue of an earlier process: %w", err)
	}
	s, workErr := crew(ctx, store, job, missingUnits(opened, missing))
	report = &Report{Version: p.Version, Model: j.Model, Fingerprint: opened.Model.Fingerprint, Inputs: j.Inputs,
		Output: j.Output, Parameters: saved.Job.Parameters(), RowsBefore: before.Rows, Interrupted: ctx.Err() != nil}
	if s != nil {
		for _, u := range s.ParkedUnits {
			report.Parked = append(report.Parked, fmt.Sprintf("%s: %s", u.Unit, u.Error))
		}
	}
	left, err := recount(ctx, p, opened, store, report)
	if err != nil {
		return nil, errors.Join(workErr, err)
	}
	report.TotalSeconds = time.Since(started).Seconds()
	return report, report.result(left, opened.Parts.Rows, workErr)
}

// finishedReport reports that nothing is left to do.
func finishedReport(saved *resume.Saved, started time.Time) (*Report, error) {
	finished, err := generate.AlreadyFinished(saved, started)
	if err = errors.Join(err, saved.Close()); finished == nil {
		return nil, err
	}
	return &Report{AlreadyFinished: finished}, err
}

// lockQueue locks the folder of the job's own queue.
func lockQueue(ctx context.Context, p *process.Process, j *spec.Job) (dir string, lock io.Closer, err error) {
	work, err := p.WorkFolder(j)
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(work, jobstate.Folder, "queue")
	if err := p.FS.MkdirAll(dir); err != nil {
		return "", nil, fmt.Errorf("cannot make the work folder: %w", err)
	}
	err = prepare.RetryWhile(ctx, vfs.ErrLocked, func() (err error) {
		lock, err = p.FS.Lock(filepath.Join(dir, "lock"))
		return err
	})
	if errors.Is(err, vfs.ErrLocked) {
		return "", nil, fmt.Errorf("%s: %w, with workers; wait for it, or choose another output folder", j.Output,
			jobstate.ErrBusy)
	} else if err != nil {
		return "", nil, fmt.Errorf("cannot lock the output folder %s: %w", j.Output, err)
	}
	return dir, lock, nil
}

// recount asks the folder, not the queue, what is done, and returns how many parts are missing.
func recount(ctx context.Context, p *process.Process, opened *prepare.Opened, store string, report *Report) (left int,
	err error) {
	saved, err := resume.OpenPatiently(context.WithoutCancel(ctx), p.Continuing(), opened)
	if err != nil {
		return 0, err
	}
	report.Counts, report.RowsHere = saved.Before, saved.Before.Rows-report.RowsBefore
	if len(saved.Missing) == 0 {
		report.Interrupted = false
		err = errors.Join(saved.ClearJournals(), os.RemoveAll(store))
	}
	return len(saved.Missing), errors.Join(err, saved.Close())
}

// result is how a run with workers ended.
func (r *Report) result(missing int, rows int64, workErr error) error {
	kept := fmt.Sprintf(
		"%d of %d rows are in finished parts in %s, and what was finished of others is kept; run the same command "+
			"again to continue", r.Rows, rows, r.Output)
	switch {
	case r.Interrupted:
		return outcome.Errorf(outcome.Interrupted, "interrupted: %s", kept)
	case len(r.Parked) > 0:
		return fmt.Errorf("%s %s parked, and %s missing: %s (%s)", plural.Count(len(r.Parked), "unit"),
			plural.Of(len(r.Parked), "is", "are"), plural.Of(len(r.Parked), "its part is", "their parts are"),
			strings.Join(r.Parked[:min(len(r.Parked), outcome.ErrorExamples)], "; "), kept)
	case workErr != nil && (missing > 0 || outcome.Of(workErr) != outcome.Partial):
		return fmt.Errorf("%w (%s)", workErr, kept)
	case missing > 0:
		return generate.NotFinished(missing, kept)
	}
	return outcome.RowsWithErrors(r.RowsWithErrors, r.Rows, r.Output)
}
