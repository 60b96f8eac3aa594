package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// weightsRow is a row of an output with the versions of its weights.
type weightsRow struct {
	ID         string   `json:"id"`
	Generation int      `json:"generation"`
	Tokens     []int32  `json:"token_ids"`
	Versions   []string `json:"weights_versions"`
	Starts     []int32  `json:"weights_starts"`
	Version    string   `json:"weights_version"`
	Error      string   `json:"error"`
	Accepted   bool     `json:"accepted"`
}

func readWeightsRows(t *testing.T, folder string) (rows []weightsRow) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(folder, "part-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		text, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var r weightsRow
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// underWay returns the versions of the completions of a job that were under way when its process died, by id and
// generation.
func underWay(t *testing.T, folder string) map[string][]engine.WeightsRun {
	t.Helper()
	_, key, err := jobstate.ReadKey(vfs.OS, folder)
	if err != nil {
		t.Fatal(err)
	}
	log := versions.NewLog()
	_, err = journal.Check(vfs.OS, filepath.Join(folder, "_job"), key, func(row int64, b []byte) error {
		if note, ok := versions.Parse(b); ok {
			log.Add(row, note)
		} else if generation, err := completion.GenerationOf(b); err == nil {
			log.End(row, generation)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][]engine.WeightsRun{}
	for _, c := range log.UnderWay() {
		runs[fmt.Sprintf("row-%d/%d", c.Row, c.Generation)] = c.Runs
	}
	for _, r := range readWeightsRows(t, folder) { // rows of published parts
		delete(runs, fmt.Sprintf("%s/%d", r.ID, r.Generation))
	}
	return runs
}

func runsOf(r weightsRow) (runs []engine.WeightsRun) {
	for i, version := range r.Versions {
		runs = append(runs, engine.WeightsRun{First: int(r.Starts[i]), Version: version})
	}
	return runs
}

// watchedJob is a job that takes the weights of a trainer, and whose process is killed.
type watchedJob struct {
	dir     string
	random  *rand.Rand
	rows    int
	row     func(random *rand.Rand, i int) string // members of a row in addition to its id
	args    []string                              // of all runs
	folders []string                              // the model, and what the trainer made of it
}

// newWatchedJob makes a job of a model in a folder, of as many rows as keep this machine busy for seconds: otherwise it
// ends before weights come.
func newWatchedJob(t *testing.T, dir, base string, seed uint64, row func(*rand.Rand, int) string,
	args ...string) *watchedJob {
	t.Helper()
	const trained, fewest, long = 4, 100, 4 * time.Second
	j := &watchedJob{dir: dir, random: rand.New(rand.NewPCG(seed, 7)), rows: fewest, row: row, args: args,
		folders: []string{base}}
	for i := range trained {
		to := filepath.Join(j.dir, "trained", fmt.Sprintf("step-%d", i+8)) // step-10 comes after step-9
		if err := train(base, to, uint64(i), ""); err != nil {
			t.Fatal(err)
		}
		j.folders = append(j.folders, to)
	}
	for _, output := range []string{"compiles", "timed"} {
		j.write(t)
		start := time.Now()
		j.whole(t, base, output)
		if took := time.Since(start); output == "timed" {
			j.rows = max(fewest, min(5000, int(float64(j.rows)*long.Seconds()/took.Seconds())))/3*3 + 1
		}
	}
	j.write(t)
	return j
}

// write writes the input.
func (j *watchedJob) write(t *testing.T) {
	t.Helper()
	var input strings.Builder
	for i := range j.rows {
		fmt.Fprintf(&input, "{\"id\":\"row-%d\",%s}\n", i, j.row(j.random, i))
	}
	if err := os.WriteFile(filepath.Join(j.dir, "in.jsonl"), []byte(input.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// prompt is a prompt of at most so many random tokens.
func randomPrompt(random *rand.Rand, most int) string {
	tokens := make([]string, 1+random.IntN(most))
	for k := range tokens {
		tokens[k] = strconv.Itoa(random.IntN(250))
	}
	return fmt.Sprintf(`"prompt_token_ids":[%s]`, strings.Join(tokens, ","))
}

func (j *watchedJob) command(t *testing.T, name, output, model string, more ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("real-sample")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, slices.Concat([]string{name, output, "-m", model, "-i", "in.jsonl", "--format", "jsonl",
		"--temperature", "1", "--max-seqs", "8", "--max-rounds", "2", "--max-model-len", "128", "--kv-memory", "1MiB",
		"--progress", "plain", "--columns", "weights_version,weights_versions,weights_starts"}, j.args, more)...)
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), "ASKED="+strings.TrimPrefix(output, "--output=")+"-asked")
	return cmd
}

func (j *watchedJob) run(t *testing.T, model, output string, more ...string) *exec.Cmd {
	t.Helper()
	return j.command(t, "run", "--output="+output, model, more...)
}

// whole runs the job without a disturbance.
func (j *watchedJob) whole(t *testing.T, model, output string, more ...string) {
	t.Helper()
	if out, err := j.run(t, model, output, more...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// publish puts the next weights in a place.
func (j *watchedJob) publish(t *testing.T, place string, number int) (name string) {
	t.Helper()
	name = filepath.Base(j.folders[number])
	if err := os.Rename(j.folders[number], filepath.Join(j.dir, place, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.dir, place, name+".ready"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// withdraw takes the first weights back, for the next job.
func (j *watchedJob) withdraw(t *testing.T, place string, published int) {
	t.Helper()
	for k := 1; k <= published; k++ {
		if err := os.Rename(filepath.Join(j.dir, place, filepath.Base(j.folders[k])), j.folders[k]); err != nil {
			t.Fatal(err)
		}
	}
}

// disturbedJob is how a job went whose process was killed.
type disturbedJob struct {
	output, place    string
	watching         []string // its arguments
	published, kills int
	noted            map[string][]engine.WeightsRun // versions of completions that were under way at a kill
	several          int                            // of these, with several versions
	log              string
}

// mostKills bounds how often a job is killed: on a slow machine a process may come to little before its end.
const mostKills = 8

// disturb runs a job until it is through: weights come to its place, from number published+1 to pool, and its process
// is killed at random moments.
func (j *watchedJob) disturb(t *testing.T, name, policy string, published, pool int) *disturbedJob {
	t.Helper()
	d := &disturbedJob{output: "out-" + name, place: "place-" + name, published: published,
		noted: map[string][]engine.WeightsRun{}}
	d.watching = []string{"--watch", d.place, "--on-swap", policy}
	if err := os.Mkdir(filepath.Join(j.dir, d.place), 0o777); err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= published; k++ {
		j.publish(t, d.place, k)
	}
	for done := false; !done; {
		cmd := j.run(t, j.folders[0], d.output, d.watching...)
		messages, err := os.Create(filepath.Join(j.dir, "messages"))
		if err != nil {
			t.Fatal(err)
		}
		text := func() string {
			text, _ := os.ReadFile(messages.Name())
			return string(text)
		}
		cmd.Stderr = messages
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for !strings.Contains(text(), "\nengine ") && len(ended) == 0 {
			time.Sleep(time.Millisecond)
		}
		var kill <-chan time.Time
		if d.kills < mostKills {
			kill = time.After(time.Duration(100+j.random.IntN(2500)) * time.Millisecond)
		}
		for running := true; running; {
			select {
			case err := <-ended:
				if err != nil && cmd.ProcessState.Exited() {
					t.Fatalf("%v: %s", err, text())
				}
				running, done = false, err == nil
			case <-kill:
				d.kills++
				_ = cmd.Process.Kill()
				kill = nil
			case <-time.After(time.Duration(20+j.random.IntN(500)) * time.Millisecond):
				if d.published >= pool {
					continue
				}
				d.published++
				weights := j.publish(t, d.place, d.published)
				if policy == "continue" || j.random.IntN(2) == 0 { // it dies soon after it took them
					for len(ended) == 0 && !strings.Contains(text(), "weights "+weights) {
						time.Sleep(time.Millisecond)
					}
					kill = time.After(time.Duration(j.random.IntN(20)) * time.Millisecond)
				}
			}
		}
		d.log += text()
		_ = messages.Close()
		if !done {
			for key, runs := range underWay(t, filepath.Join(j.dir, d.output)) {
				if d.noted[key] = runs; len(runs) > 1 {
					d.several++
				}
			}
		}
	}
	return d
}

// audited wants an audit of so many rows to find no difference.
func (j *watchedJob) audited(t *testing.T, d *disturbedJob, rows int) {
	t.Helper()
	audited, err := j.command(t, "audit", d.output, j.folders[0], append(d.watching, "--rows", strconv.Itoa(rows))...).
		Output()
	if text := string(audited); err != nil || !strings.Contains(text, ", 0 differ\n") ||
		strings.Contains(text, "missing") {
		t.Errorf("an audit: %v: %s", err, audited)
	}
}

// kept wants completions that were under way at a kill to have the versions that they had then.
func (d *disturbedJob) kept(t *testing.T, got []weightsRow) {
	t.Helper()
	for _, r := range got {
		had := d.noted[fmt.Sprintf("%s/%d", r.ID, r.Generation)]
		if had != nil && !slices.Equal(had, runsOf(r)) {
			t.Errorf("row %s, completion %d had the versions %v at a kill, and has %v", r.ID, r.Generation, had,
				runsOf(r))
		}
	}
}

// While a trainer puts weights in a folder and the job is killed at random moments, each completion of a job whose
// policy is finish or restart is that of a job whose model is the version that it names. With continue it begins as
// that of its first version. A completion that was under way at a kill has the versions that it had then.
func TestWeightsWatchedAndKilled(t *testing.T) {
	testenv.Slow(t)
	const n, schedules = 3, 30
	row := func(random *rand.Rand, _ int) string { return randomPrompt(random, 40) }
	j := newWatchedJob(t, t.TempDir(), testenv.Path("testdata", "models", "smollm2-like"), 5, row, "-n",
		strconv.Itoa(n), "--max-tokens", "48")
	want := map[string][]int32{} // tokens by version, id and generation
	key := func(r weightsRow) string { return fmt.Sprint(r.Version, r.ID, r.Generation) }
	for i, version := range j.folders {
		output := fmt.Sprint("version-", i)
		j.whole(t, version, output)
		for _, r := range readWeightsRows(t, filepath.Join(j.dir, output)) {
			want[key(r)] = r.Tokens
		}
	}
	swapped, killed := 0, 0
	for i := range schedules {
		policy := []string{"finish", "restart", "continue"}[i%3]
		d := j.disturb(t, strconv.Itoa(i), policy, 0, 1+3*(i/3%2)) // two versions or five
		j.audited(t, d, 60)
		j.withdraw(t, d.place, d.published)
		got, used, mixed := readWeightsRows(t, filepath.Join(j.dir, d.output)), map[string]int{}, 0
		if len(got) != n*j.rows {
			t.Errorf("%s: %d completions, want %d", policy, len(got), n*j.rows)
		}
		d.kept(t, got)
		for _, r := range got {
			used[r.Version]++
			end := len(r.Tokens)
			if len(r.Starts) > 1 {
				end, mixed = int(r.Starts[1]), mixed+1
			}
			switch {
			case policy != "continue" && len(r.Versions) != 1:
				t.Errorf("%s: %s has the versions %v", policy, r.ID, r.Versions)
			case fmt.Sprint(r.Tokens[:end]) != fmt.Sprint(want[key(r)][:end]):
				t.Errorf("%s: row %s, completion %d is not that of version %.8s up to token %d", policy, r.ID,
					r.Generation, r.Version, end)
			}
		}
		t.Logf("%s: %d versions generated %d completions, %d have several; %d published, %d kills with %d "+
			"completions under way, %d of several versions", policy, len(used), len(got), mixed, d.published, d.kills,
			len(d.noted), d.several)
		swapped, killed = swapped+len(used)-1, killed+d.kills
		if t.Failed() {
			t.Fatal(d.log)
		}
	}
	if swapped == 0 || killed == 0 {
		t.Errorf("%d versions were taken and %d processes killed, so that nothing was tested", swapped, killed)
	}
}

// A job that takes weights on two devices, whose verdicts end rows and whose rows continue others, is killed at random
// moments. Without new weights its files are those of a job that was not killed; with them an audit, which generates
// all rows again with the weights that they name, finds the same. Rows end where verdicts end them, and no verdict is
// asked for again that came before a kill.
func TestJudgedFamiliesWatchedAndKilled(t *testing.T) {
	testenv.Slow(t)
	const most, until, processes, schedules = 6, 2, 3, 6
	dir, verifier := t.TempDir(), `while IFS= read -r line; do
	[ $((${#line} % 4)) = 0 ] && accepted=true || accepted=false
	echo "${line%%,\"text\"*} $accepted" >>"$ASKED"
	echo "{\"accepted\":$accepted}"
done`
	if err := os.WriteFile(filepath.Join(dir, "verify.sh"), []byte(verifier), 0o666); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(newFeatureJob(t, 1, promptset.FormatJSONL).dir, "model") // with texts
	j := newWatchedJob(t, dir, base, 62, func(random *rand.Rand, i int) string {
		row := randomPrompt(random, 12)
		if i%3 > 0 { // children of rows before and after them
			row += fmt.Sprintf(`,"parent":"row-%d","parent_length":8`, max(0, i/3*3-9*(i%3-1)+3*(i%2)))
		}
		return row
	}, "-n", strconv.Itoa(most), "--max-tokens", "32", "--dp", "2", "--part-rows", "70", "--until", strconv.Itoa(until),
		"--accept-command", "exec sh verify.sh", "--accept-processes", strconv.Itoa(processes))
	swapped, killed := 0, 0
	for i := range schedules {
		policy := []string{"finish", "restart", "continue"}[i%3]
		published, pool := 0, 3
		if i/3%2 == 0 {
			published, pool = 1, 1
		}
		d := j.disturb(t, strconv.Itoa(i), policy, published, pool)
		again := j.judged(t, d, until, most)
		if again > d.kills*processes {
			t.Errorf("%s: %d verdicts were asked for again over %d kills", policy, again, d.kills)
		}
		if published == pool {
			j.whole(t, j.folders[0], "whole-"+d.output, d.watching...)
			same := &crashJob{dir: j.dir}
			if got, want := same.files(t, d.output), same.files(t, "whole-"+d.output); !maps.Equal(got, want) {
				t.Errorf("%s: the files are not those of a job that was not killed", policy)
			}
		}
		j.audited(t, d, j.rows)
		j.withdraw(t, d.place, d.published)
		got, used := readWeightsRows(t, filepath.Join(j.dir, d.output)), map[string]bool{}
		d.kept(t, got)
		for _, r := range got {
			used[r.Version] = true
		}
		t.Logf("%s: %d versions generated %d completions of %d rows; %d kills with %d completions under way, %d of "+
			"several versions; %d verdicts were asked for again", policy, len(used), len(got), j.rows, d.kills,
			len(d.noted), d.several, again)
		swapped, killed = swapped+len(used)-1, killed+d.kills
		if t.Failed() {
			t.Fatal(d.log)
		}
	}
	if swapped == 0 || killed == 0 {
		t.Errorf("%d versions were taken and %d processes killed, so that nothing was tested", swapped, killed)
	}
}

// judged wants each row to have the completions up to the one that is the until-th accepted, or to the last, each with
// the verdict that it got. It returns how many verdicts were asked for again.
func (j *watchedJob) judged(t *testing.T, d *disturbedJob, until, most int) (again int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, d.output+"-asked"))
	if err != nil {
		t.Fatal(err)
	}
	type question struct {
		id         string
		generation int
	}
	told := map[question]map[bool]bool{} // more than one verdict if it had another text before a kill
	for line := range strings.Lines(string(text)) {
		var q question
		var accepted bool
		if _, err := fmt.Sscanf(line, `{"id":%q,"generation":%d %t`, &q.id, &q.generation, &accepted); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if told[q] == nil {
			told[q] = map[bool]bool{}
		} else {
			again++
		}
		told[q][accepted] = true
	}
	rows, accepted, next := 0, until, 0
	for _, r := range readWeightsRows(t, filepath.Join(j.dir, d.output)) {
		if r.Generation == 0 {
			if accepted < until && next < most {
				t.Errorf("the row before %s ends with %d completions, %d of them accepted", r.ID, next, accepted)
			}
			rows, accepted, next = rows+1, 0, 0
		}
		if r.Error != "" || r.Generation != next || accepted >= until || !told[question{r.ID, next}][r.Accepted] {
			t.Errorf("row %s has completion %d with accepted %t, after %d with %d accepted: %s", r.ID, r.Generation,
				r.Accepted, next, accepted, r.Error)
		}
		next++
		if r.Accepted {
			accepted++
		}
	}
	if rows != j.rows {
		t.Errorf("%d rows, want %d", rows, j.rows)
	}
	return again
}
