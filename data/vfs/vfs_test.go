package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func read(t testing.TB, f FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := file.ReadAt(b, 0); n != len(b) {
		t.Fatal(n, err)
	}
	return string(b)
}

func write(t testing.TB, f File, text string) {
	t.Helper()
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// The machine's files and those in memory do the same.
func TestSameOnBoth(t *testing.T) {
	for name, f := range map[string]FS{"OS": OS, "Mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			if _, err := f.List(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("listing no folder: %v", err)
			}
			for range 2 {
				if err := f.MkdirAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			x, y := filepath.Join(dir, "x"), filepath.Join(dir, "y")
			file, err := f.Create(x)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, "one")
			write(t, file, "two")
			if err := errors.Join(file.Sync(), file.Close()); err != nil {
				t.Fatal(err)
			}
			if file, err = f.Append(x); err != nil {
				t.Fatal(err)
			}
			write(t, file, "three")
			b := make([]byte, 4)
			if n, err := file.ReadAt(b, 1); n != 4 || string(b) != "netw" {
				t.Errorf("read %q, %v", b[:n], err)
			}
			file.Close()
			if got := read(t, f, x); got != "onetwothree" {
				t.Errorf("x holds %q", got)
			}
			if err := errors.Join(f.Rename(x, y), f.SyncDir(dir)); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{f.Rename(x, y), f.Remove(x)} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("x is gone, and: %v", err)
				}
			}
			if _, err := f.Open(x); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("x is gone, and: %v", err)
			}
			lock, err := f.Lock(filepath.Join(dir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Lock(filepath.Join(dir, "lock")); !errors.Is(err, ErrLocked) {
				t.Errorf("locked twice: %v", err)
			}
			lock.Close()
			if lock, err = f.Lock(filepath.Join(dir, "lock")); err != nil {
				t.Errorf("locked again: %v", err)
			}
			if _, err := f.LockShared(filepath.Join(dir, "lock")); !errors.Is(err, ErrLocked) {
				t.Errorf("shared what one has alone: %v", err)
			}
			lock.Close()
			for range 2 {
				if lock, err = f.LockShared(filepath.Join(dir, "lock")); err != nil {
					t.Fatal(err)
				}
				defer lock.Close()
			}
			lock.Close()
			if _, err := f.Lock(filepath.Join(dir, "lock")); !errors.Is(err, ErrLocked) {
				t.Errorf("locked what another one shares: %v", err)
			}
			if err := f.MkdirAll(filepath.Join(dir, "z")); err != nil {
				t.Fatal(err)
			}
			names, err := f.List(dir)
			if want := map[string]string{"OS": "[lock y z]", "Mem": "[y z]"}[name]; err != nil ||
				fmt.Sprint(names) != want {
				t.Errorf("names %v, %v; want %s", names, err, want)
			}
		})
	}
}

// What was synced is there after the power went; what was not is there as a beginning, or has other bytes after one.
func TestPowerLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		texts, synced := map[string]string{}, map[string]int{}
		lasting := map[string]bool{}
		files := map[string]File{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"d/a", "d/b"}).Draw(t, "file")
			f := files[name]
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case f == nil:
				f, _ = m.Create(name)
				files[name], texts[name] = f, ""
			case op == 0:
				f.Sync()
				synced[name] = len(texts[name])
			case op == 1:
				m.SyncDir("d")
				for name := range files {
					lasting[name] = true
				}
			default:
				s := rapid.StringN(1, 5, 5).Draw(t, "text")
				f.Write([]byte(s))
				texts[name] += s
			}
		}
		for name, want := range texts {
			if got, err := m.Killed().Open(name); err != nil {
				t.Fatal(err)
			} else if size, _ := got.Size(); size != int64(len(want)) {
				t.Fatalf("after a kill %s has %d bytes of %d", name, size, len(want))
			}
		}
		if rapid.Bool().Draw(t, "killed before") { // which makes nothing last
			m = m.Killed()
		}
		after := m.PowerLost(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		for name, want := range texts {
			f, err := after.Open(name)
			if err != nil {
				if lasting[name] {
					t.Fatalf("%s is lost", name)
				}
				continue
			}
			size, _ := f.Size()
			got := make([]byte, size)
			f.ReadAt(got, 0)
			if n := synced[name]; int(size) < n || int(size) > len(want) || !bytes.Equal(got[:n], []byte(want[:n])) {
				t.Fatalf("%s holds %q of %q, of which %d bytes were synced", name, got, want, n)
			}
		}
	})
}

func TestInject(t *testing.T) {
	full := errors.New("disk full")
	var seen []string
	f := Inject(NewMem(), func(op Op) error {
		seen = append(seen, fmt.Sprintf("%s %s", op.Kind, op.Name))
		switch {
		case op.Kind == OpWrite && op.Len > 4:
			return &ShortWrite{2, full}
		case op.Kind == OpRemove:
			return full
		}
		return nil
	})
	file, err := f.Create("d/x")
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "1234")
	if n, err := file.Write([]byte("56789")); n != 2 || !errors.Is(err, full) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if err := f.Remove("d/x"); err != full {
		t.Error(err)
	}
	if got := read(t, f, "d/x"); got != "123456" {
		t.Errorf("holds %q", got)
	}
	if want := "create d/x, write d/x, write d/x, remove d/x, open d/x, read d/x"; strings.Join(seen, ", ") != want {
		t.Errorf("saw %q", seen)
	}
}
