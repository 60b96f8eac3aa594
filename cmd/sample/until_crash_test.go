package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
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

// cutAt returns the lines of a job that judges all its completions up to those that end their rows: the one of which
// so many of its row are accepted, or the first error.
func cutAt(t rapid.TB, whole map[string]string, accepted int) string {
	t.Helper()
	var cut strings.Builder
	row, left := "", 0
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if !strings.HasPrefix(name, "part-") {
			continue
		}
		for line := range strings.Lines(whole[name]) {
			var r struct {
				ID       string
				Error    *string
				Accepted *bool
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.ID != row {
				row, left = r.ID, accepted
			}
			if left <= 0 {
				continue
			}
			cut.WriteString(line)
			if r.Accepted != nil && *r.Accepted {
				left--
			}
			if r.Error != nil {
				left = 0
			}
		}
	}
	return cut.String()
}

// linesOf joins the parts of an output.
func linesOf(parts map[string]string) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if strings.HasPrefix(name, "part-") {
			all.WriteString(parts[name])
		}
	}
	return all.String()
}

// A job that ends rows by verdicts writes what is left of the whole job when it is cut there, whatever fails, dies or
// loses what was not synced, at whichever operation, and wherever its parts end.
func TestFaultsOfVerdicts(t *testing.T) {
	dir := t.TempDir()
	model, input, reward := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "r.fake")
	var rows strings.Builder
	for i := range 30 {
		switch {
		case i%11 == 5:
			rows.WriteString("{\"id\": \"no prompt\"}\n")
		case i%6 == 4: // equal rows, some of them with other bounds
			fmt.Fprintf(&rows, "{\"id\": \"equal %d\", \"prompt\": \"row\", \"n\": %d}\n", i%4, 2+i%7)
		case i%6 == 5:
			fmt.Fprintf(&rows, "{\"prompt\": \"row %d\", \"temperature\": 0}\n", i%4)
		case i%7 == 3:
			fmt.Fprintf(&rows, "{\"prompt\": \"row %d\", \"n\": %d, \"generation\": 2}\n", i, 3+i%5)
		case i%5 == 1: // some of these name no row
			fmt.Fprintf(&rows, "{\"prompt\": \"row %d\", \"parent\": %d, \"parent_length\": 2}\n", i, (i+8)%30/7*7+2)
		default:
			fmt.Fprintf(&rows, "{\"prompt\": \"row %d\"}\n", i)
		}
	}
	if err := errors.Join(os.WriteFile(model, nil, 0o666), os.WriteFile(reward, []byte("labels good\n"), 0o666),
		os.WriteFile(input, []byte(rows.String()), 0o666)); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		most := number("most", 3, 8)
		until := number("until", 1, 3)
		args := []string{"run", "-m", model, "-i", input, "-o", "out", "--progress", "none", "--format", "jsonl",
			"--max-tokens", "30", "--part-rows", strconv.Itoa(number("part rows", 1, 40))}
		if regex := rapid.SampledFrom([]string{`^\d*[147]:`, `^[02468]:.*[13579] \(`, `row 1`, `^9`, `.`, ``}).Draw(t,
			"regex"); regex != "" {
			args = append(args, "--accept-regex", regex)
		} else { // which rows with a parent have no score by, but an error
			args = append(args, "--accept-score", reward, "--accept-above", rapid.SampledFrom([]string{"0.5", "-0.2"}).
				Draw(t, "above"))
		}
		timing := process.Timing{RestartPause: time.Microsecond, Journal: journal.Options{
			SyncBytes: int64(number("sync bytes", 1, 500)), SegmentBytes: int64(number("segment bytes", 100, 5000))}}
		undisturbed, _, operations := runUndisturbed(t, args, timing, until, most)
		args = undisturbed.args
		parts := undisturbed.visible(t)
		l := &lives{args: args, timing: timing, mem: vfs.NewMem()}
		for range number("lives", 1, 4) {
			how, at, _ := l.disturbed(t, operations, 5, "error", "kill", "power")
			for name, text := range l.visible(t) {
				if parts[name] != text {
					t.Fatalf("after %s at operation %d, %s is wrong: %s\nwant %s", how, at, name, text, parts[name])
				}
			}
		}
		l.failAfter = -1
		if _, err := l.run(nil); err != nil {
			t.Fatal(err)
		}
		if got := l.visible(t); !maps.Equal(got, parts) {
			t.Fatalf("in the end there are %v of %v, or they differ", slices.Sorted(maps.Keys(got)),
				slices.Sorted(maps.Keys(parts)))
		}
	})
}

// Jobs whose completions a command judges, some of them copied, are killed at random moments, each until it is through:
// their files are those of runs that nothing disturbed, and of the whole job when it is cut there, and no verdict is
// asked for twice that came before a kill.
func TestVerdictsKilledAtRandom(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 4
	}
	const processes, rows = 3, 150
	verifier := `while IFS= read -r line; do
	echo "${line%%,\"text\"*}" >>"$ASKED"
	case "$line" in
	*'"generation":3,'*|*7,'"text"'*|*'"generation":1,"text":"1:row '[13579]*) echo '{"accepted":true,"verdict":"yes"}' ;;
	*) echo '{"accepted":false}' ;;
	esac
done`
	random := rand.New(rand.NewPCG(64, 2))
	for jobs := 0; kills > 0; jobs++ {
		dir := t.TempDir()
		asked := filepath.Join(dir, "asked")
		j := &crashJob{dir: dir, count: filepath.Join(dir, "drawn")}
		var lines strings.Builder
		for i := range rows {
			fmt.Fprintf(&lines, "{\"prompt\":\"row %d\"}\n", i)
		}
		for name, text := range map[string]string{"m.fake": "", "in.jsonl": lines.String(), "verify.sh": verifier} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		j.args = []string{"run", "-m", "m.fake", "-i", "in.jsonl", "--progress", "none", "--format", "jsonl",
			"--part-rows", strconv.Itoa(10 + random.IntN(100)), "--max-tokens", "20", "-n", "9",
			"--accept-command", "ASKED=" + asked + " exec sh verify.sh", "--accept-processes", strconv.Itoa(processes)}
		all := j.args
		if jobs%2 == 0 { // some completions are those of an output that nobody judged
			earlier := j.command(t, "earlier", 0)
			earlier.Args = []string{earlier.Args[0], "run", "-m", "m.fake", "-i", "in.jsonl", "--progress", "none",
				"--max-tokens", "20", "-n", "3", "--limit", strconv.Itoa(rows / 2), "-o", "earlier"}
			if out, err := earlier.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			j.more = []string{"--reuse", "earlier"}
		}
		j.args = append(slices.Clone(all), "--until", "2")
		mine := 0
		for kills > 0 && mine < 25 {
			more := j.drawn() + random.IntN(200)
			moment, early := time.Duration(random.IntN(int(200*time.Millisecond))), random.IntN(4) == 0
			if j.killed(t, func(since time.Duration) bool {
				return early && since > moment || !early && j.drawn() > more
			}) {
				break
			}
			kills--
			mine++
			j.undamaged(t)
		}
		// The undisturbed run asks, too: before it, the questions of the killed job are counted.
		done := false
		for !done {
			done = j.killed(t, func(time.Duration) bool { return false })
		}
		text, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		times, again := map[string]int{}, 0
		for line := range strings.Lines(string(text)) {
			if times[line]++; times[line] > 1 {
				again++
			}
		}
		if again > mine*processes {
			t.Errorf("%d verdicts were asked for again over %d kills of %d processes", again, mine, processes)
		}
		t.Logf("%d questions, %d of them again over %d kills", len(times)+again, again, mine)
		j.same(t)
		j.undamaged(t)
		j.args, j.more = all, nil
		if out, err := j.command(t, "all", 0).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if linesOf(j.parts(t, "out")) != cutAt(t, j.parts(t, "all"), 2) {
			t.Error("the output is not that of the whole job, cut where its rows are decided")
		}
	}
}

// parts are the parts of an output by their names.
func (j *crashJob) parts(t *testing.T, output string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, text := range j.files(t, output) {
		all[strings.TrimPrefix(name, "/")] = text
	}
	return all
}

// runUndisturbed runs a job that ends rows at their until-th accepted completion of most, and returns it, what it wrote
// and how many operations on files it took. The job must write the whole job of most completions, cut.
func runUndisturbed(t *rapid.T, args []string, timing process.Timing, until, most int) (job *lives, want string,
	operations int) {
	whole := &lives{args: append(slices.Clone(args), "-n", strconv.Itoa(most)), timing: timing, mem: vfs.NewMem(),
		failAfter: -1}
	if _, err := whole.run(nil); err != nil {
		t.Fatal(err)
	}
	want = cutAt(t, whole.visible(t), until)
	job = &lives{args: append(slices.Clone(args), "--until", strconv.Itoa(until), "--max-n", strconv.Itoa(most)),
		timing: timing, mem: vfs.NewMem(), failAfter: -1}
	if _, err := job.run(func(vfs.Op) error { operations++; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := linesOf(job.visible(t)); got != want {
		t.Fatalf("the job wrote\n%s, and the whole job cut is\n%s", got, want)
	}
	return job, want, operations
}
