// Package crew does a job with several processes of this program, a queue's server and workers, and starts those again
// that die.
package crew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/quire/quire/batch/distribute"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/internal/plural"
)

// PollStatus is the time between two looks at the queue. Tests shorten it.
var PollStatus = 250 * time.Millisecond

// ServerPatience is how long workers are to wait for the server, which is started again when it dies.
const ServerPatience = 2 * time.Minute

// Listening starts the line on standard output with which a server reports its address.
const Listening = "listening at "

// User is the user that the server takes, with the crew's password.
const User = "quire"

// Crew describes which processes do a job. Each has a pipe for standard input, which ends with this process: they are
// to end then, too.
type Crew struct {
	Workers     int
	MaxRestarts int // restarts of a process without a finished row in between
	// Server returns the arguments of this program that run a queue's server: it listens at the address, whose port 0
	// is any port, takes [User] with the password, and keeps its state in the folder.
	Server func(address, store string) []string
	// Worker is the arguments that run a worker of this name on a job.
	Worker func(job, name string) []string
	// Environment is the environment of a process, with the server's address, which is empty for the server itself at
	// first, and the number of the worker, -1 for the server.
	Environment func(address string, worker int) []string
	// Password of the server, for this run.
	Password string
	Timing   process.Timing // delays of restarts
	Messages io.Writer      // takes the processes' standard error, each line with the process' name
	Log      *slog.Logger
	Progress process.Progress

	Restarts int // restarts of workers, so far

	store   string // of the server
	address string // of the server
	stderr  sync.Mutex
}

// child is one that was started, until it ends.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end ends the process
	lines *prefixed
	ended chan error
}

// start starts another process of this program.
func (c *Crew) start(name string, worker int, stdout io.Writer, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = c.Environment(c.address, worker)
	p := &child{cmd: cmd, lines: &prefixed{crew: c, name: name}, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = stdout, p.lines
	if stdout == nil {
		cmd.Stdout = p.lines
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Signals of the terminal come to this process alone, which passes them on in order: the server outlives the
	// workers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() { p.ended <- cmd.Wait() }()
	return p, nil
}

// stop asks a process to end, and kills it if it does not within some time; 0 waits forever. It returns how the child
// ended.
func (p *child) stop(within time.Duration) (err error) {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	var late <-chan time.Time
	if within > 0 {
		late = time.After(within)
	}
	select {
	case err = <-p.ended:
	case <-late:
		_ = p.cmd.Process.Kill()
		err = <-p.ended
	}
	p.stdin.Close()
	return err
}

// prefixed writes the lines of a process with its name before each, and remembers the last one.
type prefixed struct {
	crew *Crew
	name string
	rest []byte
	last string
}

func (w *prefixed) Write(b []byte) (int, error) {
	w.crew.stderr.Lock()
	defer w.crew.stderr.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		w.rest = rest
		if len(line) == 0 {
			continue
		}
		w.last = string(line)
		if _, err := fmt.Fprintf(w.crew.Messages, "%s: %s\n", w.name, line); err != nil {
			return 0, err
		}
	}
}

func (w *prefixed) lastLine() string {
	w.crew.stderr.Lock()
	defer w.crew.stderr.Unlock()
	return w.last
}

// member is a worker, or the server, that is started again when it dies.
type member struct {
	*child
	failures int       // one after the other without progress in between
	rows     int64     // finished rows of the job when it last died
	again    time.Time // when it is started
}

// died notes the death of a member. It returns false when there were too many.
func (m *member) died(rows int64, most int, timing process.Timing) bool {
	m.child = nil
	if rows > m.rows {
		m.failures = 0
	}
	m.rows = rows
	m.failures++
	m.again = time.Now().Add(timing.Backoff(m.failures))
	return m.failures <= most
}

// Work does the units of a job, with a queue of its own in the folder store, and returns how far it came. It is a
// [batch.Crew].
func (c *Crew) Work(ctx context.Context, store string, job queue.Job, units []queue.Unit) (s *queue.Status, err error) {
	c.store = store
	server := c.keepServer()
	defer server.stop()
	select {
	case <-server.listens:
	case err := <-server.failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q, err := queue.Connect(ctx, queue.Options{
		URL: "nats://" + c.address, User: User, Password: c.Password, Name: "sample run", Patience: ServerPatience,
		Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	defer q.Close()
	if _, err := q.Submit(ctx, job, units); err != nil {
		return nil, err
	}
	c.Progress.Start(job.Rows)
	workers := make([]*member, min(c.Workers, len(units)))
	for i := range workers {
		workers[i] = &member{}
	}
	defer func() {
		within := 30 * time.Second // nothing is left to do for them
		if err != nil || ctx.Err() != nil {
			within = 0 // the device's call under way is waited for
		}
		var all sync.WaitGroup
		for _, w := range workers {
			if w.child != nil {
				all.Go(func() { w.stop(within) })
			}
		}
		all.Wait()
	}()
	statuses := c.watch(ctx, q, job.ID)
	ticker := time.NewTicker(PollStatus)
	defer ticker.Stop()
	s = &queue.Status{}
	for {
		select {
		case <-ctx.Done():
			return s, nil
		case seen, ok := <-statuses:
			if !ok {
				return s, errors.New("the queue's server can't be asked any more")
			}
			s = seen
			server.rows.Store(s.Figures.Rows)
			t := s.Figures
			drawn := t.Minus(job.Before)
			if c.Progress.Update(t, drawn, job.Before.Minus(job.Before)); s.Over {
				c.Progress.Finish(t, drawn, job.Before.Minus(job.Before))
				return s, distribute.JobOver(s)
			}
		case <-ticker.C:
		}
		var err error
		select {
		case err = <-server.failed:
		default:
			err = c.keep(ctx, q, workers, job.ID, s.Figures.Rows)
		}
		if err != nil {
			// The last death may have parked the last unit.
			if last, statusErr := q.Status(ctx, job.ID); statusErr == nil && last.Over {
				return last, distribute.JobOver(last)
			}
			return s, err
		}
	}
}

// watch looks at the queue until ctx is done, or it can't any more.
func (c *Crew) watch(ctx context.Context, q *queue.Queue, job string) <-chan *queue.Status {
	statuses := make(chan *queue.Status)
	go func() {
		defer close(statuses)
		for {
			s, err := q.Status(ctx, job)
			if err != nil {
				if ctx.Err() == nil {
					c.Log.Error("no status", "err", err.Error())
				}
				return
			}
			select {
			case statuses <- s:
			case <-ctx.Done():
				return
			}
			if s.Over {
				return
			}
			time.Sleep(PollStatus)
		}
	}()
	return statuses
}

// keep starts the workers that do not run: at first, and after a death.
func (c *Crew) keep(ctx context.Context, q *queue.Queue, workers []*member, job string, rows int64) (err error) {
	for i, w := range workers {
		name := fmt.Sprintf("worker-%d", i)
		if w.child == nil {
			if time.Now().Before(w.again) {
				continue
			}
			if w.child, err = c.start(name, i, nil, c.Worker(job, name)...); err != nil {
				return err
			}
			continue
		}
		select {
		case err := <-w.ended:
			w.stdin.Close()
			if err == nil { // no error: the job is over
				w.again = time.Now().Add(time.Minute)
				w.child = nil
				continue
			}
			if refused := refusal(ctx, q, job, name); refused != "" {
				w.child = nil
				return outcome.Errorf(outcome.Misused, "%s ended (%v) and is not started again: %s", name, err, refused)
			}
			last := w.lines.lastLine()
			if !w.died(rows, c.MaxRestarts, c.Timing) {
				return fmt.Errorf("%s ended %s without a row being done in between, the last time with %w: %s", name,
					plural.Count(w.failures, "time"), err, last)
			}
			c.Restarts++
			fmt.Fprintf(c.Messages, "warning: %s ended (%v) and is started again\n", name, err)
		default:
		}
	}
	return nil
}

// refusal returns why a worker that ended can't do the job, however often it is started; "" if it may.
func refusal(ctx context.Context, q *queue.Queue, job, worker string) string {
	s, err := q.Status(ctx, job)
	if err != nil {
		return ""
	}
	for _, r := range s.Refusals {
		if r.Worker == worker && r.Final {
			return r.Error
		}
	}
	return ""
}
