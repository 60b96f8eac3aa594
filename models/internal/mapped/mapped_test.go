package mapped

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*os.Getpagesize()/16)
	for _, content := range [][]byte{want, want[:100], nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Release(f.Bytes())
		f.Release(nil)
		f.Release(make([]byte, 10)) // not of this mapping: no effect
		if len(content) > 100 {
			f.Release(f.Bytes()[os.Getpagesize()+7 : os.Getpagesize()+9])
		}
		if !bytes.Equal(f.Bytes(), content) {
			t.Errorf("%d bytes read differently after Release", len(content))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		f.Release(content)
		if err := f.Close(); err != nil || f.Bytes() != nil {
			t.Errorf("second Close: %v", err)
		}
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder was mapped")
	}
	if _, err := Open(filepath.Join(dir, "absent")); !os.IsNotExist(err) {
		t.Errorf("an absent file gave %v", err)
	}
}
