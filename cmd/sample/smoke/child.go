package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// program runs processes of this program.
type program struct {
	path        string
	environment []string // of all of its processes, besides this process's own
}

func thisProgram(environment ...string) (*program, error) {
	path, err := os.Executable()
	return &program{path, environment}, err
}

// command makes a process with its own group, which ends with the context.
func (p *program) command(ctx context.Context, environment []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(append(os.Environ(), p.environment...), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// do runs a process to its end and returns its standard output.
func (p *program) do(ctx context.Context, environment []string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := p.command(ctx, environment, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, processError(ctx, args, err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// processError describes how a process ended: by its exit code or signal, with the end of what it printed.
func processError(ctx context.Context, args []string, err error, stderr string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sample %s: %w", args[0], context.Cause(ctx))
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		const most = 2000
		if len(stderr) > most {
			stderr = "..." + stderr[len(stderr)-most:]
		}
		return fmt.Errorf("sample %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr))
	}
	return fmt.Errorf("sample %s: %w", args[0], err)
}

// readJSON reads the members of a JSON file that a process wrote.
func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
