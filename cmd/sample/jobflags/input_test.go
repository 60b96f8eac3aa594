package jobflags

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// Who writes into standard input that was closed is told so, and its number is still taken.
func TestEndable(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := endable(r).(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write into it: %v", err)
	}
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("it has %q (%v)", text, err)
	}
}
