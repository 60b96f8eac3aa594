package mapped

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file that is shortened under its mapping gives an error, not the end of the process.
func TestShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Touch(f.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	if err := Touch(f.Bytes()); !errors.Is(err, ErrFault) {
		t.Error(err)
	}
	if err := Touch(f.Bytes()[:4000]); err != nil {
		t.Error(err)
	}
	if err := Guard(func() error { _ = bytes.Count(f.Bytes(), []byte{7}); return nil }); !errors.Is(err, ErrFault) {
		t.Error(err)
	}
	// Other panics, and errors, are what they were.
	other := errors.New("other")
	if err := Guard(func() error { return other }); err != other {
		t.Error(err)
	}
	defer func() {
		if recover() != "a fault of ours" {
			t.Error("a panic was taken for a fault")
		}
	}()
	_ = Guard(func() error { panic("a fault of ours") })
}
