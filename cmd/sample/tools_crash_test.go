package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/vfs"
)

// newToolJob makes a job of conversations that call two tools: once, which is called once, and again, which may be
// called again. Each notes the calls that it gets.
func newToolJob(t *testing.T, rows int, extra ...string) *crashJob {
	t.Helper()
	dir := t.TempDir()
	j := &crashJob{dir: dir, count: filepath.Join(dir, "drawn")}
	var lines strings.Builder
	for i := range rows {
		tool := []string{"once", "again"}[i%2]
		fmt.Fprintf(&lines, "{\"messages\":[{\"role\":\"user\",\"content\":\"%d calls:%dx%d of %s\"}],\"n\":%d}\n", i,
			i%4, 1+i%3, tool, 1+i%7/6)
	}
	writeAll(t, dir, map[string]string{"m.fake": "calls tools", "in.jsonl": lines.String(),
		"tools.json": `{"once": {"command": "exec sh tool.sh", "parallel": 5}, ` +
			`"again": {"command": "exec sh tool.sh", "parallel": 3, "idempotent": true}}`,
		"tool.sh": `while IFS= read -r line; do
	echo "$line" >>"$ASKED"
	sleep 0.003
	rest=${line#*\"arguments\":}
	echo "${rest%%,\"row\"*}"
done`})
	j.args = append([]string{"run", "-m", "m.fake", "-i", "in.jsonl", "--progress", "none", "--format", "jsonl",
		"--max-tokens", "400", "--tools-from", "tools.json"}, extra...)
	return j
}

// callsOf counts the calls that tools noted in a file, by their ids, and those of tools that may be called again.
func (j *crashJob) callsOf(t rapid.TB, file string) (made map[string]int, all int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	made = map[string]int{}
	for line := range strings.Lines(string(b)) {
		var call struct{ ID, Name string }
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		made[call.Name+" "+call.ID]++
		all++
	}
	return made, all
}

// rowsOf returns the lines of an output by row and generation, and how many of them have an error.
func (j *crashJob) rowsOf(t *testing.T, output string) (lines map[string]string, failed int) {
	t.Helper()
	lines = map[string]string{}
	for name, text := range j.files(t, output) {
		if !strings.HasPrefix(name, "/part-") {
			continue
		}
		for line := range strings.Lines(text) {
			var row struct {
				ID         string
				Generation int
				Error      *string
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprint(row.ID, " ", row.Generation)
			if row.Error != nil {
				if !strings.Contains(*row.Error, "was under way when the job was interrupted") {
					t.Fatalf("row %s: %s", row.ID, *row.Error)
				}
				failed++
				line = ""
			}
			lines[key] = line
		}
	}
	return lines, failed
}

// runTools runs the job, and kills it when stop says so. It returns true if the job ended first.
func (j *crashJob) runTools(t *testing.T, output, asked string, stop func(since time.Duration) bool,
	extra ...string) bool {
	t.Helper()
	cmd := j.command(t, output, 0)
	cmd.Args = append(cmd.Args, extra...)
	cmd.Env = append(cmd.Env, "ASKED="+filepath.Join(j.dir, asked))
	cmd.WaitDelay = time.Second // tools that outlive the job have its standard error
	return runUntil(t, cmd, stop, func(err error) error {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 { // rows with errors
			return nil
		}
		return err
	})
}

// Jobs that call tools are killed at random moments. No call of a tool that is called once is made twice, a row whose
// call was under way says so, and all others are those of a run that nothing disturbed. Tried again, so are these.
func TestToolsKilledAtRandom(t *testing.T) {
	kills := 500
	if testing.Short() {
		kills = 5
	}
	const rows, calls = 120, 5 + 3 // calls at once
	never := func(time.Duration) bool { return false }
	random := rand.New(rand.NewPCG(64, 3))
	for jobs := 0; kills > 0; jobs++ {
		j := newToolJob(t, rows, "--part-rows", strconv.Itoa(5+random.IntN(60)))
		mine, done := 0, false
		for !done && kills > 0 && mine < 25 {
			_, before := j.callsOf(t, "asked")
			more := before + random.IntN(60)
			moment, early := time.Duration(random.IntN(int(200*time.Millisecond))), random.IntN(4) == 0
			done = j.runTools(t, "out", "asked", func(since time.Duration) bool {
				if early {
					return since > moment
				}
				b, _ := os.ReadFile(filepath.Join(j.dir, "asked"))
				return strings.Count(string(b), "\n") > more
			})
			if !done {
				kills--
				mine++
				j.undamaged(t)
			}
		}
		if !done {
			j.runTools(t, "out", "asked", never)
		}
		j.undamaged(t)
		made, _ := j.callsOf(t, "asked")
		again := 0
		for call, times := range made {
			if times > 1 && strings.HasPrefix(call, "once ") {
				t.Errorf("the call %s was made %d times", call, times)
			}
			again += times - 1
		}
		if again > mine*calls {
			t.Errorf("%d calls were made again over %d kills", again, mine)
		}
		j.runTools(t, "whole", "whole-asked", never)
		want, bad := j.rowsOf(t, "whole")
		wanted, _ := j.callsOf(t, "whole-asked")
		got, failed := j.rowsOf(t, "out")
		for key, line := range want {
			if text, there := got[key]; !there || text != "" && text != line {
				t.Errorf("row %s is not that of a run without disturbance", key)
			}
		}
		if bad > 0 || len(got) != len(want) || failed > mine*calls {
			t.Errorf("%d rows of %d, %d failed over %d kills, and %d without", len(got), len(want), failed, mine, bad)
		}
		for call := range wanted {
			if made[call] == 0 && failed == 0 {
				t.Errorf("the call %s was not made", call)
			}
		}
		t.Logf("%d calls over %d kills, %d made again, %d of %d rows failed", len(made), mine, again, failed, len(got))
		j.runTools(t, "out", "retried", never, "--retry-errors")
		if got, failed = j.rowsOf(t, "out"); failed > 0 {
			t.Errorf("%d rows failed when they were tried again", failed)
		}
		for key, line := range want {
			if got[key] != line {
				t.Errorf("row %s, tried again, is not that of a run without disturbance", key)
			}
		}
	}
}

// Whatever fails, dies or loses what was not synced, at whichever operation: no call of a tool that is called once is
// made twice, a row whose call was under way says so, and all others are those of an undisturbed run.
func TestFaultsOfTools(t *testing.T) {
	dir := t.TempDir()
	model, input, tool := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "tool.sh")
	var lines strings.Builder
	for i := range 12 {
		fmt.Fprintf(&lines, "{\"messages\":[{\"role\":\"user\",\"content\":\"%d calls:%dx%d of %s\"}],\"n\":%d}\n", i,
			i%4, 1+i%2, []string{"once", "again"}[i%3/2], 1+i%5/4)
	}
	writeAll(t, dir, map[string]string{"m.fake": "calls tools", "in.jsonl": lines.String(), "tool.sh": `
while IFS= read -r line; do
	echo "$line" >>"$1"
	rest=${line#*\"arguments\":}
	echo "${rest%%,\"row\"*}"
done`})
	cases := 0
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		args := func(asked string) []string {
			command := fmt.Sprintf("exec sh %s %s", tool, asked)
			registry, _ := json.Marshal(map[string]map[string]any{"once": {"command": command, "parallel": 3},
				"again": {"command": command, "parallel": 2, "idempotent": true}})
			return []string{"run", "-m", model, "-i", input, "-o", "out", "--progress", "none", "--format", "jsonl",
				"--max-tokens", "400", "--part-rows", strconv.Itoa(number("part rows", 1, 15)), "--tools-from",
				string(registry)}
		}
		cases++
		asked := filepath.Join(dir, fmt.Sprint("asked", cases))
		timing := process.Timing{RestartPause: time.Microsecond, Journal: journal.Options{
			SyncBytes: int64(number("sync bytes", 1, 500)), SegmentBytes: int64(number("segment bytes", 100, 5000))}}
		l := &lives{args: args(asked), timing: timing, mem: vfs.NewMem(), failAfter: -1}
		undisturbed := &lives{args: slices.Clone(l.args), timing: timing, mem: vfs.NewMem(), failAfter: -1}
		operations := 0
		if _, err := undisturbed.run(func(vfs.Op) error { operations++; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(asked); err != nil {
			t.Fatal(err)
		}
		for range number("lives", 1, 4) {
			l.disturbed(t, operations, 9, "error", "kill", "power")
		}
		l.failAfter = -1
		if _, err := l.run(nil); err != nil {
			t.Fatal(err)
		}
		j := &crashJob{dir: dir}
		made, _ := j.callsOf(t, filepath.Base(asked))
		for call, times := range made {
			if times > 1 && strings.HasPrefix(call, "once ") {
				t.Fatalf("the call %s was made %d times", call, times)
			}
		}
		want, got := undisturbed.visible(t), l.visible(t)
		if len(got) != len(want) {
			t.Fatalf("there are %d files, want %d", len(got), len(want))
		}
		for name, text := range want {
			lines, mine := slices.Collect(strings.Lines(text)), slices.Collect(strings.Lines(got[name]))
			if !strings.HasPrefix(name, "part-") {
				continue
			}
			for i, line := range lines {
				if len(mine) != len(lines) || mine[i] != line &&
					!strings.Contains(mine[i], "was under way when the job was interrupted") {
					t.Fatalf("%s: line %d is\n%swant\n%s", name, i, mine[min(i, len(mine)-1)], line)
				}
			}
		}
	})
}
