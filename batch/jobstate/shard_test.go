package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/vfs"
)

// Every part belongs to one shard, for any count.
func TestShardsHaveAllParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, part := rapid.IntRange(1, 300).Draw(t, "count"), rapid.IntRange(0, 60_000).Draw(t, "part")
		has := 0
		for i := range count {
			s, err := ParseShard(fmt.Sprintf("%d/%d", i, count))
			if err != nil {
				t.Fatal(err)
			}
			if s.Has(part) {
				has++
			}
			if got, ok := parseName(s.Name()); s.Whole() != (count == 1) || count > 1 && (!ok || got != s) {
				t.Fatalf("%s is named %q, which is %v", s, s.Name(), got)
			}
		}
		if has != 1 {
			t.Fatalf("part %d is one of %d shards of %d", part, has, count)
		}
	})
}

// Names are parsed with any number of digits, and other texts are not names.
func TestShardNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.OneOf(rapid.IntRange(2, 20), rapid.IntRange(99_990, 100_010),
			rapid.IntRange(2, 999_999_999)).Draw(t, "count")
		s := Shard{rapid.IntRange(0, count-1).Draw(t, "index"), count}
		if got, ok := parseName(s.Name()); !ok || got != s {
			t.Fatalf("%s is named %q, which is %v", s, s.Name(), got)
		}
	})
	for _, name := range []string{"shard-000003-of-00008", "shard-00003-of-000008", "shard-0003-of-0008",
		"shard-00008-of-00008", "shard-00000-of-00001", "shard-00000-of-1000000000"} {
		if got, ok := parseName(name); ok {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// State of a unit is found whose number has six digits.
func TestManyShards(t *testing.T) {
	for name, make := range files(t) {
		t.Run(name, func(t *testing.T) {
			fs, dir := make()
			want := Shard{123_456, 200_000}
			s, err := OpenShard(fs, dir, want)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if all, err := Shards(fs, filepath.Join(dir, Folder)); err != nil || len(all) != 1 || all[0] != want {
				t.Error(all, err)
			}
			if _, err := OpenShard(fs, dir, Shard{0, 100_000}); !errors.Is(err, ErrOtherShards) {
				t.Error(err)
			}
		})
	}
}

func FuzzParseShard(f *testing.F) {
	for _, text := range []string{"0/8", "7/8", "8/8", "-1/8", "1/0", "1", "1/2/3", "+1/2", " 0/1",
		"0/99999999999999999999", "0x1/2", "00/1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseShard(text)
		if err != nil {
			if !errors.Is(err, ErrShard) {
				t.Fatal(err)
			}
			return
		}
		if s.Index < 0 || s.Index >= s.Count || s.Count > MaxShards {
			t.Fatalf("%q is %v", text, s)
		}
		if again, err := ParseShard(s.String()); err != nil || again != s {
			t.Fatalf("%q is %v, and that %v, %v", text, s, again, err)
		}
	})
}

func files(t *testing.T) map[string]func() (vfs.FS, string) {
	return map[string]func() (vfs.FS, string){
		"OS":  func() (vfs.FS, string) { return vfs.OS, filepath.Join(t.TempDir(), "out") },
		"Mem": func() (vfs.FS, string) { return vfs.NewMem(), "out" },
	}
}

// Shards run at the same time, but not together with other processes that do their work.
func TestShardLocks(t *testing.T) {
	for name, make := range files(t) {
		t.Run(name, func(t *testing.T) {
			fs, out := make()
			open := func(index, count int) *State {
				t.Helper()
				s, err := OpenShard(fs, out, Shard{index, count})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			refused := func(index, count int, want error) {
				t.Helper()
				if s, err := OpenShard(fs, out, Shard{index, count}); !errors.Is(err, want) ||
					!strings.Contains(err.Error(), out) {
					t.Errorf("%d/%d: %v, %v; want %v", index, count, s, err, want)
				}
			}
			a, b := open(0, 3), open(2, 3)
			refused(2, 3, ErrBusy)
			refused(0, 2, ErrOtherShards)
			refused(0, 1, ErrBusy)
			b.Close()
			refused(0, 2, ErrOtherShards) // a still runs
			open(2, 3).Close()            // what was refused holds nothing
			a.Close()
			whole := open(0, 1)
			refused(0, 2, ErrBusy)
			whole.Close()
			open(0, 2).Close()
		})
	}
}

// Of shards that begin a job at the same time, one describes it, and the others find its description. All see all
// notes.
func TestShardsBegin(t *testing.T) {
	for name, make := range files(t) {
		t.Run(name, func(t *testing.T) {
			fs, out := make()
			const count = 8
			var began [count]bool
			var key [count][32]byte
			var wg sync.WaitGroup
			for i := range count {
				wg.Go(func() {
					s, err := OpenShard(fs, out, Shard{i, count})
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close()
					d := description()
					d.Settled.MaxSeqs = i // found by each for itself
					err = s.Begin(d)
					if began[i] = err == nil; err != nil && !errors.Is(err, ErrBegun) {
						t.Error(err)
					}
					if s.Job() == nil {
						t.Error("no job")
					}
					key[i] = s.Key()
					if err := s.AddPart(i); err != nil {
						t.Error(err)
					}
					if err := s.OwnParts(func(b []byte) {
						if string(b) != fmt.Sprint(i) {
							t.Errorf("shard %d has the note %s", i, b)
						}
					}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			n := 0
			for i := range count {
				if began[i] {
					n++
				}
				if key[i] != key[0] {
					t.Errorf("shard %d has another job than shard 0", i)
				}
			}
			if n != 1 {
				t.Errorf("%d shards began the job", n)
			}
			s, err := Open(fs, out)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got []string
			if err := s.Parts(func(b []byte) { got = append(got, string(b)) }); err != nil ||
				fmt.Sprint(got) != "[0 1 2 3 4 5 6 7]" {
				t.Errorf("notes %v, %v", got, err)
			}
			if dirs, err := s.Dirs(); err != nil || len(dirs) != count+1 {
				t.Errorf("%v, %v", dirs, err)
			}
			if err := s.Clear(); err != nil {
				t.Fatal(err)
			}
			got = nil
			if err := s.Parts(func(b []byte) { got = append(got, string(b)) }); err != nil || got != nil ||
				s.Job() != nil {
				t.Errorf("cleared, and there is %v of %v, %v", got, s.Job(), err)
			}
		})
	}
}

// FuzzParse reads any job.json: an error, or a job that does not differ from itself.
func FuzzParse(f *testing.F) {
	b, err := json.Marshal(description())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"settings": {"a": [{"b": 1e999}]}, "inputs": [{"name": "x"}, {"name": "x", "rows": -1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		names := map[string]bool{}
		for _, in := range d.Inputs {
			if names[in.Name] {
				return // no job has an input twice
			}
			names[in.Name] = true
		}
		if differences := again.Differences(d); len(differences) > 0 {
			t.Fatalf("%s differs from itself: %v", b, differences)
		}
	})
}
