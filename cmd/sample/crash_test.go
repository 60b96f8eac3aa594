package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// crashJob is a job whose process is killed.
type crashJob struct {
	dir   string
	count string // file with a byte for each completion that was generated
	args  []string
	real  bool     // with a model, not the fake one
	code  int      // with which it ends
	more  []string // arguments of all runs but the undisturbed one
}

const (
	crashRows = 2000
	crashN    = 4
	// crashFlight is what the fake engine generates before it gives any of it: the requests of its four slots.
	crashFlight = 4 * crashN
)

// newCrashJob makes a job of 2,000 short rows, four completions each.
func newCrashJob(t *testing.T, extra ...string) *crashJob {
	t.Helper()
	dir := t.TempDir()
	j := &crashJob{dir: dir, count: filepath.Join(dir, "drawn")}
	var rows strings.Builder
	for i := range crashRows {
		scores := []string{"", `,"top_logprobs":2`, `,"prompt_logprobs":1`}[i%3]
		fmt.Fprintf(&rows, "{\"prompt\":\"row %d\",\"topic\":\"%d\"%s}\n", i, i%7, scores)
	}
	for name, text := range map[string]string{"m.fake": "", "in.jsonl": rows.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	j.args = append([]string{"run", "-m", "m.fake", "-i", "in.jsonl", "-n", fmt.Sprint(crashN), "--progress", "none"},
		extra...)
	return j
}

func (j *crashJob) command(t *testing.T, output string, delay time.Duration) *exec.Cmd {
	t.Helper()
	name := "sample" // the command of the scripts: the whole one, but for the model
	if j.real {
		name = "real-sample"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(j.args, []string{"-o", output})
	if output != "whole" {
		args = append(args, j.more...)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), "QUIRE_FAKE_COUNT="+j.count, "QUIRE_FAKE_DELAY="+delay.String())
	return cmd
}

// failed reports how a process ended otherwise than the job is to end.
func (j *crashJob) failed(err error) error {
	exit := (*exec.ExitError)(nil)
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == j.code:
		return nil
	case err == nil && j.code != 0:
		return fmt.Errorf("exit code 0, want %d", j.code)
	}
	return err
}

// generated is how many completions were generated so far, over all processes.
func (j *crashJob) drawn() int {
	info, err := os.Stat(j.count)
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// killed starts the job and kills it when stop says so. It returns true if the job ended first.
func (j *crashJob) killed(t *testing.T, stop func(since time.Duration) bool) (done bool) {
	t.Helper()
	return runUntil(t, j.command(t, "out", time.Microsecond), stop, j.failed)
}

// runUntil runs a command and kills it when stop says so. It returns true if the command ended first; failed returns
// an error if it ended otherwise than it is to end.
func runUntil(t *testing.T, cmd *exec.Cmd, stop func(since time.Duration) bool, failed func(error) error) (done bool) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	start := time.Now()
	for {
		select {
		case err := <-ended:
			if err := failed(err); err != nil {
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

// files are the files of an output, without the lock and the notes on parts.
func (j *crashJob) files(t *testing.T, output string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*", "_job/job.json", "_job/journal-*"} {
		names, err := filepath.Glob(filepath.Join(j.dir, output, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if filepath.Base(name) == "_job" {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(name, filepath.Join(j.dir, output))] = string(b)
		}
	}
	return all
}

// same finishes the job and compares its files with those of a run that nothing disturbed.
func (j *crashJob) same(t *testing.T) {
	t.Helper()
	for _, output := range []string{"out", "whole"} {
		cmd := j.command(t, output, 0)
		if output == "whole" {
			cmd.Env = append(cmd.Env, "QUIRE_FAKE_COUNT="+os.DevNull)
		}
		out, err := cmd.CombinedOutput()
		if err := j.failed(err); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	got, want := j.files(t, "out"), j.files(t, "whole")
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is not that of a run without disturbance", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d files, want %d", len(got), len(want))
	}
}

// undamaged wants sample verify to find nothing wrong: a job that was killed is whole as far as it came.
func (j *crashJob) undamaged(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("sample")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "verify", "out")
	cmd.Dir = j.dir
	out, err := cmd.CombinedOutput()
	none := strings.Contains(string(out), "holds no job") ||
		strings.Contains(string(out), "there is no such folder")
	if err != nil && !none { // killed before it began
		t.Errorf("%v: %s", err, out)
	}
}

// Jobs are killed at random moments, 200 times in all, each until it is through: their files are those of runs that
// nothing disturbed, and each kill costs no more than what was in flight.
func TestKilledAtRandom(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 6
	}
	random := rand.New(rand.NewPCG(2026, 11))
	kinds := [][]string{{"--part-rows", "150"}, {"--format", "jsonl"}, {"--part-rows", "37", "--format", "jsonl"}, {}}
	for jobs := 0; kills > 0; jobs++ {
		j := newCrashJob(t, kinds[jobs%len(kinds)]...)
		mine := 0
		for done := false; !done && kills > 0 && mine < 60; {
			// One in four while it starts, the others once it generates.
			moment, more := time.Duration(random.IntN(int(250*time.Millisecond))), j.drawn()+random.IntN(700)
			starting := random.IntN(4) == 0
			stop := func(since time.Duration) bool {
				return starting && since > moment || !starting &&
					j.drawn() > more
			}
			if done = j.killed(t, stop); !done {
				mine++
				kills--
				j.undamaged(t)
			}
		}
		before := j.drawn()
		j.same(t)
		j.undamaged(t)
		drawn := j.drawn()
		t.Logf("job %d: %d kills, %d completions drawn up to the last, %d in all: %d again", jobs, mine, before, drawn,
			drawn-crashRows*crashN)
		if again := drawn - crashRows*crashN; again < 0 || again > mine*crashFlight {
			t.Errorf("%d completions were drawn again over %d kills; %d may be", again, mine, mine*crashFlight)
		}
	}
}

// Answers to a batch file are those of a run that nothing disturbed, too.
func TestAnswersKilledAtRandom(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 3
	}
	random := rand.New(rand.NewPCG(2027, 11))
	j := newCrashJob(t, "--format", "openai", "--part-rows", "170")
	var lines strings.Builder
	for i := range crashRows {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"row %d"}],"logprobs":%t}`, i, i%3 == 0)
		url := "/v1/chat/completions"
		if i%2 == 0 {
			url, body = "/v1/completions", fmt.Sprintf(`{"prompt":"row %d"}`, i)
		}
		fmt.Fprintf(&lines, "{\"custom_id\":\"request-%d\",\"method\":\"POST\",\"url\":%q,\"body\":%s}\n", i, url, body)
	}
	if err := os.WriteFile(filepath.Join(j.dir, "in.jsonl"), []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for range kills {
		more := j.drawn() + random.IntN(700)
		if j.killed(t, func(time.Duration) bool { return j.drawn() > more }) {
			break
		}
		j.undamaged(t)
	}
	j.same(t)
	j.undamaged(t)
}

// Killed at half way and run again, a job does no more than 1.05 of the work.
func TestKilledAtHalfWay(t *testing.T) {
	j := newCrashJob(t)
	const whole = crashRows * crashN
	if j.killed(t, func(time.Duration) bool { return j.drawn() > whole/2 }) {
		t.Fatal("the job was through before it could be killed")
	}
	half := j.drawn()
	j.same(t)
	work := float64(j.drawn()) / whole
	t.Logf("killed after %d completions of %d; all in all %.4f of a pass", half, whole, work)
	if work > 1.05 {
		t.Errorf("%.3f of a pass was done", work)
	}
}

// Two processes cannot work on one job.
func TestOneProcessAJob(t *testing.T) {
	t.Parallel() // it waits most of the time
	j := newCrashJob(t)
	first := j.command(t, "out", time.Millisecond)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		first.Process.Kill()
		first.Wait()
	}()
	for deadline := time.Now().Add(time.Minute); j.drawn() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was drawn")
		}
	}
	for _, extra := range [][]string{nil, {"--new"}} {
		second := j.command(t, "out", 0)
		second.Args = append(second.Args, extra...)
		out, err := second.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another process is working on this job") {
			t.Errorf("%v: %v: %s", extra, err, out)
		}
	}
}
