package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/seqtable"
)

// corrupting is the device of a run whose tables are changed before one of its calls.
type corrupting struct {
	schedule.Device
	e      *Engine
	before int
	calls  int
	array  string
	change func(values []int32)
	err    error
}

// Run implements [schedule.Device].
func (d *corrupting) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	if d.calls++; d.calls == d.before {
		if err := d.e.corrupt(d.array, d.change); err != nil {
			return nil, schedule.Spent{}, err
		}
		if d.err != nil {
			d.e.core.DropState()
			return nil, schedule.Spent{}, d.err
		}
	}
	return d.Device.Run(in)
}

// corrupt changes an array of the device's tables.
func (e *Engine) corrupt(array string, change func(values []int32)) error {
	state, _ := e.core.State()
	for i, l := range e.core.Program(device.Init).State {
		if l.Name != array {
			continue
		}
		values := make([]int32, l.Shape.Size())
		if err := state[i].ToFlatData(values); err != nil {
			return err
		}
		change(values)
		b, err := e.core.Settled.Config.Backend.BufferFromFlatData(0, values, l.Shape)
		if err != nil {
			return err
		}
		_ = state[i].Finalize()
		state[i] = b
		return nil
	}
	return fmt.Errorf("there is no array %s", array)
}

// Where the tables are broken the run ends with an error that names a dump, in which a reader finds what is broken.
func TestDumpsOfFaults(t *testing.T) {
	m := testenv.Model(t, "smollm2-like")
	cfg := Config{Model: m, Backend: testenv.XLA(t), MaxSeqs: 6, PageSize: 4, PrefillTokens: 16, MaxModelLen: 64,
		MaxRounds: 8, KVMemory: 1 << 20}
	folder := t.TempDir()
	var dumps []*tables.Dump
	cfg.Inspect = func(at Inspection) string {
		if at.Fault == nil {
			return ""
		}
		dumps = append(dumps, at.Tables())
		file := filepath.Join(folder, "fault.txt")
		f, err := os.Create(file)
		if err == nil {
			err = errors.Join(dumps[len(dumps)-1].WriteText(f), f.Close())
		}
		if err != nil {
			t.Error(err)
		}
		return file
	}
	debug := cfg
	debug.Debug = true
	engines := map[bool]*Engine{}
	for _, c := range []Config{cfg, debug} {
		e, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[c.Debug] = e
	}
	gone := errors.New("the device is gone")
	for name, c := range map[string]struct {
		corrupting
		debug bool
		is    error
		want  []string
	}{
		"lost page": {corrupting{before: 2, array: "Pages.RefCounts",
			change: func(v []int32) { v[len(v)-1]++ }}, false, ErrPagesLost,
			[]string{"is lost: its count is 1, and no row has it", "pages were lost"}},
		"broken rule": {corrupting{before: 1, array: "Pages.RefCounts",
			change: func(v []int32) { v[len(v)-1]++ }}, true, seqtable.ErrRuleBroken{},
			[]string{"is lost: its count is 1, and no row has it", "given out by the call that failed"}},
		"invalid row": {corrupting{before: 2, array: "Queue.SlotIDs",
			change: func(v []int32) { v[0] = int32(len(v)) - 1 }}, false, seqtable.ErrInvalidSlot{},
			[]string{"fault: program run: slot 15 cannot be used here", `request "`}},
		"device lost": {corrupting{before: 3, array: "Pages.RefCounts", change: func([]int32) {}, err: gone}, false,
			gone, []string{"the device's arrays are missing", "the device is gone", `request "`}},
	} {
		t.Run(name, func(t *testing.T) {
			e, before := engines[c.debug], len(dumps)
			e.runs.watch = func(device schedule.Device) schedule.Device {
				c.Device, c.e = device, e
				return &c.corrupting
			}
			var failed error
			for _, err := range e.Run(t.Context(), slices.Values(manyRequests(30))) {
				failed = err
			}
			file := filepath.Join(folder, "fault.txt")
			if !errors.Is(failed, c.is) || !strings.HasSuffix(failed.Error(),
				"(the device's tables are in "+file+")") {
				t.Fatalf("the run ends with %v", failed)
			}
			text, err := os.ReadFile(file)
			if err != nil || len(dumps) != before+1 {
				t.Fatalf("%d dumps: %v", len(dumps)-before, err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("the dump lacks %q:\n%s", want, text)
				}
			}
		})
	}
}
