package load

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/tables"
)

// Dumps are made when they are due, of each replica; those of every N-th call leave a bounded number of files, and
// those of faults each have their own.
func TestTableDumps(t *testing.T) {
	dumps, err := observe.ParseTableDumps("fault,call=7,every=2")
	if err != nil {
		t.Fatal(err)
	}
	output := t.TempDir()
	var messages strings.Builder
	p := &process.Process{Options: process.Options{DumpTables: dumps, Messages: &messages}}
	inspect := inspectTables(p, &spec.Job{Spec: spec.Spec{Output: output}})
	taken := 0
	at := func(replica int, fault error) string {
		return inspect(engine.Inspection{Replica: replica, Fault: fault, Tables: func() *tables.Dump {
			taken++
			return tables.New(tables.Head{Replica: replica}, nil, nil)
		}})
	}
	const calls = 2*100 + 20
	for i := range calls {
		if got := at(0, nil); (got != "") != ((i+1)%2 == 0 || i+1 == 7) {
			t.Errorf("call %d: dump %q", i+1, got)
		}
	}
	broken := errors.New("broken")
	first, second, other := at(0, broken), at(0, broken), at(1, broken)
	if taken != calls/2+1+3 || first == second || !strings.HasSuffix(first, "-replica-0-call-000220-fault-1.txt") ||
		!strings.HasSuffix(other, "-replica-1-call-000000-fault-3.txt") {
		t.Errorf("%d dumps; of faults %q, %q, %q", taken, first, second, other)
	}
	files, err := filepath.Glob(filepath.Join(output, "_job", "tables", "*"))
	if err != nil || len(files) != 2*(100+1+3) || !slices.Contains(files, first) {
		t.Errorf("there are %d files: %v", len(files), err)
	}
	// A folder that can not be made is a warning.
	if err := os.WriteFile(filepath.Join(output, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dumps.Folder = filepath.Join(output, "file", "tables")
	const want = "warning: the device's tables were not"
	if got := at(0, broken); got != "" || !strings.Contains(messages.String(), want) {
		t.Errorf("%q, %q", got, &messages)
	}
	if inspectTables(&process.Process{}, &spec.Job{}) != nil {
		t.Error("a process without dumps looks at the tables")
	}
}
