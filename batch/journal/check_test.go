package journal

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/quire/quire/data/vfs"
)

// Check reads what Open would, distinguishes a torn end from damage, and changes nothing, whether the journal is open
// or not.
func TestCheck(t *testing.T) {
	key := Key{1}
	read := func(files vfs.FS) (got string, damages []Damage) {
		changes := 0
		hooked := vfs.Inject(files, func(op vfs.Op) error {
			if op.Kind != vfs.OpOpen && op.Kind != vfs.OpList && op.Kind != vfs.OpRead {
				changes++
			}
			return nil
		})
		damages, err := Check(hooked, "d", key, func(row int64, b []byte) error {
			got += fmt.Sprintf("%d%s ", row, b)
			return nil
		})
		if err != nil || changes > 0 {
			t.Fatalf("%d operations changed something, %v", changes, err)
		}
		return got, damages
	}
	m := vfs.NewMem()
	if got, damages := read(m); got != "" || damages != nil {
		t.Error(got, damages)
	}
	j, _, err := Open(m, "d", key, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range []string{"a", "b", "c"} {
		if err := j.Append(int64(i), []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	if got, damages := read(m); got != "0a 1b 2c " || damages != nil {
		t.Error("while it is open:", got, damages)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("d", segmentName(1))
	f, _ := m.Open(name)
	whole := make([]byte, headerSize+3*(recordHead+1))
	f.ReadAt(whole, 0)
	for _, c := range []struct {
		change func(b []byte) []byte
		want   string
		torn   bool
	}{
		{func(b []byte) []byte { return b[:len(b)-1] }, "0a 1b ", true},
		{func(b []byte) []byte { return b[:headerSize+5] }, "", true},
		{func(b []byte) []byte { return b[:7] }, "", true},
		{func(b []byte) []byte { b[headerSize+recordHead] ^= 1; return b }, "", false},
		{func(b []byte) []byte { b[10] ^= 1; return b }, "", false},
		{func(b []byte) []byte { return append(b, make([]byte, 100)...) }, "0a 1b 2c ", false},
	} {
		f, _ := m.Create(name)
		f.Write(c.change(append([]byte(nil), whole...)))
		if got, damages := read(m); got != c.want || len(damages) != 1 || damages[0].Torn != c.torn {
			t.Errorf("%q, %+v, want %q, torn %v", got, damages, c.want, c.torn)
		}
	}
}

// What Look found can be read when its segment is gone, and while others are written.
func TestLook(t *testing.T) {
	key, dir := Key{1}, t.TempDir()
	j, _, err := Open(vfs.OS, dir, key, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for row, text := range []string{"a", "b"} {
		if err := j.Append(int64(row), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var found []Position
	s, damages, err := Look(vfs.OS, dir, key, func(_ int64, _ []byte, at Position) error {
		found = append(found, at)
		return nil
	})
	if err != nil || len(damages) > 0 || len(found) != 2 {
		t.Fatal(found, damages, err)
	}
	if err := j.Drop(2); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(2, []byte("c")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b"} {
		if b, err := s.Read(found[i]); err != nil || string(b) != want {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, _, err := Look(vfs.OS, dir+"/none", key, nil); err != nil || s.Close() != nil {
		t.Error(err)
	}
}
