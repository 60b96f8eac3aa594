package main

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
)

// Whatever the shards, their order, and what fails in between, all of them write the files of one run.
func TestShardsWriteTheSame(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model, jobs := write("m.fake", ""), 0
	rapid.Check(t, func(r *rapid.T) {
		jobs++
		rows := rapid.IntRange(0, 60).Draw(r, "rows")
		var text strings.Builder
		for i := range rows {
			fmt.Fprintf(&text, "{\"prompt\": \"row %d\"}\n", i)
		}
		in := write(fmt.Sprintf("%d.jsonl", jobs), text.String())
		format := rapid.SampledFrom([]string{"jsonl", "parquet"}).Draw(r, "format")
		args := []string{"run", "-m", model, "-i", in, "--format", format, "--part-rows",
			fmt.Sprint(rapid.IntRange(1, 12).Draw(r, "part-rows")), "--progress", "none", "-n", "2"}
		alone, out := filepath.Join(dir, fmt.Sprintf("alone-%d", jobs)), filepath.Join(dir, fmt.Sprintf("out-%d", jobs))
		if code, said := sampleFake(append(args, "-o", alone)...); code != 0 {
			r.Fatal(said)
		}
		count := rapid.IntRange(2, 5).Draw(r, "count")
		order := rapid.Permutation(makeRange(count)).Draw(r, "order")
		broken := rapid.IntRange(-1, count-1).Draw(r, "broken")
		var said string
		for _, i := range order {
			shard := append(args, "-o", out, "--shard", fmt.Sprintf("%d/%d", i, count))
			if i == broken {
				// It ends after some completions, and is started again.
				after := rapid.IntRange(0, 20).Draw(r, "after")
				env := &cli.Environment{Stdout: io.Discard, Stderr: io.Discard, FS: vfs.OS}
				env.Models = fakeModels{opened: func(_ *spec.Job, e *fakeEngine) {
					e.failAfter, e.failTimes = after, fakeFailures+1
				}}
				sampleMain(append(shard, "--max-restarts", "0"), env)
			}
			var code int
			if code, said = sampleFake(shard...); code != 0 {
				r.Fatal(said)
			}
		}
		if !regexp.MustCompile(`parts? of the job (is|are) there`).MatchString(said) ||
			strings.Contains(said, "missing") {
			r.Errorf("the last shard says: %s", said)
		}
		if err := same(outputOf(t, out), outputOf(t, alone)); err != nil {
			r.Error(err)
		}
		// Nothing is left to do, for a run of the whole job or for shards of another count.
		for _, shard := range []string{"0/7", "0/1"} {
			if code, said := sampleFake(append(args, "-o", out, "--shard", shard)...); code != 0 ||
				!strings.Contains(said, "is finished") {
				r.Errorf("%d: %s", code, said)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(out, "_job", "*", "journal-*")); len(left) > 0 {
			r.Errorf("journals are left: %s", left)
		}
	})
}

func makeRange(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// A shard that loses the race to describe the job continues with what the winner settled on, and refuses the winner's
// other job.
func TestShardsBeginTogether(t *testing.T) {
	url := fakeBucket(t, 7)
	dir := t.TempDir()
	t.Setenv("QUIRE_CACHE", filepath.Join(dir, "cache"))
	model, in := filepath.Join(dir, "m.fake"), filepath.Join(dir, "in.jsonl")
	for path, text := range map[string]string{model: "", in: strings.Repeat("{\"prompt\": \"a row\"}\n", 30)} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, out := range map[string]string{"here": filepath.Join(dir, "out"), "elsewhere": url("out")} {
		t.Run(name, func(t *testing.T) {
			args := func(shard, output string, more ...string) []string {
				all := append([]string{"run", "-m", model, "-i", in, "-o", output, "--part-rows", "5", "--progress",
					"none", "--format", "jsonl", "--shard", shard}, more...)
				if name == "elsewhere" { // machines of their own
					all = append(all, "--work-dir", filepath.Join(dir, "work-"+strings.ReplaceAll(shard, "/", "-")))
				}
				return all
			}
			longest := func(o *spec.Job, found int) int { return cmp.Or(o.Engine.MaxModelLen, found) }
			opened := []int{}
			environmentOf := func(found int, first func()) *cli.Environment {
				env := &cli.Environment{Stdout: io.Discard, Stderr: io.Discard, FS: vfs.OS}
				env.Models = fakeModels{opened: func(o *spec.Job, e *fakeEngine) {
					if first != nil {
						first()
						first = nil
					}
					e.longest = longest(o, found)
					opened = append(opened, e.longest)
				}}
				return env
			}
			// While the first opens its engine, the second does all of its work, on a machine that has room for more.
			code := sampleMain(args("0/2", out), environmentOf(400, func() {
				if code := sampleMain(args("1/2", out), environmentOf(900, nil)); code != 0 {
					t.Errorf("the second: %d", code)
				}
			}))
			if code != 0 || fmt.Sprint(opened) != "[900 400 900]" {
				t.Errorf("%d, engines of %v tokens a sequence", code, opened)
			}
			code, said := sampleFake("run", "-m", model, "-i", in, "-o", filepath.Join(dir, "alone-"+name),
				"--part-rows", "5", "--format", "jsonl", "--max-model-len", "900")
			if code != 0 {
				t.Fatal(said)
			}
			if err := same(outputOf(t, out), outputOf(t, filepath.Join(dir, "alone-"+name))); err != nil {
				t.Error(err)
			}
			// The winner's job is another one.
			other := out + "-other"
			if name == "elsewhere" {
				other = url("other")
			}
			var text strings.Builder
			env := environmentOf(400, func() {
				if code := sampleMain(args("1/3", other), environmentOf(400, nil)); code != 0 {
					t.Errorf("the second: %d", code)
				}
			})
			env.Stderr = &text
			if code := sampleMain(args("0/3", other, "--seed", "8"), env); code != cli.ExitFailure ||
				!strings.Contains(text.String(), "seed is 8, was 0") {
				t.Errorf("%d: %s", code, text.String())
			}
		})
	}
}

// Four processes do a job together, and are killed at random, until all are through: the files are those of one run.
func TestShardsKilledAtRandom(t *testing.T) {
	const count = 4
	kills := 60
	if testing.Short() {
		kills = 6
	}
	random := rand.New(rand.NewPCG(2026, 12))
	j := newCrashJob(t, "--part-rows", "53", "--format", "jsonl")
	var mu sync.Mutex
	killed := 0
	var wg sync.WaitGroup
	for i := range count {
		moments := make([]time.Duration, 1000)
		for k := range moments {
			moments[k] = time.Duration(random.IntN(int(200 * time.Millisecond)))
		}
		wg.Go(func() {
			for _, moment := range moments {
				cmd := j.command(t, "out", 100*time.Microsecond)
				cmd.Args = append(cmd.Args, "--shard", fmt.Sprintf("%d/%d", i, count))
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				left := kills - killed
				mu.Unlock()
				var kill *time.Timer
				if left > 0 {
					kill = time.AfterFunc(moment, func() { cmd.Process.Kill() })
				}
				err := cmd.Wait()
				if kill != nil {
					kill.Stop()
				}
				exit, _ := err.(*exec.ExitError)
				switch {
				case err == nil:
					return
				case exit != nil && exit.ExitCode() == -1:
					mu.Lock()
					killed++
					mu.Unlock()
				default:
					t.Errorf("shard %d: %v: %s", i, err, out.String())
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d kills, %d of %d completions drawn again", killed, j.drawn()-crashRows*crashN, crashRows*crashN)
	if again := j.drawn() - crashRows*crashN; again < 0 || again > killed*crashFlight {
		t.Errorf("%d completions were drawn again over %d kills; %d may be", again, killed, killed*crashFlight)
	}
	j.same(t)
	if left, _ := filepath.Glob(filepath.Join(j.dir, "out", "_job", "*", "journal-*")); len(left) > 0 {
		t.Errorf("journals are left: %s", left)
	}
}
