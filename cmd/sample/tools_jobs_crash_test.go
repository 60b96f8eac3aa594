package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/vfs"
)

// byRow splits lines of JSON by the id of their rows.
func byRow(t rapid.TB, lines string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for line := range strings.Lines(lines) {
		var row struct{ ID string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows[row.ID] += line
	}
	return rows
}

// Whatever fails, dies or loses what was not synced, at whichever operation, a job whose verdicts end rows of
// conversations has what is left of the whole job when it is cut there. Only a row whose call may not be made again may
// have an error instead, and no such call is made twice.
func TestFaultsOfJudgedTools(t *testing.T) {
	dir := t.TempDir()
	model, input, tool := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "tool.sh")
	var lines strings.Builder
	for i := range 10 {
		if i%3 == 2 { // equal rows, of which tools that are pure make one
			lines.WriteString(`{"id":"equal","messages":[{"role":"user","content":"calls:2 of again"}]}` + "\n")
		}
		fmt.Fprintf(&lines, "{\"messages\":[{\"role\":\"user\",\"content\":\"%d calls:%dx%d of %s\"}]}\n", i, i%3,
			1+i%2, []string{"once", "again"}[i%3/2])
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
		most, until := number("most", 2, 5), number("until", 1, 2)
		cases++
		asked := filepath.Join(dir, fmt.Sprint("asked", cases))
		command := fmt.Sprintf("exec sh %s %s", tool, asked)
		tools := map[string]map[string]any{"once": {"command": command, "parallel": 3},
			"again": {"command": command, "parallel": 2, "idempotent": true}}
		pure := rapid.Bool().Draw(t, "pure")
		if pure {
			tools["once"]["pure"], tools["again"]["pure"] = true, true
		}
		registry, _ := json.Marshal(tools)
		args := []string{"run", "-m", model, "-i", input, "-o", "out", "--progress", "none", "--format", "jsonl",
			"--max-tokens", "400", "--part-rows", strconv.Itoa(number("part rows", 1, 12)), "--tools-from",
			string(registry), "--accept-regex", rapid.SampledFrom([]string{`^[13]:`, `^[024]:`, `[37]`, `^9`}).Draw(t,
				"regex")}
		timing := process.Timing{RestartPause: time.Microsecond, Journal: journal.Options{
			SyncBytes: int64(number("sync bytes", 1, 500)), SegmentBytes: int64(number("segment bytes", 100, 5000))}}
		undisturbed, want, operations := runUndisturbed(t, args, timing, until, most)
		args = undisturbed.args
		if err := os.Remove(asked); err != nil {
			t.Fatal(err)
		}
		l := &lives{args: args, timing: timing, mem: vfs.NewMem()}
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
			if !pure && times > 1 && strings.HasPrefix(call, "once ") {
				t.Fatalf("the call %s was made %d times", call, times)
			}
		}
		got := byRow(t, linesOf(l.visible(t)))
		for id, row := range byRow(t, want) {
			if got[id] != row && (pure || !strings.Contains(got[id], "was under way when the job was interrupted")) {
				t.Fatalf("row %s is\n%swant\n%s", id, got[id], row)
			}
		}
	})
}

// newPureJob makes a job of conversations whose tools are all pure.
func newPureJob(t *testing.T, rows int, extra ...string) *crashJob {
	t.Helper()
	j := newToolJob(t, rows, extra...)
	writeAll(t, j.dir, map[string]string{"tools.json": `{"once": {"command": "exec sh tool.sh", "parallel": 5, ` +
		`"pure": true}, "again": {"command": "exec sh tool.sh", "parallel": 3, "pure": true}}`})
	return j
}

// A job that copies conversations of another output is killed at random moments: its files are those of a run from
// nothing that nothing disturbed, and it makes no call of a conversation that the other output has.
func TestCopiedConversationsKilledAtRandom(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 3
	}
	const rows, copied = 120, 90
	never := func(time.Duration) bool { return false }
	random := rand.New(rand.NewPCG(64, 4))
	for jobs := 0; kills > 0; jobs++ {
		j := newPureJob(t, rows, "--part-rows", strconv.Itoa(5+random.IntN(60)))
		j.runTools(t, "earlier", "earlier-asked", never, "--limit", strconv.Itoa(copied))
		before, _ := j.callsOf(t, "earlier-asked")
		mine := 0
		for done := false; !done && kills > 0 && mine < 10; {
			moment := time.Duration(random.IntN(int(300 * time.Millisecond)))
			done = j.runTools(t, "out", "asked", func(since time.Duration) bool { return since > moment }, "--reuse",
				"earlier")
			if !done {
				kills--
				mine++
				j.undamaged(t)
			}
		}
		j.runTools(t, "out", "asked", never, "--reuse", "earlier")
		j.undamaged(t)
		made, _ := j.callsOf(t, "asked")
		for call := range made {
			if before[call] > 0 {
				t.Errorf("the call %s was made, which another output has the answer to", call)
			}
		}
		j.runTools(t, "whole", "whole-asked", never)
		got, _ := j.rowsOf(t, "out")
		want, _ := j.rowsOf(t, "whole")
		for key, line := range want {
			if got[key] != line {
				t.Errorf("row %s is not that of a run without disturbance", key)
			}
		}
		t.Logf("%d kills, %d calls", mine, len(made))
	}
}

// Workers whose rows call tools are killed at random moments, and so is who looks after them. The next worker of a unit
// has the log of its calls: no call of a tool that is called once is made twice, a row whose call was under way says
// so, and all others are those of one process that nothing disturbed.
func TestWorkersWithToolsKilledAtRandom(t *testing.T) {
	kills, perJob := 100, 20
	if testing.Short() {
		kills, perJob = 6, 6
	}
	const rows, calls = 240, 4 * (5 + 3) // calls at once of all workers
	random := rand.New(rand.NewPCG(64, 5))
	for jobs := 0; kills > 0; jobs++ {
		j := newToolJob(t, rows, "--part-rows", strconv.Itoa([]int{7, 30, 90}[jobs%3]))
		one := j.args
		j.args = append(slices.Clone(one), "--workers", "4", "--ack-wait", "2s", "--max-tries", "1000",
			"--max-restarts", "1000")
		mine := 0
		for done := false; !done; {
			done = j.runTools(t, "out", "asked", j.killer(random, &mine, min(kills, perJob)))
		}
		kills -= max(mine, 1)
		made, _ := j.callsOf(t, "asked")
		for call, times := range made {
			if times > 1 && strings.HasPrefix(call, "once ") {
				t.Errorf("the call %s was made %d times", call, times)
			}
		}
		j.args = one
		j.runTools(t, "whole", "whole-asked", func(time.Duration) bool { return false })
		want, _ := j.rowsOf(t, "whole")
		got, failed := j.rowsOf(t, "out")
		for key, line := range want {
			if text, there := got[key]; !there || text != "" && text != line {
				t.Errorf("row %s is not that of a run without disturbance", key)
			}
		}
		if len(got) != len(want) || failed > mine*calls {
			t.Errorf("%d rows of %d, %d failed over %d kills", len(got), len(want), failed, mine)
		}
		t.Logf("%d calls over %d kills, %d of %d rows failed", len(made), mine, failed, len(got))
	}
}

// killer returns what kills workers of this process' job at random moments, and now and then has the whole job killed,
// until there were enough kills.
func (j *crashJob) killer(random *rand.Rand, kills *int, most int) func(time.Duration) bool {
	next := time.Duration(0)
	return func(since time.Duration) bool {
		if since < next || *kills >= most {
			return false
		}
		next = since + time.Duration(random.IntN(int(300*time.Millisecond)))
		if random.IntN(15) == 0 {
			*kills++
			return true
		}
		supervisors, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range supervisors {
			if dir, err := os.Readlink(link); err != nil || dir != j.dir {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			workers, _ := crewOf(pid)
			if len(workers) > 0 && syscall.Kill(workers[random.IntN(len(workers))], syscall.SIGKILL) == nil {
				*kills++
				return false
			}
		}
		return false
	}
}
