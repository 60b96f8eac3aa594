// Package coprocess keeps a pool of processes that answer lines with lines: each gets a line on its standard input, and
// writes one to its standard output before it gets the next.
package coprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quire/quire/internal/visible"
)

// Options describe the processes of a pool.
type Options struct {
	Command   string        // for the shell
	Processes int           // how many run at once
	Timeout   time.Duration // for an answer
	MaxAnswer int           // bytes of an answer
	// Attempts is how many processes get a line until one answers: one that died may not be at fault. A process that
	// ended after its last answer, and read nothing of the line, does not count.
	Attempts int
	// Memory bounds the address space of each process, in bytes; 0 is no bound.
	Memory int64
}

// plainCommand matches a command whose first word the shell takes as it is.
var plainCommand = regexp.MustCompile(`^\s*([A-Za-z0-9_./][A-Za-z0-9_./+:@,-]*)(?:\s|$)`)

// Check returns an error if the shell will not find a command. It starts nothing of it, and finds no fault with a
// command that begins with more than a plain word.
func Check(command string) error {
	word := plainCommand.FindStringSubmatch(command)
	if word == nil {
		return nil
	}
	err := exec.Command("/bin/sh", "-c", `command -v "$0"`, word[1]).Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("begins with %s, and there is no such command: name one that is in PATH, or a file that can "+
			"be executed", visible.Quoted(word[1]))
	}
	return nil // of a shell that does not start, each process has an error
}

// Pool is a pool of processes, which start when they are needed. A process that dies, takes too long or writes too much
// is replaced.
type Pool struct {
	options Options
	slots   chan *process // nil for a process that is not started
}

// New returns a pool; it starts nothing yet.
func New(o Options) *Pool {
	p := &Pool{options: o, slots: make(chan *process, o.Processes)}
	for range o.Processes {
		p.slots <- nil
	}
	return p
}

// errDied reports that a process ended in place of an answer.
var errDied = errors.New("ended without an answer")

// Ask returns the answer to a line, without its end. It waits for a process that is free.
func (p *Pool) Ask(ctx context.Context, line []byte) (answer []byte, err error) {
	var one *process
	select {
	case one = <-p.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.slots <- one }()
	for attempt := 1; ; attempt++ {
		again := one != nil
		if !again {
			if one, err = p.start(); err != nil {
				return nil, fmt.Errorf("can't be started: %w", err)
			}
		}
		answer, err = one.ask(ctx, line, &p.options)
		if err == nil {
			return answer, nil
		}
		idle := again && errors.Is(err, errDied) && one.readNothing()
		said := one.kill()
		one = nil
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if idle { // it ended after its last answer, and another one gets the line
			attempt--
			continue
		}
		if errors.Is(err, errDied) && attempt < p.options.Attempts {
			continue
		}
		if said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, err
	}
}

// Close ends all processes. Nobody may ask while it runs.
func (p *Pool) Close() error {
	var ending sync.WaitGroup
	for range p.options.Processes {
		if one := <-p.slots; one != nil {
			ending.Go(one.stop)
		}
	}
	ending.Wait()
	return nil
}

// process is a running process.
type process struct {
	command *exec.Cmd
	in, out *os.File
	asked   bool // it got a line before
	written int  // bytes of the last line
	answers *bufio.Reader
	ended   chan struct{} // closed when it has been waited for
	said    lastBytes     // the end of its standard error
}

func (p *Pool) start() (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		in.Close()
		return nil, err
	}
	one := &process{in: in, out: out, answers: bufio.NewReader(out), ended: make(chan struct{})}
	command := p.options.Command
	if p.options.Memory > 0 { // of the shell, which all that it starts inherit
		command = fmt.Sprintf("ulimit -v %d || exit\n%s", (p.options.Memory+1023)>>10, command)
	}
	one.command = exec.Command("/bin/sh", "-c", command)
	one.command.Stdin, one.command.Stdout, one.command.Stderr = childIn, childOut, &one.said
	// A group of its own: Ctrl-C is for this process alone, and the whole group can be killed.
	one.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	one.command.WaitDelay = time.Second // children of it may hold its standard error
	err = one.command.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go func() {
		_ = one.command.Wait()
		close(one.ended)
	}()
	return one, nil
}

// ask writes a line and reads one.
func (p *process) ask(ctx context.Context, line []byte, o *Options) ([]byte, error) {
	deadline := time.Now().Add(o.Timeout)
	if err := errors.Join(p.in.SetDeadline(deadline), p.out.SetDeadline(deadline)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { p.out.SetDeadline(time.Now()); p.in.SetDeadline(time.Now()) })()
	// A second answer would be taken for that of this question.
	if p.asked && p.answers.Buffered()+unread(p.out) > 0 {
		return nil, errors.New("wrote more than one line for a question")
	}
	p.asked = true
	var err error
	p.written, err = p.in.Write(append(bytes.Clone(line), '\n'))
	if errors.Is(err, syscall.EPIPE) {
		err = nil // it may have answered without reading, and ended
	}
	var answer []byte
	for err == nil {
		var piece []byte
		piece, err = p.answers.ReadSlice('\n')
		answer = append(answer, piece...)
		switch {
		case err == nil:
			return bytes.TrimRight(answer, "\r\n"), nil
		case len(answer) > o.MaxAnswer:
			return nil, fmt.Errorf("wrote more than %d bytes without an end of line", o.MaxAnswer)
		case errors.Is(err, bufio.ErrBufferFull):
			err = nil
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("gave no answer within %s", o.Timeout)
	case errors.Is(err, io.EOF) && len(answer) > 0 && p.succeeds(ctx, deadline):
		return bytes.TrimRight(answer, "\r"), nil // the last line may lack its end
	case errors.Is(err, io.EOF):
		return nil, errDied
	}
	return nil, err
}

// succeeds waits for the process to end, and reports whether it does so without an error.
func (p *process) succeeds(ctx context.Context, deadline time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case <-p.ended:
		return p.command.ProcessState.Success()
	case <-ctx.Done():
		return false
	}
}

// readNothing reports whether the process surely read nothing of its last line: what was written is still in the pipe.
func (p *process) readNothing() bool { return unread(p.in) >= p.written }

// unread is how many bytes a pipe has that nobody has read; 0 if that is not known.
func unread(pipe *os.File) (n int) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = inPipe(fd) })
	}
	return n
}

// kill ends the process and its children at once. It returns how it ended, and the last line that it wrote to its
// standard error.
func (p *process) kill() (said string) {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	p.in.Close()
	p.out.Close()
	<-p.ended
	return p.said.lastLine()
}

// stop lets the process end by itself, as it should when its input ends, and kills it if it does not.
func (p *process) stop() {
	p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(time.Second):
	}
	p.kill()
}

// lastBytes keeps the last bytes that are written.
type lastBytes struct {
	mu   sync.Mutex
	text []byte
}

const maxSaid = 4 << 10

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-maxSaid):]
	return len(b), nil
}

func (l *lastBytes) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(string(l.text))
	return visible.Cut(text[strings.LastIndexByte(text, '\n')+1:])
}
