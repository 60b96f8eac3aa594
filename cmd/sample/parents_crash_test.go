package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newFamilyJob makes a job of 600 rows, two thirds of which continue rows before or after them.
func newFamilyJob(t *testing.T, random *rand.Rand, extra ...string) *crashJob {
	t.Helper()
	const rows = 600
	dir := t.TempDir()
	j := &crashJob{dir: dir, count: filepath.Join(dir, "drawn")}
	// Each row continues one that comes before it in another order than that of the file.
	order := random.Perm(rows)
	var lines [rows]string
	for i, at := range order {
		lines[at] = fmt.Sprintf(`{"id":"r%d","prompt":"%d"}`, at, at%10)
		if i > 0 && random.IntN(3) > 0 {
			// Chains stay short, for the fake model's prompts are.
			from := order[random.IntN(min(i, 1+i/2))]
			lines[at] = fmt.Sprintf(`{"id":"r%d","prompt":"%d","parent":"r%d","parent_generation":%d,"parent_length":4}`,
				at, at%10, from, random.IntN(2))
		}
	}
	for name, text := range map[string]string{"m.fake": "", "in.jsonl": strings.Join(lines[:], "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	j.args = append([]string{"run", "-m", "m.fake", "-i", "in.jsonl", "-n", "2", "--progress", "none"}, extra...)
	return j
}

// Jobs of rows that continue one another are killed at random moments, each until it is through: their files are
// those of runs that nothing disturbed.
func TestFamiliesKilledAtRandom(t *testing.T) {
	jobs, kills := 6, 12
	if testing.Short() {
		jobs, kills = 1, 4
	}
	for seed := range uint64(jobs) {
		random := rand.New(rand.NewPCG(seed, 11))
		kinds := [][]string{{"--part-rows", "50"}, {"--format", "jsonl", "--part-rows", "7"}, {}}
		j := newFamilyJob(t, random, kinds[seed%3]...)
		for range kills {
			moment, more := time.Duration(random.IntN(int(250*time.Millisecond))), j.drawn()+random.IntN(400)
			early := random.IntN(4) == 0
			if j.killed(t, func(since time.Duration) bool {
				return early && since > moment || !early && j.drawn() > more
			}) {
				break
			}
			j.undamaged(t)
		}
		j.same(t)
		j.undamaged(t)
	}
}
