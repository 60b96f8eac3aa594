package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/vfs"
)

type record struct {
	row int64
	b   string
}

// recovered opens a journal and reads each of its records twice: in passing, and by its position.
func recovered(t rapid.TB, fs vfs.FS, key Key, o Options) (*Journal, []record, []Damage) {
	t.Helper()
	var out []record
	var at []Position
	j, damages, err := Open(fs, "d", key, o, func(row int64, b []byte, p Position) error {
		out, at = append(out, record{row, string(b)}), append(at, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if b, err := j.Read(at[i]); err != nil || string(b) != out[i].b {
			t.Fatalf("record %d is %q by its position, %v; want %q", i, b, err, out[i].b)
		}
	}
	return j, out, damages
}

// Over crashes of all kinds: what was synced is there, each once and in order; what is there was written; nothing else.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem()
		key := Key{1, 2, 3}
		var written []record // that may be there, in order
		durable := 0         // so many of the first must be there
		below := int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "lives") {
			left := rapid.IntRange(1, 40).Draw(t, "operations until the crash")
			died := errors.New("died")
			fs := vfs.Inject(mem, func(op vfs.Op) error {
				if left--; left > 0 {
					return nil
				}
				if op.Kind == vfs.OpWrite {
					return &vfs.ShortWrite{N: left + op.Len/2, Err: died}
				}
				return died
			})
			o := Options{SyncBytes: rapid.Int64Range(1, 200).Draw(t, "sync bytes"),
				SegmentBytes: rapid.Int64Range(60, 400).Draw(t, "segment bytes")}
			j, _, err := Open(fs, "d", key, o, func(int64, []byte, Position) error { return nil })
			for i := 0; err == nil && i < 30; i++ {
				switch rapid.IntRange(0, 9).Draw(t, "op") {
				case 0:
					if err = j.Sync(); err == nil {
						durable = len(written)
					}
				case 1:
					// All rows up to one of the last are done with: as after a part is published.
					below = max(below, rapid.Int64Range(0, int64(len(written))).Draw(t, "below"))
					err = j.Drop(below)
				default:
					r := record{int64(len(written)) + rapid.Int64Range(0, 3).Draw(t, "ahead"),
						rapid.StringN(0, 50, 50).Draw(t, "bytes")}
					written = append(written, r)
					if err = j.Append(r.row, []byte(r.b)); err == nil {
						// The stated bound: less than SyncBytes of records may be lost.
						last, bytes := len(written), int64(0)
						for ; last > durable && bytes < o.SyncBytes; last-- {
							bytes += recordHead + int64(len(written[last-1].b))
						}
						if bytes >= o.SyncBytes {
							durable = max(durable, last+1)
						}
					}
				}
			}
			if rapid.Bool().Draw(t, "power") {
				mem = mem.PowerLost(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
			} else {
				mem = mem.Killed()
			}
			j, got, _ := recovered(t, mem, key, Options{})
			at := 0
			for _, r := range got {
				for at < len(written) && written[at] != r {
					if at < durable && written[at].row >= below {
						t.Fatalf("record %d of row %d is lost; %d were synced", at, written[at].row, durable)
					}
					at++
				}
				if at == len(written) {
					t.Fatalf("record %v was never written, or out of order", r)
				}
				at++
			}
			for ; at < durable; at++ {
				if written[at].row >= below {
					t.Fatalf("record %d of row %d is lost; %d were synced", at, written[at].row, durable)
				}
			}
			// What is gone now is gone: the next life continues after what was found.
			written, durable = got, len(got)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Wherever a segment is changed or truncated, everything before is read, and nothing wrong is.
func TestDamage(t *testing.T) {
	mem := vfs.NewMem()
	j, _, _ := recovered(t, mem, Key{7}, Options{})
	var want []record
	for i := range 20 {
		r := record{int64(i), strings.Repeat("x", i*3)}
		want = append(want, r)
		if err := j.Append(r.row, []byte(r.b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("d", segmentName(1))
	f, _ := mem.Open(name)
	size, _ := f.Size()
	whole := make([]byte, size)
	f.ReadAt(whole, 0)
	check := func(what string, b []byte, at int64) {
		t.Helper()
		f, _ := mem.Create(name)
		f.Write(b)
		_, got, damages := recovered(t, mem, Key{7}, Options{})
		n := 0
		for end := int64(headerSize); n < len(want); n++ {
			if end += recordHead + int64(len(want[n].b)); end > at {
				break
			}
		}
		if at < headerSize {
			n = 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want[:n]) {
			t.Fatalf("%s at byte %d: read %d records, want %d", what, at, len(got), n)
		}
		if len(damages) != 1 || damages[0].File != name || damages[0].Offset > at ||
			damages[0].Offset+damages[0].Bytes != int64(len(b)) {
			if n == len(want) && len(damages) == 0 {
				return
			}
			// A file that is cut between records is a whole one.
			if len(damages) == 0 && what == "cut" {
				return
			}
			t.Fatalf("%s at byte %d: damage %v", what, at, damages)
		}
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		check("changed", changed, int64(at))
		check("cut", whole[:at], int64(at))
	}
	for _, b := range [][]byte{make([]byte, 100), bytes.Repeat([]byte{0xff}, 100), []byte("x")} {
		check("more", append(bytes.Clone(whole), b...), size)
	}
	// Another job's journal, or a segment under another's name, is none of this one.
	for _, key := range []Key{{8}, {7}} {
		b := appendHeader(nil, key, 2)
		check("another's", append(b, whole[headerSize:]...), 0)
	}
}

// Records are on disk within SyncEvery while others are appended, from several goroutines; Append waits for a slow
// disk.
func TestBackground(t *testing.T) {
	mem := vfs.NewMem()
	var syncs, bytes, most atomic.Int64
	fs := vfs.Inject(mem, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpSync:
			syncs.Add(1)
			most.Store(max(most.Load(), bytes.Swap(0)))
			time.Sleep(2 * time.Millisecond)
		case vfs.OpWrite:
			bytes.Add(int64(op.Len))
		}
		return nil
	})
	o := Options{SyncEvery: 5 * time.Millisecond, SyncBytes: 1000, SegmentBytes: 20_000}
	start := time.Now()
	j, _, _ := recovered(t, fs, Key{}, o)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				if err := j.Append(int64(g*1000+i), make([]byte, 30)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// Nothing more is appended: the clock alone makes the rest last, however long a busy machine takes for it.
	var got []record
	var damages []Damage
	for end := time.Now().Add(time.Minute); len(got) < 2000 && time.Now().Before(end); time.Sleep(o.SyncEvery) {
		_, got, damages = recovered(t, mem.PowerLost(rand.New(rand.NewPCG(1, 1))), Key{}, o)
	}
	if len(got) != 2000 || len(damages) != 0 {
		t.Errorf("%d records of 2000, damage %v", len(got), damages)
	}
	if most.Load() > 2*4*o.SyncBytes {
		t.Errorf("%d bytes waited for an fsync", most.Load())
	}
	// At most one for each tick of the clock, two for each group of SyncBytes, and two for each segment.
	const written = 2000 * (30 + 16)
	enough := int64(time.Since(start)/o.SyncEvery) + 2*written/o.SyncBytes + 2*written/o.SegmentBytes + 4
	if n := syncs.Load(); n > enough {
		t.Errorf("%d fsyncs for 2000 records, %d are enough: they do not go in groups", n, enough)
	}
	if err := j.Drop(5000); err != nil {
		t.Error(err)
	}
	if names, _ := mem.List("d"); len(names) != 0 {
		t.Errorf("all rows are done with, and there are %v", names)
	}
	if err := j.Append(6000, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Append(1, nil); !errors.Is(err, errClosed) {
		t.Errorf("appended to a closed journal: %v", err)
	}
	if _, got, _ := recovered(t, mem, Key{}, o); fmt.Sprint(got) != "[{6000 x}]" {
		t.Errorf("read %v", got)
	}
}

// After a failure nothing is written, and every call returns the failure.
func TestFailure(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRemove} {
		full := errors.New("disk full")
		mem := vfs.NewMem()
		failing := false
		fs := vfs.Inject(mem, func(op vfs.Op) error {
			if failing && op.Kind == kind {
				return full
			}
			return nil
		})
		j, _, _ := recovered(t, fs, Key{}, Options{SegmentBytes: 1})
		if err := j.Append(1, []byte("first")); err != nil {
			t.Fatal(err)
		}
		failing = true
		err := errors.Join(j.Append(2, []byte("second")), j.Sync(), j.Drop(2))
		if !errors.Is(err, full) || !strings.Contains(err.Error(), "cannot write the journal") {
			t.Errorf("%s: %v", kind, err)
		}
		failing = false
		for _, err := range []error{j.Append(3, nil), j.Sync(), j.Drop(9), j.Close()} {
			if !errors.Is(err, full) {
				t.Errorf("%s, afterwards: %v", kind, err)
			}
		}
	}
	fs := vfs.Inject(vfs.NewMem(), func(op vfs.Op) error { return os.ErrPermission })
	if _, _, err := Open(fs, "d", Key{}, Options{}, nil); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}

func TestClear(t *testing.T) {
	mem := vfs.NewMem()
	j, _, _ := recovered(t, mem, Key{}, Options{SegmentBytes: 1})
	for i := range 3 {
		if err := j.Append(int64(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	other, _ := mem.Create("d/journal-1.log")
	other.Close()
	if err := Clear(mem, "d"); err != nil {
		t.Fatal(err)
	}
	if names, _ := mem.List("d"); fmt.Sprint(names) != "[journal-1.log]" {
		t.Errorf("left: %v", names)
	}
}

// For any bytes, reading ends, allocates no more than their length, and returns only what has its checksum.
func FuzzSegment(f *testing.F) {
	valid := appendHeader(nil, Key{}, 1)
	f.Add(valid)
	mem := vfs.NewMem()
	j, _, err := Open(mem, "d", Key{}, Options{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		if err := j.Append(int64(i), []byte("bytes")); err != nil {
			f.Fatal(err)
		}
	}
	file, _ := mem.Open("d/journal-000001.log")
	size, _ := file.Size()
	b := make([]byte, size)
	file.ReadAt(b, 0)
	f.Add(b)
	f.Add(append(bytes.Clone(b), 0xff, 0xff, 0xff, 0x3f))
	f.Add(binary.LittleEndian.AppendUint32(bytes.Clone(valid), 1<<31))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := int64(0)
		end, what, err := readSegment(bytes.NewReader(b), int64(len(b)), Key{}, 1,
			func(row int64, b []byte, offset int64) error {
				if row < 0 {
					t.Fatal("row", row)
				}
				total += recordHead + int64(len(b))
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if end > int64(len(b)) || end > 0 && end != headerSize+total || what == "" && end != int64(len(b)) {
			t.Fatalf("ended at %d of %d with %d bytes read: %s", end, len(b), total, what)
		}
	})
}

// BenchmarkAppend is the cost of a completion of one token, with its fsyncs.
func BenchmarkAppend(b *testing.B) {
	j, _, err := Open(vfs.OS, b.TempDir(), Key{}, Options{SyncEvery: time.Second}, nil)
	if err != nil {
		b.Fatal(err)
	}
	record := make([]byte, 60)
	for i := range b.N {
		if err := j.Append(int64(i), record); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
