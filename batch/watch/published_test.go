package watch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Weights are in the order of their names, digits as numbers, and those that are not whole yet are left out.
func TestPublished(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"step-10.ready", "step-9.ready", "step-09.ready", "step-9b.ready", "a.ready",
		".ready", "step-100", "step-2.ready", "step-10-2.ready", "step-10-10.ready"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := published(t.Context(), dir)
	want := []string{"a", "step-2", "step-9", "step-9b", "step-09", "step-10", "step-10-2", "step-10-10"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for i, a := range want {
		for k, b := range want {
			if older(a, b) != (i < k) {
				t.Errorf("%s comes before %s: %t", a, b, older(a, b))
			}
		}
	}
	if _, err := published(t.Context(), filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
