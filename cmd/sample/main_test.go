package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch/crew"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/fakeplugin"
	"github.com/quire/quire/internal/stdio"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		// The whole command, but for the model: see fakeSession.
		"sample": func() {
			cli.PlainEvery, crew.PollStatus = 50*time.Millisecond, 30*time.Millisecond
			timing := process.Timing{RestartPause: time.Millisecond, PollUnits: 100 * time.Millisecond,
				BeatEvery: 100 * time.Millisecond}
			if os.Getenv("QUIRE_FAKE_STALL") != "" {
				timing.StallAfter, timing.LostGrace = 80*time.Millisecond, 300*time.Millisecond
				timing.EndGrace = 300 * time.Millisecond
			}
			checked := &flagChecker{Writer: os.Stderr}
			code := sampleMain(os.Args[1:], &cli.Environment{Stdin: os.Stdin, Stdout: stdio.Stdout(), Stderr: checked,
				Models: fakeModels{}, FS: vfs.OS, Timing: timing})
			if lacked := checked.lacked(os.Args[1:]); lacked != nil {
				fmt.Fprintf(os.Stderr, "the error names flags that the subcommand lacks: %q\n", lacked)
				code = 99
			}
			os.Exit(code)
		},
		// The whole command.
		"real-sample": main,
	})
}

func TestScripts(t *testing.T) { runScripts(t, "script") }

// TestSlowScripts runs the demo model.
func TestSlowScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes; make test-slow runs it")
	}
	runScripts(t, "slow")
}

func runScripts(t *testing.T, dir string) {
	fake := fakeplugin.Build(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", dir),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			repo, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				return err
			}
			cache, err := setup.CacheDir()
			if err != nil {
				return err
			}
			env.Setenv("REPO", repo)
			env.Setenv("FAKE_PLUGIN", fake)
			if cpu, err := setup.FindPlugin("cpu"); err == nil {
				env.Setenv("CPU_PLUGIN", cpu)
			}
			env.Setenv("REAL_CACHE", cache)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("COLUMNS", "100")
			env.Setenv("XLA_FLAGS", os.Getenv("XLA_FLAGS")) // make test compiles fast
			env.Setenv("GOGC", "off")                       // a tenth of the time of a short process
			env.Setenv("GOMEMLIMIT", "512MiB")
			address, err := freeAddress()
			if err != nil {
				return err
			}
			env.Setenv("ADDRESS", address)
			// nothing listens there: no script reaches the network
			env.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
			return writeParquetInput(filepath.Join(env.WorkDir, "prompts.parquet"))
		},
		Condition: func(condition string) (bool, error) { // [cuda], [tpu]: this machine shows such a device
			return slices.Contains(setup.Accelerators(), condition), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"drawsgguf": drawsGGUF, "exits": exits,
			"interrupted": interrupted, "nats": natsServer, "name": name, "metadata": metadataServer,
			"tracefile": traceFile, "trained": trained},
	})
}

// freeAddress is one of this machine's at which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// exits runs a command and wants an exit code: "exits 3 sample run ...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	wantCode(ts, ts.Exec(args[1], args[2:]...), want)
}

func wantCode(ts *testscript.TestScript, err error, want int) {
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// interrupted runs a command, interrupts it when it reports whether rows are finished, or with "-at REGEXP" something
// else, and wants exit code 4. What it prints goes to interrupted.out. The signal is SIGINT, or with -TERM as the first
// argument the one that schedulers send.
func interrupted(ts *testscript.TestScript, neg bool, args []string) {
	stop, at := os.Interrupt, rowsFinished
	if len(args) > 0 && args[0] == "-TERM" {
		stop, args = syscall.SIGTERM, args[1:]
	}
	if len(args) > 1 && args[0] == "-at" {
		at, args = regexp.MustCompile(args[1]), args[2:]
	}
	if neg || len(args) < 1 {
		ts.Fatalf("usage: interrupted [-TERM] [-at REGEXP] COMMAND [ARGUMENT...]")
	}
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "QUIRE_FAKE_DELAY=20ms")
	for _, name := range []string{cpukernel.EnvKernels, fakeplugin.Variable, setup.EnvPlugin("tpu"), "QUIRE_FAKE_HANG",
		"QUIRE_FAKE_STALL", "GCE_METADATA_HOST"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out := ts.MkAbs("interrupted.out")
	file, err := os.Create(out)
	ts.Check(err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	ts.Check(cmd.Start())
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(out)
		ts.Check(err)
		if at.Match(text) {
			break
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			ts.Fatalf("it never said %s: %s", at, text)
		}
	}
	ts.Check(cmd.Process.Signal(stop))
	wantCode(ts, cmd.Wait(), cli.ExitInterrupted)
}

var rowsFinished = regexp.MustCompile(`progress: [1-9]`)

// parquetPrompt is a row of the scripts' Parquet input.
type parquetPrompt struct {
	ID        string   `parquet:"id"`
	Prompt    *string  `parquet:"prompt,optional"`
	MaxTokens *int32   `parquet:"max_tokens,optional"`
	Topic     string   `parquet:"topic"`
	Weight    *float64 `parquet:"weight,optional"`
}

func writeParquetInput(path string) error {
	text := func(s string) *string { return &s }
	three := int32(3)
	return parquet.WriteFile(path, []parquetPrompt{
		{ID: "a", Prompt: text("the first prompt"), Topic: "one"},
		{ID: "b", Prompt: text("the second"), MaxTokens: &three, Topic: "two"},
		{ID: "c", Prompt: nil, Topic: "none"},
		{ID: "d", Prompt: text("naïve 文字 🙂"), Topic: "text"},
	})
}
