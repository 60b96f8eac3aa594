package observe

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/tables"
)

// TableDumps controls when and where the device's tables are written to files. A dump is two files of the same name:
// one for people and one in JSON.
type TableDumps struct {
	// Fault dumps when a run fails, Call after the call with this number, Every after each so many calls. Calls are
	// counted from 1 for one replica in this process.
	Fault       bool
	Call, Every int64
	// Folder is made if missing. By default it is tables alongside the journal.
	Folder string

	mu      sync.Mutex
	calls   map[int]int64 // by replica
	faults  int
	kept    []string // of Every, the oldest first
	started time.Time
}

// everyKept is how many dumps of TableDumps.Every are kept, the last ones.
const everyKept = 100

// ParseTableDumps reads when tables are dumped: fault, call=N and every=N, separated by commas.
func ParseTableDumps(text string) (*TableDumps, error) {
	d := &TableDumps{}
	for when := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(when, "=")
		var to *int64
		switch {
		case when == "fault":
			d.Fault = true
			continue
		case name == "call":
			to = &d.Call
		case name == "every":
			to = &d.Every
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if to == nil || err != nil || n < 1 {
			return nil, fmt.Errorf("%q, but must be fault, call=N or every=N with N from 1, or several of these "+
				"separated by commas", text)
		}
		*to = n
	}
	return d, nil
}

// Due counts the calls, and reports why there is to be a dump now; "" for none.
func (d *TableDumps) Due(inspection engine.Inspection) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls == nil {
		d.calls, d.started = map[int]int64{}, time.Now()
	}
	if inspection.Fault != nil {
		if d.Fault {
			return "fault"
		}
		return ""
	}
	d.calls[inspection.Replica]++
	switch n := d.calls[inspection.Replica]; {
	case n == d.Call:
		return "call"
	case d.Every > 0 && n%d.Every == 0:
		return "every"
	}
	return ""
}

// Write writes a dump, and returns the name of the file for people.
func (d *TableDumps) Write(folder, reason string, inspection engine.Inspection) (string, error) {
	dump := inspection.Tables()
	d.mu.Lock()
	defer d.mu.Unlock()
	dump.Calls = d.calls[inspection.Replica]
	// A process that resumes a job leaves the dumps of the one before it.
	name := fmt.Sprintf("%s-replica-%d-call-%06d", d.started.UTC().Format("20060102T150405.000Z"), inspection.Replica,
		dump.Calls)
	if reason == "fault" {
		d.faults++
		name += fmt.Sprintf("-fault-%d", d.faults)
	}
	path := filepath.Join(folder, name)
	if err := writeDump(path, dump); err != nil {
		return "", err
	}
	if reason == "every" {
		d.kept = append(d.kept, path)
	}
	if len(d.kept) > everyKept {
		_ = os.Remove(d.kept[0] + ".txt")
		_ = os.Remove(d.kept[0] + ".json")
		d.kept = d.kept[1:]
	}
	return path + ".txt", nil
}

func writeDump(path string, dump *tables.Dump) error {
	var text strings.Builder
	if err := dump.WriteText(&text); err != nil {
		return err
	}
	encoded, err := json.Marshal(dump)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", append(encoded, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(path+".txt", []byte(text.String()), 0o666)
}
