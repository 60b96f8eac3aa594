package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
)

// Process is how this process works. Nothing of it changes: a phase that works in another way, such as a lease of a
// queue, which has a shard of its own, has another Process.
type Process struct {
	Options
	queued string // the job of a queue whose units this process does; empty elsewhere
	writer string // a name of its own for what is not published, if a shard may have several writers
}

// ofUnit is the process at a unit of a queue: a shard, beside other shards and apart from runs of the whole.
func (p *Process) ofUnit(shard jobstate.Shard, writer string) *Process {
	own := *p
	own.Shard, own.writer = shard, writer
	return &own
}

// textOnly is the process that opens no engine.
func (p *Process) textOnly() *Process {
	own := *p
	own.TextOnly = true
	return &own
}

// goesOn is the process after it has begun its job, which it removes no more.
func (p *Process) goesOn() *Process {
	own := *p
	own.New = false
	return &own
}

func (p *Process) several() bool { return p.Hosts.several() }

// workFolder is where the state and the journal of a job are.
func (p *Process) workFolder(j *Job) (string, error) { return WorkFolder(j.Output, p.WorkDir) }

// WorkFolder is where the state and the journal of the job in an output folder are: workDir if it is given, else the
// output folder, and for an output elsewhere a local folder of its own.
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

// tell writes a line.
func (p *Process) tell(format string, args ...any) { fmt.Fprintf(p.Messages, format+"\n", args...) }

// say writes a line about how far the job is.
func (p *Process) say(format string, args ...any) {
	if !p.Quiet {
		p.tell(format, args...)
	}
}

// sayOpening says that the model is opened.
func (p *Process) sayOpening(j *Job) {
	p.say("opening %s on %s; a first run compiles its programs, later ones find them in the cache", j.Model,
		j.Engine.Backend)
}

// sayDefaults tells which parameters the model's files give.
func (p *Process) sayDefaults(j *Job) {
	if j.Defaults != "" {
		p.say("defaults: %s; `generation-config` none takes none", j.Defaults)
	}
}

// sayPlan says what the engine settled on.
func (p *Process) sayPlan(plan engine.Plan) {
	if p.Verbose {
		p.say("%s", plan)
	} else {
		p.say("%s", plan.Brief())
	}
}

// waiting tells what a plugin does that takes long.
func (p *Process) waiting(waited time.Duration, what string) {
	p.tell("warning: waiting for %s: %s", waited, what)
}

// elsewhere is the remedy for an output that has something else, in the words of who can do something about it.
func (p *Process) elsewhere() string {
	switch {
	case p.queued != "":
		return fmt.Sprintf(
			"cancel this job (\"sample cancel %s\") and submit it with another output, or with "+
				"\"sample submit `new`\", which removes what is there", p.queued)
	case !p.Shard.Whole():
		return "choose another `output`, or remove what is there"
	}
	return "choose another `output`, or give `new` to remove what is there"
}
