package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A job that copies most of its completions, some with vectors, is killed at random moments: its files are those of a
// run from nothing that nothing disturbed, and what another output has is never generated.
func TestCopiesKilledAtRandom(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 3
	}
	random := rand.New(rand.NewPCG(2026, 30))
	const missing = 300 // rows
	for jobs := 0; kills > 0; jobs++ {
		j := newCrashJob(t, "--part-rows", "150")
		if jobs%2 == 1 {
			j.args = append(j.args, "--columns", "embedding", "--pooling", "last")
			if err := os.WriteFile(filepath.Join(j.dir, "m.fake"), []byte("embeds 16\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		earlier := j.command(t, "earlier", 0)
		earlier.Args = append(earlier.Args, "--limit", "1700", "--format", []string{"jsonl", "parquet"}[jobs%2])
		earlier.Env = append(earlier.Env, "QUIRE_FAKE_COUNT="+os.DevNull)
		if out, err := earlier.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		j.more = []string{"--reuse", "earlier"}
		mine := 0
		for done := false; !done && kills > 0 && mine < 10; {
			moment := time.Duration(random.IntN(int(400 * time.Millisecond)))
			if done = j.killed(t, func(since time.Duration) bool { return since > moment }); !done {
				mine++
				kills--
				j.undamaged(t)
			}
		}
		j.same(t)
		j.undamaged(t)
		drawn := j.drawn()
		t.Logf("job %d: %d kills, %d completions generated", jobs, mine, drawn)
		if again := drawn - missing*crashN; again < 0 || again > mine*crashFlight {
			t.Errorf("%d completions were generated, want %d and at most %d again", drawn, missing*crashN,
				mine*crashFlight)
		}
		if strings.Contains(j.files(t, "out")["/_job/job.json"], "earlier") {
			t.Error("job.json names what was copied from")
		}
	}
}
