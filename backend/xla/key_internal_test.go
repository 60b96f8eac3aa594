package xla

import (
	"bytes"
	"os"
	"testing"

	"github.com/quire/quire/internal/fakeplugin"
)

// The key of a GPU's programs depends on the contents of the plugin and on the GPU, not on the plugin's path and time
// or on the host: hosts with equal GPUs share programs.
func TestKeyOfGPUPrograms(t *testing.T) {
	dir := t.TempDir()
	key := func(plugin string) []byte {
		t.Helper()
		b, err := New(Options{Plugin: plugin, Platform: "cuda"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Finalize()
		key, err := machineKey(dir, &b.devices)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	script := []string{"platform=cuda", "kind=NVIDIA H200"}
	one, two := fakeplugin.New(t, script...), fakeplugin.New(t, script...)
	want := key(one)
	if got := key(two); !bytes.Equal(got, want) {
		t.Errorf("the same plugin in another place: %q, not %q", got, want)
	}
	if got := key(fakeplugin.New(t, "platform=cuda", "kind=NVIDIA H100")); bytes.Equal(got, want) {
		t.Errorf("another GPU has the same key %q", got)
	}
	f, err := os.OpenFile(two, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("another build"); err != nil {
		t.Fatal(err)
	}
	changed, err := fileDigest(dir, two)
	before, err2 := fileDigest(dir, one)
	if err != nil || err2 != nil || changed == before {
		t.Errorf("digests %s and %s: %v, %v", before, changed, err, err2)
	}
}
