package resume

import (
	"strings"
	"testing"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
)

// Remedies for an output that has another job are those that the reader has.
func TestElsewhere(t *testing.T) {
	var run, shard, worker process.Process
	shard.Shard.Count, worker.Queued = 2, "a"
	for name, c := range map[string]struct {
		process *process.Process
		new     bool
	}{"run": {&run, true}, "shard": {&shard, false}, "worker": {&worker, true}} {
		text := different(c.process, &spec.Job{}, jobstate.Differences{jobstate.Differ("n", 2, 1)}).Error()
		if strings.Contains(text, "`new`") != c.new {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text := worker.OutputRemedy().String(); !strings.Contains(text, "\"sample submit `new`\"") {
		t.Error(text)
	}
}
