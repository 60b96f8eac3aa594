package jobflags

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnComputeEngine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "product_name")
	none := func(string) string { return "" }
	if onComputeEngine(none, name) {
		t.Error("a machine without a name")
	}
	for text, want := range map[string]bool{"Google Compute Engine\n": true, "Google\n": true, "KVM\n": false} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := onComputeEngine(none, name); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !onComputeEngine(func(string) string { return "localhost:1" }, name) {
		t.Error("GCE_METADATA_HOST does not count")
	}
}
