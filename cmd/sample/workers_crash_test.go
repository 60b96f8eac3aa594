package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quire/quire/data/vfs"
)

// crewOf lists the processes that a run with workers started: the workers, and the server of its queue.
func crewOf(supervisor int) (workers, servers []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(supervisor) || fields[0] == "Z" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		switch arguments := strings.Split(string(line), "\x00"); {
		case len(arguments) > 1 && arguments[1] == "worker":
			workers = append(workers, pid)
		case len(arguments) > 1 && arguments[1] == "nats":
			servers = append(servers, pid)
		}
	}
	return workers, servers
}

// deaths counts who was killed.
type deaths struct{ workers, servers, supervisors int }

func (d deaths) all() int { return d.workers + d.servers + d.supervisors }

// disturbed starts the job and kills processes of it at random until it ends, or itself is killed, or there were
// enough. It returns true where the job ended.
func (j *crashJob) disturbed(t *testing.T, random *rand.Rand, d *deaths, most int) bool {
	t.Helper()
	cmd := j.command(t, "out", time.Millisecond)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(4 * time.Minute)
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			return true
		case <-deadline:
			cmd.Process.Kill()
			<-ended
			t.Fatalf("it does not end: %s", out.String())
		case <-time.After(time.Duration(random.IntN(int(250 * time.Millisecond)))):
		}
		if d.all() >= most {
			continue
		}
		workers, servers := crewOf(cmd.Process.Pid)
		switch dice := random.IntN(20); {
		case dice == 0:
			d.supervisors++
			cmd.Process.Kill()
			<-ended
			return false
		case dice < 5 && len(servers) > 0:
			if syscall.Kill(servers[0], syscall.SIGKILL) == nil {
				d.servers++
			}
		case len(workers) > 0:
			if syscall.Kill(workers[random.IntN(len(workers))], syscall.SIGKILL) == nil {
				d.workers++
			}
		}
	}
}

// Workers, the server of their queue, and the process that looks after them are killed at random moments: the files are
// those of a run of one process that nothing disturbed, and each death of a worker costs no more than what it had in
// flight.
func TestWorkersKilledAtRandom(t *testing.T) {
	kills, perJob := 200, 40
	if testing.Short() {
		kills, perJob = 8, 8
	}
	random := rand.New(rand.NewPCG(2026, 7))
	kinds := [][]string{{"--part-rows", "150"}, {"--part-rows", "37", "--format", "jsonl"}, {"--part-rows", "8"},
		{"--part-rows", "700"}}
	for jobs := 0; kills > 0; jobs++ {
		j := newCrashJob(t, append(kinds[jobs%len(kinds)], "--ack-wait", "2s", "--max-tries", "1000", "--max-restarts",
			"1000")...)
		plain := j.args
		j.args = append(append([]string(nil), plain...), "--workers", "4")
		var d deaths
		for !j.disturbed(t, random, &d, min(kills, perJob)) {
		}
		kills -= max(d.all(), 1)
		again := j.drawn() - crashRows*crashN
		t.Logf("job %d: killed %d workers, %d servers, %d supervisors; %d completions drawn again", jobs, d.workers,
			d.servers, d.supervisors, again)
		if most := (d.workers + 4*d.supervisors) * crashFlight; again < 0 || again > most {
			t.Errorf("%d completions were drawn again; %d may be", again, most)
		}
		j.args = plain
		whole := j.command(t, "whole", 0)
		whole.Env = append(whole.Env, "QUIRE_FAKE_COUNT="+os.DevNull)
		if out, err := whole.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, want := j.files(t, "out"), j.files(t, "whole")
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s is not that of a run without disturbance", name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("there are %d files, want %d: %s", len(got), len(want), fmt.Sprint(names(got)))
		}
		if left, _ := filepath.Glob(filepath.Join(j.dir, "out", "_job", "shard-*", "journal-*")); len(left) > 0 {
			t.Errorf("journals are left: %v", left)
		}
	}
}

func names(files map[string]string) (all []string) {
	for name := range files {
		all = append(all, name)
	}
	return all
}

// Workers whose supervisor was killed hold their locks until the system has freed their memory. The same command,
// started at once, waits for that.
func TestWorkersWaitForDyingOnes(t *testing.T) {
	t.Parallel() // it waits most of the time
	j := newCrashJob(t, "--part-rows", "700", "--workers", "2")
	folder := filepath.Join(j.dir, "out", "_job")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	dying, err := vfs.OS.LockShared(filepath.Join(folder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(500*time.Millisecond, func() { _ = dying.Close() })
	if out, err := j.command(t, "out", 0).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A server that is killed before it listens is started again, as one that listened is.
func TestServerKilledAsItStarts(t *testing.T) {
	j := newCrashJob(t, "--part-rows", "700", "--max-restarts", "100", "--workers", "2")
	cmd := j.command(t, "out", 0)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	killed := map[int]bool{}
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v: %s", err, out.String())
			}
			if len(killed) < 5 {
				t.Errorf("%d servers were killed", len(killed))
			}
			return
		case <-time.After(time.Millisecond):
		}
		if _, servers := crewOf(cmd.Process.Pid); len(servers) > 0 && len(killed) < 5 &&
			syscall.Kill(servers[0], syscall.SIGKILL) == nil {
			killed[servers[0]] = true
		}
	}
}
