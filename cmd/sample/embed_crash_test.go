package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A job of vectors that is killed at random moments has the files of one that ran through, whatever else ran with a
// row and in whatever order, and no vector is made twice but the few in flight.
func TestVectorsKilled(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 2
	}
	for seed, kind := range [][]string{{"--format", "jsonl", "--part-rows", "150"},
		{"--part-rows", "700", "--embedding-type", "int8"}} {
		random := rand.New(rand.NewPCG(uint64(seed), 62))
		j := newCrashJob(t, kind...)
		if err := os.WriteFile(filepath.Join(j.dir, "m.fake"), []byte("embeds 16\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		n := slices.Index(j.args, "-n")
		j.args = slices.Concat([]string{"embed"}, j.args[1:n], j.args[n+2:])
		killed := 0
		for range kills {
			more := j.drawn() + random.IntN(crashRows/(kills+1)+100)
			if j.killed(t, func(time.Duration) bool { return j.drawn() > more }) {
				break
			}
			killed++
			j.undamaged(t)
		}
		j.same(t)
		if twice := j.drawn() - crashRows; twice > killed*crashFlight {
			t.Errorf("%s: %d vectors were made again after %d kills", kind, twice, killed)
		}
	}
}

// The same holds for jobs of scores, with which the model's head has labels.
func TestScoresKilled(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	random := rand.New(rand.NewPCG(7, 62))
	j := newCrashJob(t, "--format", "jsonl", "--part-rows", "150")
	if err := os.WriteFile(filepath.Join(j.dir, "m.fake"), []byte("labels a b c\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	n := slices.Index(j.args, "-n")
	j.args = slices.Concat([]string{"classify"}, j.args[1:n], j.args[n+2:])
	for range kills {
		more := j.drawn() + random.IntN(crashRows/(kills+1)+100)
		if j.killed(t, func(time.Duration) bool { return j.drawn() > more }) {
			break
		}
		j.undamaged(t)
	}
	j.same(t)
}

// A vector has the same bytes alone, and in another order of the rows.
func TestVectorsAloneAndReordered(t *testing.T) {
	j := newCrashJob(t, "--format", "jsonl")
	if err := os.WriteFile(filepath.Join(j.dir, "m.fake"), []byte("embeds 16\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	n := slices.Index(j.args, "-n")
	j.args = slices.Concat([]string{"embed"}, j.args[1:n], j.args[n+2:])
	var rows []string
	for i := range 40 {
		rows = append(rows, fmt.Sprintf("{\"id\":\"%d\",\"prompt\":\"text %d\"}\n", i, i*i))
	}
	run := func(output string, rows []string) map[string]string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(j.dir, "in.jsonl"), []byte(strings.Join(rows, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := j.command(t, output, 0).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lines := map[string]string{}
		text, err := os.ReadFile(filepath.Join(j.dir, output, "part-00000.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			lines[line[:strings.Index(line, `,"id":`)]] = line
		}
		return lines
	}
	want := run("together", rows)
	slices.Reverse(rows)
	if got := run("reversed", rows); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in another order: %v\nwant %v", got, want)
	}
	for line, text := range run("alone", rows[:1]) {
		if want[line] != text {
			t.Errorf("alone: %s, want %s", text, want[line])
		}
	}
}
