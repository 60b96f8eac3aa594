package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
	"github.com/quire/quire/vfs"
)

const (
	// maxWorkers bounds a slip of the hand.
	maxWorkers = 1024
	// localAckWait is how long a silent worker of this machine is waited for. One that died is started again and gives
	// back what it had, so that this is for those that stand still.
	localAckWait = 10 * time.Second
	// localPatience is how long a worker waits for the server of this machine, which is started again when it dies.
	localPatience = 2 * time.Minute
)

// pollStatus is the time between two looks at the queue.
var pollStatus = 250 * time.Millisecond

// workersReport is the final report of a run with workers.
type workersReport struct {
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
}

// runWorkers does a job with several processes of this machine, which take its units from a queue on this machine. The
// queue lasts no longer than this call: what is done is told by the output folder.
func runWorkers(ctx context.Context, env *environment, o *runOptions, f *flags) (err error) {
	started := time.Now()
	if err := o.refuse(f, "--workers", "config", "new", "work-dir", "workers", "ack-wait", "max-tries", "max-restarts",
		"progress", "report", "log-format", "log-level"); err != nil {
		return &exitError{exitUsage, fmt.Errorf("run: %w", err)}
	}
	if o.units.ackWait == 0 {
		o.units.ackWait = localAckWait
	}
	if err := o.needDevice(ctx, env); err != nil {
		return err
	}
	j, err := openJob(ctx, env, o)
	if err != nil {
		return err
	}
	work, err := o.workFolder()
	if err != nil {
		return err
	}
	dir := filepath.Join(work, jobstate.Folder, "queue")
	if err := env.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("cannot make the work folder: %w", err)
	}
	var lock io.Closer
	err = patiently(ctx, vfs.ErrLocked, func() (err error) {
		lock, err = env.fs.Lock(filepath.Join(dir, "lock"))
		return err
	})
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%s: %w, with workers; wait for it, or choose another output folder", o.output,
			jobstate.ErrBusy)
	} else if err != nil {
		return fmt.Errorf("cannot lock the output folder %s: %w", o.output, err)
	}
	defer lock.Close()
	job, err := j.queueJob(o, f, tally.Counts{})
	if err != nil {
		return err
	}
	saved, err := openSaved(ctx, env.fs, o, j.parts, j.description)
	if err != nil {
		return err
	}
	saved.tellDamaged(env.stderr)
	if len(saved.missing) == 0 {
		return errors.Join(finished(env, o, saved, j.fingerprint, started), saved.close())
	}
	warnOfColumns(env.stderr, j.reader)
	before := saved.before
	job.Before = before
	if o.progress != "none" && before.Rows > 0 {
		fmt.Fprintf(env.stderr, "going on with the job in %s: %d of %d parts are published\n", o.output,
			j.parts.Count()-len(saved.missing), j.parts.Count())
	}
	missing := saved.missing
	if err := saved.close(); err != nil { // the units take locks of their own
		return err
	}
	store := filepath.Join(dir, "nats")
	if err := os.RemoveAll(store); err != nil {
		return fmt.Errorf("cannot clear the queue of an earlier process: %w", err)
	}
	c := &crew{options: o, env: env, log: o.logger(env), store: store, secrets: o.secrets, password: rand.Text()}
	s, workErr := c.work(ctx, job, j.units(missing), newMeter(env.stderr, o.progress, j.parts.Rows))
	interrupted := ctx.Err() != nil
	// The folder is asked what is done, not the queue.
	one := context.WithoutCancel(ctx)
	o.anew = false
	if saved, err = openSaved(one, env.fs, o, j.parts, j.description); err != nil {
		return errors.Join(workErr, err)
	}
	defer func() { err = errors.Join(err, saved.close()) }()
	if len(saved.missing) == 0 {
		interrupted = false
		if err := errors.Join(saved.clearJournals(env.fs), os.RemoveAll(store)); err != nil {
			return err
		}
	}
	report := &workersReport{
		Version: quireVersion(), Model: o.model, Fingerprint: j.fingerprint, Inputs: o.inputs, Output: o.output,
		Parameters: o.parameters(),
		Counts:     saved.before, RowsBefore: before.Rows, RowsHere: saved.before.Rows - before.Rows,
		Workers: o.units.workers, Restarts: c.restarts, Interrupted: interrupted,
		TotalSeconds: time.Since(started).Seconds(),
	}
	if s != nil {
		for _, u := range s.ParkedUnits {
			report.Parked = append(report.Parked, fmt.Sprintf("%s: %s", u.Unit, u.Error))
		}
	}
	report.print(env)
	if o.report != "" {
		if err := writeReport(o.report, report); err != nil {
			return err
		}
	}
	kept := fmt.Sprintf(
		"%d of %d rows are in finished parts in %s, and what was finished of others is kept; run the same command "+
			"again to go on", saved.before.Rows, j.parts.Rows, o.output)
	switch {
	case interrupted:
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %s", kept)}
	case len(report.Parked) > 0:
		return fmt.Errorf("%s %s parked, and %s missing: %s (%s)", plural.Count(len(report.Parked), "unit"),
			plural.Of(len(report.Parked), "is", "are"), plural.Of(len(report.Parked), "its part is", "their parts are"),
			strings.Join(report.Parked[:min(len(report.Parked), errorExamples)], "; "), kept)
	case workErr != nil:
		return fmt.Errorf("%w (%s)", workErr, kept)
	case len(saved.missing) > 0:
		return fmt.Errorf("%s not finished, and nothing says why: this is a fault, please report it (%s)",
			plural.Count(len(saved.missing), "part")+plural.Of(len(saved.missing), " was", " were"), kept)
	case report.RowsWithErrors > 0:
		return &exitError{exitPartial, fmt.Errorf("%d of %d rows carry errors: see the column error in %s",
			report.RowsWithErrors, report.Rows, o.output)}
	}
	return nil
}

func (r *workersReport) print(env *environment) {
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them in parts of earlier runs, %d in parts of this one", r.RowsBefore, r.RowsHere)
	}
	fmt.Fprintf(env.stdout,
		"rows         %s\ncompletions  %d (%s)\ntokens       %d of prompts, %d generated\nworkers      %d, started "+
			"again %s\ntotal time   %s\noutput       %s\n",
		rows, r.Completions, r.FinishReasons, r.PromptTokens, r.CompletionTokens, r.Workers,
		plural.Count(r.Restarts, "time"), seconds(r.TotalSeconds), r.Output)
	for _, p := range r.Parked {
		fmt.Fprintf(env.stdout, "parked       %s\n", visible.Line(p))
	}
}

// withSecrets lists the URLs of the job that have parameters, which the workers need and nobody else may see. It must
// be called before hideParameters.
func (o *runOptions) withSecrets() (urls []string) {
	for _, name := range append([]string{o.model, o.output}, o.inputs...) {
		if storage.IsRemote(name) && strings.Contains(name, "?") {
			urls = append(urls, name)
		}
	}
	return urls
}
