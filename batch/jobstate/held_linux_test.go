package jobstate

import (
	"testing"

	"github.com/quire/quire/data/vfs"
)

// A job runs while a process holds its lock, or a shard's. Asking does not take a lock.
func TestRunning(t *testing.T) {
	out := t.TempDir()
	if Running(out) {
		t.Error("a folder without a job runs")
	}
	for _, shard := range []Shard{{}, {0, 2}} {
		s, err := OpenShard(vfs.OS, out, shard)
		if err != nil {
			t.Fatal(err)
		}
		if !Running(out) {
			t.Errorf("shard %s does not run", shard)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if Running(out) {
			t.Errorf("shard %s runs, and was closed", shard)
		}
	}
}
