// Package process describes how this process does a job: its options, its place among several hosts, the session with
// the model, and when a device that hangs ends the process.
package process

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
)

// Describe checks what a job is, and that the options do not contradict it. The error is a [*FieldError], or reports
// which options contradict each other.
func Describe(s spec.Spec, o Options) (*spec.Job, error) {
	j, p := &spec.Job{Spec: s}, &Process{Options: o}
	err := spec.FirstError(j.Spec.Validate, func() error { return p.validate(&j.Spec) }, j.Spec.HideURLParameters)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Process is how this process works. It does not change: a phase that works differently, such as a lease of a queue,
// which has a shard of its own, has a different Process.
type Process struct {
	Options
	Queued string // the job of a queue whose units this process does; empty elsewhere
	Writer string // a name of its own for what is not published, if a shard may have several writers
}

// ForUnit is the process at a unit of a queue: a shard, alongside other shards and apart from runs of the whole.
func (p *Process) ForUnit(shard jobstate.Shard, writer string) *Process {
	own := *p
	own.Shard, own.Writer = shard, writer
	return &own
}

// ForText is the process that opens no engine.
func (p *Process) ForText() *Process {
	own := *p
	own.TextOnly = true
	return &own
}

// Continuing is the process after it has started its job, which it removes no more.
func (p *Process) Continuing() *Process {
	own := *p
	own.New = false
	return &own
}

func (p *Process) Several() bool { return p.Hosts.Several() }

// WorkFolder is the folder of a job's state and journal.
func (p *Process) WorkFolder(j *spec.Job) (string, error) { return WorkFolder(j.Output, p.WorkDir) }

// WorkFolder returns the folder with the state and the journal of the job in an output folder: workDir if it is given,
// else the output folder, and for an output elsewhere a local folder of its own.
func WorkFolder(output, workDir string) (string, error) {
	if workDir != "" {
		return workDir, nil
	}
	if !storage.IsRemote(output) {
		return output, nil
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(storage.Redact(output), "/")))
	return filepath.Join(cache, "jobs", hex.EncodeToString(sum[:8])), nil
}

// Printf writes a line, which may name settings: see [setting.Text].
func (p *Process) Printf(format string, args ...any) {
	fmt.Fprintln(p.Messages, setting.Textf(format, args...).Spell(p.Spelling))
}

// Statusf writes a line about how far the job is.
func (p *Process) Statusf(format string, args ...any) {
	if !p.Quiet {
		p.Printf(format, args...)
	}
}

// ReportOpening reports that the model is opened.
func (p *Process) ReportOpening(j *spec.Job) {
	p.Statusf("opening %s on %s; a first run compiles its programs, later ones find them in the cache", j.Model,
		j.Engine.Backend)
}

// ReportDefaults reports which parameters the model's files give.
func (p *Process) ReportDefaults(j *spec.Job) {
	if j.Defaults != "" {
		p.Statusf("defaults: %s; `generation-config` none takes none", j.Defaults)
	}
}

// ReportPlan reports what the engine settled on.
func (p *Process) ReportPlan(plan engine.Plan) {
	if p.Verbose {
		p.Statusf("%s", plan)
	} else {
		p.Statusf("%s", plan.Brief())
	}
}

// ReportWaiting reports what a plugin does that takes long.
func (p *Process) ReportWaiting(waited time.Duration, what string) {
	p.Printf("warning: waiting for %s: %s", waited, what)
}

// OutputRemedy is the remedy for an output that has something else, worded for whoever can act on it.
func (p *Process) OutputRemedy() setting.Text {
	switch {
	case p.Queued != "":
		return setting.Textf(
			"cancel this job (\"sample cancel %s\") and submit it with another output, or with "+
				"\"sample submit `new`\", which removes what is there", p.Queued)
	case !p.Shard.Whole():
		return setting.Textf("choose another `output`, or remove what is there")
	}
	return setting.Textf("choose another `output`, or give `new` to remove what is there")
}

// ShardText is a shard in reports; it is empty for the whole job.
func ShardText(shard jobstate.Shard) string {
	if shard.Whole() {
		return ""
	}
	return shard.String()
}
