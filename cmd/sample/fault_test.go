package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// lives is a job that is run again and again on files in memory, with faults in its way.
type lives struct {
	args      []string
	timing    process.Timing
	mem       *vfs.Mem
	drawn     int // completions, in all lives
	given     int // of these, to the job
	failAfter int // of the device, -1 for never
}

// run runs the job once; hook may be nil.
func (l *lives) run(hook vfs.Hook) (stdout string, err error) {
	var fs vfs.FS = l.mem
	if hook != nil {
		var mu sync.Mutex // parts are looked at together
		fs = vfs.Inject(l.mem, func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			return hook(op)
		})
	}
	fakeFailures = 0
	var out strings.Builder
	env := &cli.Environment{Stdout: &out, Stderr: io.Discard, FS: fs, Timing: l.timing,
		Models: fakeModels{opened: func(_ *spec.Job, e *fakeEngine) {
			e.drawn, e.given, e.patience = &l.drawn, &l.given, 2*time.Millisecond
			if l.failAfter >= 0 {
				e.failAfter, e.failTimes = l.failAfter, 3
			}
		}}}
	err = cli.Dispatch(context.Background(), env, l.args)
	if code, _ := cli.CodeOf(err); code == cli.ExitPartial {
		err = nil // some rows are wrong, on purpose
	}
	return out.String(), err
}

// disturbed runs the job until an operation of it fails, which is drawn: alone, or with all after it, because the
// process is killed or the machine loses power then. The device fails, too, after up to device completions.
func (l *lives) disturbed(t *rapid.T, operations, device int, hows ...string) (how string, at int, err error) {
	fault, count := errors.New("a fault"), 0
	at = rapid.IntRange(0, operations).Draw(t, "operation")
	how = rapid.SampledFrom(hows).Draw(t, "how")
	l.failAfter = rapid.IntRange(-3, device).Draw(t, "device")
	_, err = l.run(func(op vfs.Op) error {
		if count++; count-1 == at || count > at && how != "error" {
			return &vfs.ShortWrite{N: op.Len / 3, Err: fault}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fault) {
		t.Fatalf("the fault is lost in: %v", err)
	}
	switch how {
	case "kill":
		l.mem = l.mem.Killed()
	case "power":
		l.mem = l.mem.PowerLost(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
	}
	return how, at, err
}

// visible is what others see of the output.
func (l *lives) visible(t rapid.TB) map[string]string {
	t.Helper()
	names, err := folder.OpenLocal(l.mem, "out").Names()
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for _, name := range names {
		_, _, part := folder.ParsePartName(name)
		if base := filepath.Base(name); base[0] == '.' || !part && (base[0] == '_' && base != "_meta.json" ||
			strings.Contains(base, "=")) { // a folder
			continue
		}
		f, err := l.mem.Open(filepath.Join("out", name))
		if err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		b := make([]byte, size)
		f.ReadAt(b, 0)
		all[name] = string(b)
	}
	return all
}

// Whatever fails, dies or loses what was not synced, at whichever operation: a part that can be seen is the one of a
// run without disturbance, no more is generated again than the stated bound, and in the end all is there.
func TestFaultsOfFiles(t *testing.T) { faultsOfFiles(t, false) }

// So it is where rows continue others, which other files are kept for.
func TestFaultsOfFamilies(t *testing.T) { faultsOfFiles(t, true) }

func faultsOfFiles(t *testing.T, families bool) {
	const recordBytes = 150 // a completion of the fake takes more in the journal
	dir := t.TempDir()
	model, input := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in")
	var files [3]strings.Builder // each in a folder of its own
	for i := range 40 {
		rows := &files[i*len(files)/40]
		parent := ""
		switch { // with a limit on rows, or a parent without a prompt, some of these are errors
		case families && i%5 == 2:
			parent = fmt.Sprintf(", \"parent\": %d, \"parent_length\": 2", i-i%7)
		case families && i%5 == 3:
			parent = fmt.Sprintf(", \"parent\": %d, \"parent_length\": 2", i+1+i%9)
		}
		switch {
		case i%11 == 5:
			rows.WriteString("{\"id\": \"no prompt\"}\n")
		case i%7 == 3:
			fmt.Fprintf(rows, "{\"prompt\": \"row %d\", \"n\": %d, \"generation\": 2%s}\n", i, 1+i%5, parent)
		default:
			fmt.Fprintf(rows, "{\"prompt\": \"row %d\"%s}\n", i, parent)
		}
	}
	if err := os.WriteFile(model, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		folder := filepath.Join(input, fmt.Sprintf("third=%d", i))
		if err := errors.Join(os.MkdirAll(folder, 0o777),
			os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(files[i].String()), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		n := number("n", 1, 4)
		args := []string{"run", "-m", model, "-i", input, "-o", "out", "--progress", "none", "-n", strconv.Itoa(n),
			"--limit", strconv.Itoa(number("rows", 1, 40)), "--part-rows", strconv.Itoa(number("part rows", 1, 15)),
			"--format", rapid.SampledFrom([]string{"jsonl", "jsonl", "parquet"}).Draw(t, "format"),
			fmt.Sprintf("--keep-partitions=%t", rapid.Bool().Draw(t, "folders"))}
		timing := process.Timing{RestartPause: time.Microsecond, Journal: journal.Options{
			SyncBytes: int64(number("sync bytes", 1, 500)), SegmentBytes: int64(number("segment bytes", 100, 5000))}}
		undisturbed := &lives{args: args, timing: timing, mem: vfs.NewMem(), failAfter: -1}
		operations := 0
		if _, err := undisturbed.run(func(vfs.Op) error { operations++; return nil }); err != nil {
			t.Fatal(err)
		}
		whole := undisturbed.visible(t)

		l := &lives{args: args, timing: timing, mem: vfs.NewMem()}
		lost := 0 // completions that may have to be generated again, besides those that were in flight
		for range number("lives", 1, 6) {
			how, at, err := l.disturbed(t, operations, 5, "error", "kill", "power", "power")
			if how == "error" {
				lost += 5 // a row of the journal that could not be read
			} else if err != nil {
				lost++ // the completion whose record met the fault
			}
			if how == "power" {
				lost += int(timing.Journal.SyncBytes)/recordBytes + 1
			}
			for name, text := range l.visible(t) {
				if whole[name] != text {
					t.Fatalf("after %s at operation %d, %s is wrong", how, at, name)
				}
			}
		}
		l.failAfter = -1
		if _, err := l.run(nil); err != nil {
			t.Fatal(err)
		}
		if got := l.visible(t); !maps.Equal(got, whole) {
			t.Fatalf("in the end there are %v of %v, or they differ", slices.Sorted(maps.Keys(got)),
				slices.Sorted(maps.Keys(whole)))
		}
		if inFlight := l.drawn - l.given; l.drawn > undisturbed.drawn+inFlight+lost {
			t.Fatalf("drawn %d completions, once would be %d, %d were in flight, and %d may be lost", l.drawn,
				undisturbed.drawn, inFlight, lost)
		}
		names, _ := l.mem.List(filepath.Join("out", "_job"))
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "journal") }) {
			t.Fatalf("the job is done, and there is %v", names)
		}
		if names, _ := l.mem.List(filepath.Join("out", "_job", "parents")); len(names) > 0 {
			t.Fatalf("the job is done, and there is %v", names)
		}
		l.mem = l.mem.PowerLost(rand.New(rand.NewPCG(1, 1)))
		if got := l.visible(t); !maps.Equal(got, whole) {
			t.Fatalf("after the power went there are %v of %v, or they differ", slices.Sorted(maps.Keys(got)),
				slices.Sorted(maps.Keys(whole)))
		}
		before := l.drawn
		if out, err := l.run(nil); err != nil || !strings.Contains(out, "is finished") || l.drawn != before {
			t.Fatalf("run again: %q, %v", out, err)
		}
	})
}
