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

// A job grows in steps, by rows and by completions of each, and is killed at random moments, also before a step is
// through. Its parts are those of a job that was started with the last settings, and what was generated is not
// generated again.
func TestExtendedAndKilled(t *testing.T) {
	jobs, kills := 4, 12
	if testing.Short() {
		jobs, kills = 1, 1
	}
	kinds := [][]string{{"--format", "jsonl", "--part-rows", "150"}, {"--part-rows", "370"},
		{"--format", "jsonl", "--part-rows", "1"}, {"--part-rows", "5000"}}
	for seed := range jobs {
		random := rand.New(rand.NewPCG(uint64(seed), 27))
		j := newCrashJob(t, kinds[seed]...)
		j.more = []string{"--extend"}
		input := filepath.Join(j.dir, "in.jsonl")
		text, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		n, killed := slices.Index(j.args, "-n")+1, 0
		for _, step := range []struct{ rows, n int }{{500, 1}, {1200, 2}, {1200, 3}, {crashRows, crashN}} {
			if err := os.WriteFile(input, []byte(strings.Join(lines[:step.rows], "")), 0o666); err != nil {
				t.Fatal(err)
			}
			j.args[n] = fmt.Sprint(step.n)
			for range kills {
				more := j.drawn() + random.IntN(step.rows*step.n/(kills+1)+200)
				if j.killed(t, func(time.Duration) bool { return j.drawn() > more }) {
					break
				}
				killed++
				j.undamaged(t)
			}
		}
		for _, output := range []string{"out", "whole"} {
			cmd := j.command(t, output, 0)
			if output == "whole" {
				cmd.Env = append(cmd.Env, "QUIRE_FAKE_COUNT="+os.DevNull)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		got, want := j.files(t, "out"), j.files(t, "whole")
		for name, text := range want {
			if got[name] != text && name != "/_job/job.json" {
				t.Errorf("%s is not that of a job that was begun so", name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("there are %d files, want %d", len(got), len(want))
		}
		j.undamaged(t)
		again := j.drawn() - crashRows*crashN
		t.Logf("job %d: %d kills, %d completions drawn again", seed, killed, again)
		if again < 0 || again > killed*crashFlight {
			t.Errorf("%d completions were drawn again over %d kills; %d may be", again, killed, killed*crashFlight)
		}
	}
}
