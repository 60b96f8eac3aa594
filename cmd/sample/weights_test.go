package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// trained writes what a trainer would: "trained FROM FOLDER SEED [PART]". FOLDER gets the weights of FROM, changed as
// the seed says, and its config; or, of tensors whose names contain PART alone, the weights only. Then comes
// FOLDER.ready.
func trained(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: trained FROM FOLDER SEED [PART]")
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	part := strings.Join(args[3:], "")
	ts.Check(train(ts.MkAbs(args[0]), ts.MkAbs(args[1]), seed, part))
}

func train(from, to string, seed uint64, part string) error {
	data, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+size], &header); err != nil {
		return err
	}
	type tensor struct {
		DType   string    `json:"dtype"`
		Shape   []int     `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	random := rand.New(rand.NewPCG(seed, 0))
	kept, body := map[string]tensor{}, []byte(nil)
	for name, text := range header {
		var t tensor
		if name == "__metadata__" || !strings.Contains(name, part) {
			continue
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
		values := data[8+size+t.Offsets[0] : 8+size+t.Offsets[1]]
		t.Offsets[0] = uint64(len(body))
		for ; t.DType == "F32" && len(values) > 0; values = values[4:] {
			x := math.Float32frombits(binary.LittleEndian.Uint32(values))
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(x+0.3*x*float32(random.NormFloat64())))
		}
		body = append(body, values...)
		t.Offsets[1] = uint64(len(body))
		kept[name] = t
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	file := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), body...)
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	for _, name := range []string{"config.json", "generation_config.json"} {
		if text, err := os.ReadFile(filepath.Join(from, name)); err == nil && part == "" {
			if err := os.WriteFile(filepath.Join(to, name), text, 0o666); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(to, "model.safetensors"), file, 0o666); err != nil {
		return err
	}
	return os.WriteFile(to+".ready", nil, 0o666)
}

// weightsRow is a row of an output with the versions of its weights.
type weightsRow struct {
	ID         string   `json:"id"`
	Generation int      `json:"generation"`
	Tokens     []int32  `json:"token_ids"`
	Versions   []string `json:"weights_versions"`
	Starts     []int32  `json:"weights_starts"`
	Version    string   `json:"weights_version"`
	Error      string   `json:"error"`
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

// While a trainer puts weights in a folder and the job is killed at random moments, each completion of a job whose
// policy is finish or restart is that of a job whose model is the version that it names. With continue it begins as
// that of its first version. A completion that was under way at a kill has the versions that it had then.
func TestWeightsWatchedAndKilled(t *testing.T) {
	testenv.Slow(t)
	const n, tokens = 3, 48
	dir := t.TempDir()
	base, err := filepath.Abs(filepath.Join("..", "..", "testdata", "models", "smollm2-like"))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 7))
	write := func(rows int) {
		var input strings.Builder
		for i := range rows {
			prompt := make([]string, 1+random.IntN(40))
			for k := range prompt {
				prompt[k] = strconv.Itoa(random.IntN(250))
			}
			fmt.Fprintf(&input, "{\"id\":\"row-%d\",\"prompt_token_ids\":[%s]}\n", i, strings.Join(prompt, ","))
		}
		if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(input.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name, output, model string, more ...string) *exec.Cmd {
		path, err := exec.LookPath("real-sample")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, append([]string{name, output, "-m", model, "-i", "in.jsonl",
			"-n", strconv.Itoa(n), "--format", "jsonl",
			"--temperature", "1", "--max-tokens", strconv.Itoa(tokens), "--max-seqs", "8",
			"--max-rounds", "2", "--max-model-len", "128", "--kv-memory", "1MiB", "--progress", "plain", "--columns",
			"weights_version,weights_versions,weights_starts"}, more...)...)
		cmd.Dir = dir
		return cmd
	}
	run := func(model, output string, more ...string) *exec.Cmd {
		return command("run", "--output="+output, model, more...)
	}
	const schedules, most, long = 30, 4, 4 * time.Second
	folders := []string{base}
	// As many rows as keep this machine busy for long: otherwise the job ends before weights come.
	rows := 100
	for _, output := range []string{"compiles", "timed"} {
		write(rows)
		start := time.Now()
		if out, err := run(base, output).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if took := time.Since(start); output == "timed" {
			rows = min(5000, 1+int(float64(rows)*long.Seconds()/took.Seconds()))
		}
	}
	write(rows)
	for i := range most {
		to := filepath.Join(dir, "trained", fmt.Sprintf("step-%d", i+8)) // step-10 comes after step-9
		if err := train(base, to, uint64(i), ""); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, to)
	}
	want := map[string][]int32{} // tokens by version, id and generation
	key := func(r weightsRow) string { return fmt.Sprint(r.Version, r.ID, r.Generation) }
	for i, version := range folders {
		output := fmt.Sprint("version-", i)
		if out, err := run(version, output).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, r := range readWeightsRows(t, filepath.Join(dir, output)) {
			want[key(r)] = r.Tokens
		}
	}
	swapped, killed := 0, 0
	for i := range schedules {
		policy := []string{"finish", "restart", "continue"}[i%3]
		place, output := fmt.Sprint("place-", i), fmt.Sprint("out-", i)
		if err := os.Mkdir(filepath.Join(dir, place), 0o777); err != nil {
			t.Fatal(err)
		}
		published, kills, log := 0, 0, ""
		noted, several := map[string][]engine.WeightsRun{}, 0
		pool := min(1+3*(i/3%2), most) // two versions or five
		for done := false; !done; {
			cmd := run(base, output, "--watch", place, "--on-swap", policy)
			messages, err := os.Create(filepath.Join(dir, "messages"))
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
			kill := time.After(time.Duration(100+random.IntN(2500)) * time.Millisecond)
			for running := true; running; {
				select {
				case err := <-ended:
					if err != nil && cmd.ProcessState.Exited() {
						t.Fatalf("%v: %s", err, text())
					}
					running, done = false, err == nil
				case <-kill:
					kills++
					_ = cmd.Process.Kill()
					kill = nil
				case <-time.After(time.Duration(20+random.IntN(500)) * time.Millisecond):
					if published < pool {
						published++
						name := filepath.Base(folders[published])
						if err := os.Rename(folders[published], filepath.Join(dir, place, name)); err != nil {
							t.Fatal(err)
						}
						if err := os.WriteFile(filepath.Join(dir, place, name+".ready"), nil, 0o666); err != nil {
							t.Fatal(err)
						}
						if policy == "continue" || random.IntN(2) == 0 { // it dies soon after it took them
							for len(ended) == 0 && !strings.Contains(text(), "weights "+name) {
								time.Sleep(time.Millisecond)
							}
							kill = time.After(time.Duration(random.IntN(20)) * time.Millisecond)
						}
					}
				}
			}
			log += text()
			_ = messages.Close()
			if !done {
				for key, runs := range underWay(t, filepath.Join(dir, output)) {
					if noted[key] = runs; len(runs) > 1 {
						several++
					}
				}
			}
		}
		audited, err := command("audit", output, base, "--watch", place, "--on-swap", policy, "--rows", "60").Output()
		if text := string(audited); err != nil || !strings.Contains(text, ", 0 differ\n") ||
			strings.Contains(text, "missing") {
			t.Errorf("%s: an audit: %v: %s", policy, err, audited)
		}
		for k := 1; k <= published; k++ {
			if err := os.Rename(filepath.Join(dir, place, filepath.Base(folders[k])), folders[k]); err != nil {
				t.Fatal(err)
			}
		}
		got, used, mixed := readWeightsRows(t, filepath.Join(dir, output)), map[string]int{}, 0
		if len(got) != n*rows {
			t.Errorf("%s: %d completions, want %d", policy, len(got), n*rows)
		}
		for _, r := range got {
			had := noted[fmt.Sprintf("%s/%d", r.ID, r.Generation)]
			used[r.Version]++
			end := len(r.Tokens)
			if len(r.Starts) > 1 {
				end, mixed = int(r.Starts[1]), mixed+1
			}
			switch {
			case policy != "continue" && len(r.Versions) != 1:
				t.Errorf("%s: %s has the versions %v", policy, r.ID, r.Versions)
			case had != nil && !slices.Equal(had, runsOf(r)):
				t.Errorf("%s: row %s, completion %d had the versions %v at a kill, and has %v", policy, r.ID,
					r.Generation, had, runsOf(r))
			case fmt.Sprint(r.Tokens[:end]) != fmt.Sprint(want[key(r)][:end]):
				t.Errorf("%s: row %s, completion %d is not that of version %.8s up to token %d", policy, r.ID,
					r.Generation, r.Version, end)
			}
		}
		t.Logf("%s: %d versions generated %d completions, %d have several; %d published, %d kills with %d "+
			"completions under way, %d of several versions", policy, len(used), len(got), mixed, published, kills,
			len(noted), several)
		swapped, killed = swapped+len(used)-1, killed+kills
		if t.Failed() {
			t.Fatal(log)
		}
	}
	if swapped == 0 || killed == 0 {
		t.Errorf("%d versions were taken and %d processes killed, so that nothing was tested", swapped, killed)
	}
}
