package validate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestSlurm(t *testing.T) {
	t.Run("shards", func(t *testing.T) {
		testScript(t, filepath.Join("..", "slurm", "quire.sbatch"),
			"run --model=/shared/models/SmolLM2-135M-Instruct --input=/shared/prompts/*.parquet "+
				"--output=/shared/completions --shard=auto --log-format=json\n")
	})
	t.Run("hosts", func(t *testing.T) {
		testScript(t, filepath.Join("..", "testdata", "hosts.sbatch"),
			"run --model=/models/big --input=in 'quoted'/*.jsonl --output=out\nof $HOME --tp=8 --num-processes=4 "+
				"--coordinator-address=node7:20012 --shard=3/8 --log-format=json --process-id 0\n")
	})
}

// testScript checks that a script ends as its tasks did, and the command line of the first task. This srun starts the
// tasks concurrently and ends with their highest code, as Slurm's does; this sample ends as it is told.
func testScript(t *testing.T, path, command string) {
	script, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"srun": `#!/bin/bash
n=0 all=() most=0
for code in $CODES; do
	CODE=$code SLURM_PROCID=$n "$@" & all+=($!); n=$((n+1))
done
if [ "$STOP" ]; then
	sleep 0.3
	kill -TERM "${all[@]}"
fi
for pid in "${all[@]}"; do
	code=0; wait "$pid" || code=$?
	[ "$code" -gt "$most" ] && most=$code
done
exit "$most"`,
		"sample": `#!/bin/bash
echo "$@" > "$LOG/task$SLURM_PROCID"
case $CODE in
stop) trap 'exit 4' TERM; for i in {1..100}; do sleep 0.1; done ;;
*) exit "$CODE" ;;
esac`,
		"scontrol": `#!/bin/bash
case $1 in
show) printf 'node7\nnode8\n' ;;
*) echo "$@" > "$LOG/scontrol" ;;
esac`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		codes, stop string
		want        int
		requeued    bool
	}{
		{"0", "", 0, false}, {"3", "", 0, false}, {"0 3 0", "", 0, false}, {"1", "", 1, false}, {"3 1 3", "", 1, false},
		{"2 0", "", 2, false},
		{"137 3", "", 137, false}, {"4 3", "", 0, true}, {"1 4", "", 0, true}, {"stop", "1", 0, true},
		{"stop stop 3", "1", 0, true},
	} {
		t.Run(c.codes, func(t *testing.T) {
			log := t.TempDir()
			cmd := exec.Command("bash", script)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LOG="+log, "CODES="+c.codes,
				"STOP="+c.stop, "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3", "SLURM_ARRAY_TASK_COUNT=8",
				"SLURM_JOB_ID=24012", "SLURM_JOB_NODELIST=node[7-8]")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			kill := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			defer kill.Stop()
			out, err := cmd.CombinedOutput()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			asked, _ := os.ReadFile(filepath.Join(log, "scontrol"))
			if requeued := string(asked) == "requeue 12_3\n"; code != c.want || requeued != c.requeued {
				t.Errorf("it ended with %d, asked scontrol for %q\n%s", code, asked, out)
			}
			if first, _ := os.ReadFile(filepath.Join(log, "task0")); string(first) != command {
				t.Errorf("task 0 ran %q, want %q", first, command)
			}
		})
	}
}
