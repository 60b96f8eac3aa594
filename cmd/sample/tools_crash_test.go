package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
func (j *crashJob) callsOf(t *testing.T, file string) (made map[string]int, all int) {
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

// run runs the job, and kills it when stop says so. It returns whether the job ended first.
func (j *crashJob) runTools(t *testing.T, output, asked string, stop func(since time.Duration) bool,
	extra ...string) bool {
	t.Helper()
	cmd := j.command(t, output, 0)
	cmd.Args = append(cmd.Args, extra...)
	cmd.Env = append(cmd.Env, "ASKED="+filepath.Join(j.dir, asked))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // tools that outlive the job have its standard error
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	start := time.Now()
	for {
		select {
		case err := <-ended:
			exit := (*exec.ExitError)(nil)
			if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) { // rows with errors
				t.Fatalf("%v: %s", err, out.String())
			}
			return true
		case <-time.After(time.Millisecond):
			if stop(time.Since(start)) {
				cmd.Process.Kill()
				<-ended
				return false
			}
		}
	}
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
