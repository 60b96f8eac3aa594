package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/tally"
	"github.com/quire/quire/vfs"
)

// Crew does the units of a job that are missing by processes of its own, until none is left or ctx is done. store is a
// folder for a queue's server, which is empty. The status is how far it came.
type Crew func(ctx context.Context, store string, job queue.Job, units []queue.Unit) (*queue.Status, error)

// CrewReport says what a run with workers came to; "sample run --workers --report" writes it as JSON.
type CrewReport struct {
	Version     string         `json:"version"`
	Model       string         `json:"model"`
	Fingerprint string         `json:"model_fingerprint"`
	Inputs      []string       `json:"inputs"`
	Output      string         `json:"output"`
	Parameters  map[string]any `json:"parameters"`

	tally.Counts          // of the parts that are there
	RowsBefore   int64    `json:"rows_before"` // of these, in parts that earlier runs published
	RowsHere     int64    `json:"rows_here"`   // the others
	Workers      int      `json:"workers"`
	Restarts     int      `json:"worker_restarts"`
	Parked       []string `json:"parked,omitempty"`
	Interrupted  bool     `json:"interrupted"`
	TotalSeconds float64  `json:"total_seconds"`

	// AlreadyFinished is the report where nothing was left to do.
	AlreadyFinished *Report `json:"-"`
}

// distribute is [Task.Distribute] once the job is open.
func distribute(ctx context.Context, p *Process, opened *Opened, started time.Time, units UnitOptions, crew Crew) (
	report *CrewReport, err error) {
	j := opened.job
	if err := opened.checkLineage(ctx, jobstate.Shard{}); err != nil {
		return nil, err
	}
	dir, lock, err := lockQueue(ctx, p, j)
	if err != nil {
		saved, err := openFinished(ctx, p, opened, err)
		if err != nil {
			return nil, err
		}
		return crewFinished(saved, started)
	}
	defer lock.Close()
	job, err := opened.queueJob(ctx, units, tally.Counts{})
	if err != nil {
		return nil, err
	}
	saved, err := openSaved(ctx, p, opened)
	if err != nil {
		return nil, err
	}
	saved.tellDamaged(p.Messages)
	if len(saved.missing) == 0 {
		return crewFinished(saved, started)
	}
	warnOfInput(ctx, p, opened)
	before := saved.before
	job.Before = before
	if before.Rows > 0 {
		p.say("going on with the job in %s: %d of %d parts are published", j.Output,
			opened.parts.Count()-len(saved.missing), opened.parts.Count())
	}
	missing := saved.missing
	if err := saved.close(); err != nil { // the units take locks of their own
		return nil, err
	}
	store := filepath.Join(dir, "nats")
	if err := os.RemoveAll(store); err != nil {
		return nil, fmt.Errorf("cannot clear the queue of an earlier process: %w", err)
	}
	s, workErr := crew(ctx, store, job, opened.units(missing))
	report = &CrewReport{Version: p.Version, Model: j.Model, Fingerprint: opened.model.Fingerprint, Inputs: j.Inputs,
		Output: j.Output, Parameters: saved.job.parameters(), RowsBefore: before.Rows, Interrupted: ctx.Err() != nil}
	if s != nil {
		for _, u := range s.ParkedUnits {
			report.Parked = append(report.Parked, fmt.Sprintf("%s: %s", u.Unit, u.Error))
		}
	}
	left, err := lookAfter(ctx, p, opened, store, report)
	if err != nil {
		return nil, errors.Join(workErr, err)
	}
	report.TotalSeconds = time.Since(started).Seconds()
	return report, report.ending(left, opened.parts.Rows, workErr)
}

// crewFinished reports that nothing is left to do.
func crewFinished(saved *savedJob, started time.Time) (*CrewReport, error) {
	finished, err := saved.alreadyFinished(started)
	if err = errors.Join(err, saved.close()); finished == nil {
		return nil, err
	}
	return &CrewReport{AlreadyFinished: finished}, err
}

// lockQueue locks the folder of the job's own queue.
func lockQueue(ctx context.Context, p *Process, j *Job) (dir string, lock io.Closer, err error) {
	work, err := p.workFolder(j)
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(work, jobstate.Folder, "queue")
	if err := p.FS.MkdirAll(dir); err != nil {
		return "", nil, fmt.Errorf("cannot make the work folder: %w", err)
	}
	err = patiently(ctx, vfs.ErrLocked, func() (err error) {
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

// lookAfter asks the folder, not the queue, what is done, and returns how many parts are missing.
func lookAfter(ctx context.Context, p *Process, opened *Opened, store string, report *CrewReport) (left int,
	err error) {
	saved, err := openSaved(context.WithoutCancel(ctx), p.goesOn(), opened)
	if err != nil {
		return 0, err
	}
	report.Counts, report.RowsHere = saved.before, saved.before.Rows-report.RowsBefore
	if len(saved.missing) == 0 {
		report.Interrupted = false
		err = errors.Join(saved.clearJournals(), os.RemoveAll(store))
	}
	return len(saved.missing), errors.Join(err, saved.close())
}

// ending is how a run with workers ended.
func (r *CrewReport) ending(missing int, rows int64, workErr error) error {
	kept := fmt.Sprintf(
		"%d of %d rows are in finished parts in %s, and what was finished of others is kept; run the same command "+
			"again to go on", r.Rows, rows, r.Output)
	switch {
	case r.Interrupted:
		return endWith(Interrupted, "interrupted: %s", kept)
	case len(r.Parked) > 0:
		return fmt.Errorf("%s %s parked, and %s missing: %s (%s)", plural.Count(len(r.Parked), "unit"),
			plural.Of(len(r.Parked), "is", "are"), plural.Of(len(r.Parked), "its part is", "their parts are"),
			strings.Join(r.Parked[:min(len(r.Parked), errorExamples)], "; "), kept)
	case workErr != nil && (missing > 0 || OutcomeOf(workErr) != Partial):
		return fmt.Errorf("%w (%s)", workErr, kept)
	case missing > 0:
		return notFinished(missing, kept)
	}
	return rowsWithErrors(r.RowsWithErrors, r.Rows, r.Output)
}
