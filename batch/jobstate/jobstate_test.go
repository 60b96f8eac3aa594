package jobstate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/vfs"
)

func description() *Description {
	return &Description{
		OutputVersion: 1, Model: "0123456789abcdef", Settings: map[string]any{"temperature": 0.7,
			"seed": uint64(1<<64 - 1), "stop": []string{"a"}, "n": 4},
		Inputs:  []Input{{"a.jsonl", 100, 10, "aa", ""}, {"b.parquet", 200, 20, "bb", ""}},
		Settled: Settled{MaxSeqs: 64}, Meta: map[string]string{"k": "v"},
	}
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		change func(*Description)
		want   string
	}{
		{func(d *Description) {}, ""},
		{func(d *Description) { d.Settled, d.Meta, d.Device = Settled{}, nil, "other" }, ""},
		{func(d *Description) { d.OutputVersion = 2 },
			"this version of the program writes output version 2, but the job was started with 1"},
		{func(d *Description) { d.Model = "fedcba9876543210" },
			"the model's files are not the same (fingerprint fedcba987654, was 0123456789ab)"},
		{func(d *Description) { d.Settings["temperature"] = 1.0 }, "temperature is 1, was 0.7"},
		{func(d *Description) { d.Settings["seed"] = uint64(1<<64 - 2) },
			"seed is 18446744073709551614, was 18446744073709551615"},
		{func(d *Description) { delete(d.Settings, "n"); d.Settings["x"] = true },
			"n is not given, was 4; x is true, was not given"},
		{func(d *Description) { d.Inputs[0].Rows = 9 }, "input a.jsonl has 9 rows, had 10"},
		{func(d *Description) { d.Inputs[0].Rows, d.Inputs[0].Bytes = 11, 110 }, "input a.jsonl has 11 rows, had 10"},
		{func(d *Description) { d.Inputs[0].Rows, d.Inputs[0].Bytes = 11, 90 },
			"input a.jsonl has 11 rows in 90 bytes, had 10 in 100: it was written again"},
		{func(d *Description) { d.Inputs[0].Bytes++ }, "input a.jsonl has 101 bytes, had 100"},
		{func(d *Description) { d.Inputs[1].Digest = "cc" }, "input b.parquet has other content"},
		{func(d *Description) { d.Inputs[1].Name = "c" }, ""},
		{func(d *Description) { d.Inputs[1].Name, d.Inputs[1].Digest = "c", "cc" },
			"input c was not there; input b.parquet is missing"},
		{func(d *Description) { d.Inputs[0], d.Inputs[1] = d.Inputs[1], d.Inputs[0] },
			"the inputs are in a different order"},
		{func(d *Description) {
			for i := range 7 {
				d.Inputs = append(d.Inputs, Input{Name: fmt.Sprint(i)})
			}
		},
			"input 0 was not there; input 1 was not there; input 2 was not there; input 3 was not there; input 4 was " +
				"not there; 2 more inputs differ"},
	} {
		// As it comes back from the folder.
		s, err := Open(vfs.NewMem(), "out")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Begin(description()); err != nil {
			t.Fatal(err)
		}
		now := description()
		c.change(now)
		if got := now.Differences(s.Job()).String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestState(t *testing.T) {
	for name, files := range map[string]vfs.FS{"OS": vfs.OS, "Mem": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "a", "out")
			s, err := Open(files, out)
			if err != nil {
				t.Fatal(err)
			}
			if s.Job() != nil {
				t.Error("a job in an empty folder")
			}
			if _, err := Open(files, out); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), out) {
				t.Errorf("opened twice: %v", err)
			}
			notes := func(s *State) (got []string) {
				if err := s.Parts(func(b []byte) { got = append(got, string(b)) }); err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := notes(s); got != nil {
				t.Errorf("notes %q", got)
			}
			if err := s.Begin(description()); err != nil {
				t.Fatal(err)
			}
			key := s.Key()
			for i := range 3 {
				if err := s.AddPart(map[string]int{"part": i}); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			// A torn line costs itself only.
			f, _ := files.Append(filepath.Join(out, Folder, "parts.log"))
			f.Write([]byte("\n12345678 {\"part"))
			f.Close()
			if s, err = Open(files, out); err != nil || s.Key() != key || s.Job().Model != "0123456789abcdef" {
				t.Fatal(s, err)
			}
			if err := s.AddPart("last"); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(notes(s)); got != `[{"part":0} {"part":1} {"part":2} "last"]` {
				t.Errorf("notes %s", got)
			}
			if err := s.Clear(); err != nil || s.Job() != nil || notes(s) != nil {
				t.Errorf("cleared: %v", err)
			}
			s.Close()
			f, _ = files.Create(filepath.Join(out, Folder, "job.json"))
			f.Write([]byte("{"))
			f.Close()
			if _, err := Open(files, out); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("damaged: %v", err)
			}
		})
	}
}

// Wherever a process dies, the folder holds no job, or the whole description, and all notes that were written.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := vfs.NewMem()
		left := rapid.IntRange(0, 30).Draw(t, "operations")
		died := errors.New("died")
		files := vfs.Inject(m, func(op vfs.Op) error {
			if left--; left < 0 {
				return &vfs.ShortWrite{N: op.Len / 2, Err: died}
			}
			return nil
		})
		begun, notes := false, 0
		s, err := Open(files, "out")
		if err == nil {
			err = s.Begin(description())
			begun = err == nil
		}
		for err == nil {
			if err = s.AddPart(notes); err == nil {
				notes++
			}
		}
		if rapid.Bool().Draw(t, "power") {
			m = m.PowerLost(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		} else {
			m = m.Killed()
		}
		s, err = Open(m, "out")
		if err != nil {
			t.Fatal(err)
		}
		if begun && s.Job() == nil || s.Job() != nil && len(description().Differences(s.Job())) != 0 {
			t.Fatalf("begun %v, and there is %+v", begun, s.Job())
		}
		if err := s.AddPart("again"); err != nil {
			t.Fatal(err)
		}
		var got []string
		s.Parts(func(b []byte) { got = append(got, string(b)) })
		if len(got) < notes+1 || got[len(got)-1] != `"again"` {
			t.Fatalf("notes %q of %d", got, notes)
		}
		for i := range notes {
			if got[i] != fmt.Sprint(i) {
				t.Fatalf("notes %q of %d", got, notes)
			}
		}
	})
}

func FuzzParts(f *testing.F) {
	f.Add([]byte("\n00000000 \n"))
	f.Add([]byte("\n12345678 {\"part\":1}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := vfs.NewMem()
		s, err := Open(m, "out")
		if err != nil {
			t.Fatal(err)
		}
		file, _ := m.Create("out/_job/parts.log")
		file.Write(b)
		if err := s.AddPart("x"); err != nil {
			t.Fatal(err)
		}
		last := ""
		s.Parts(func(b []byte) { last = string(b) })
		if last != `"x"` {
			t.Fatalf("the last note is %q", last)
		}
	})
}
