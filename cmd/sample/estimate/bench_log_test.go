package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
)

// What bench and plan open logs to standard error, at the level asked for, as a run does.
func TestTaskWithoutObserverLogs(t *testing.T) {
	for level, want := range map[string]bool{"debug": true, "error": false} {
		var printed bytes.Buffer
		var o benchOptions
		f := cli.NewFlags("bench")
		o.define(f)
		if err := f.Parse([]string{"-m", "x", "--log-level", level}); err != nil {
			t.Fatal(err)
		}
		if err := o.check(); err != nil {
			t.Fatal(err)
		}
		task := o.run.Task(&cli.Environment{Stderr: &printed, FS: vfs.OS}, nil)
		task.Process.Log.Debug("call")
		if strings.Contains(printed.String(), "call") != want {
			t.Errorf("--log-level %s prints %q", level, printed.String())
		}
	}
}
