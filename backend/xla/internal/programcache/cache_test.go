package programcache

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPruneTakesOnlyItsOwnOldFiles(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{
		"used.pjrt": kept / 2, "old.pjrt": 2 * kept, "new-1": temporaryKept / 2, "new-2": 2 * temporaryKept,
		"notes.txt": 2 * kept,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	(&Cache{dir: dir}).prune(now)
	for name, want := range map[string]bool{"used.pjrt": true, "old.pjrt": false, "new-1": true, "new-2": false,
		"notes.txt": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}
