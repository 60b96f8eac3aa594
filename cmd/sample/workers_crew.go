package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/queue"
)

// supervisedVariable tells a process that it ends when its standard input does: when the process that started it is
// gone.
const supervisedVariable = "QUIRE_SUPERVISED"

func supervised() bool { return os.Getenv(supervisedVariable) != "" }

// endWithParent ends this process with the one that supervises it, however that ends.
func endWithParent(env *environment) {
	if !supervised() {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(env.stderr, "sample: the process that started this one is gone")
		os.Exit(exitFailure)
	}()
}

// crew are the processes of a run with workers: the server of the queue, and the workers.
type crew struct {
	options  *runOptions
	env      *environment
	log      *slog.Logger
	store    string   // of the server
	secrets  []string // URLs
	password string   // of the server, for this run

	address  string // of the server
	restarts int    // of workers
	stderr   sync.Mutex
}

// process is one that was started, until it ends.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end ends the process
	lines *prefixed
	ended chan error
}

// start starts another process of this program.
func (c *crew) start(name string, stdout io.Writer, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NATS_") ||
			strings.HasPrefix(v, storageVariable+"=")
	})
	cmd.Env = append(cmd.Env, supervisedVariable+"=1", natsURL+"=nats://"+c.address, natsUser+"=quire",
		natsPassword+"="+c.password,
		storageVariable+"="+strings.Join(c.secrets, "\n"))
	p := &process{cmd: cmd, lines: &prefixed{crew: c, name: name}, ended: make(chan error, 1)}
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

// stop asks a process to end, and ends it when it does not within some time; 0 waits for ever. It returns how the
// process ended.
func (p *process) stop(within time.Duration) (err error) {
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
	crew *crew
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
		if _, err := fmt.Fprintf(w.crew.env.stderr, "%s: %s\n", w.name, line); err != nil {
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
	*process
	failures int       // one after the other without progress in between
	rows     int64     // of the job, when it died last
	again    time.Time // when it is started
}

// died notes the death of a member. It returns false when there were too many.
func (m *member) died(rows int64, most int) bool {
	m.process = nil
	if rows > m.rows {
		m.failures = 0
	}
	m.rows = rows
	m.failures++
	m.again = time.Now().Add(batch.Backoff(m.failures))
	return m.failures <= most
}

// work does the job, and returns how far it came.
func (c *crew) work(ctx context.Context, job queue.Job, units []queue.Unit, m *meter) (s *queue.Status, err error) {
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
		URL: "nats://" + c.address, User: "quire", Password: c.password, Name: "sample run", Patience: localPatience,
		Log: c.log,
	})
	if err != nil {
		return nil, err
	}
	defer q.Close()
	if _, err := q.Submit(ctx, job, units); err != nil {
		return nil, err
	}
	m.Start(job.Rows)
	workers := make([]*member, min(c.options.units.workers, len(units)))
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
			if w.process != nil {
				all.Go(func() { w.stop(within) })
			}
		}
		all.Wait()
	}()
	statuses := c.watch(ctx, q, job.ID)
	ticker := time.NewTicker(pollStatus)
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
			if m.Update(t, drawn); s.Over {
				m.Finish(t, drawn)
				return s, batch.JobOver(s)
			}
		case <-ticker.C:
		}
		var err error
		select {
		case err = <-server.failed:
		default:
			err = c.keep(workers, job.ID, s.Figures.Rows)
		}
		if err != nil {
			// The last death may have parked the last unit.
			if last, statusErr := q.Status(ctx, job.ID); statusErr == nil && last.Over {
				return last, batch.JobOver(last)
			}
			return s, err
		}
	}
}

// watch looks at the queue until ctx is done, or it can't any more.
func (c *crew) watch(ctx context.Context, q *queue.Queue, job string) <-chan *queue.Status {
	statuses := make(chan *queue.Status)
	go func() {
		defer close(statuses)
		for {
			s, err := q.Status(ctx, job)
			if err != nil {
				if ctx.Err() == nil {
					c.log.Error("no status", "err", err.Error())
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
			time.Sleep(pollStatus)
		}
	}()
	return statuses
}

// keep starts the workers that do not run: at first, and after a death.
func (c *crew) keep(workers []*member, job string, rows int64) (err error) {
	for i, w := range workers {
		name := fmt.Sprintf("worker-%d", i)
		if w.process == nil {
			if time.Now().Before(w.again) {
				continue
			}
			o := c.options.observing
			args := []string{"worker", job, "--name", name, "--progress", "none", "--max-restarts",
				fmt.Sprint(c.options.process.MaxRestarts), "--log-format", o.logFormat,
				"--log-level", o.logLevel, "--nats-wait", localPatience.String(), "--plugins"}
			if c.options.process.Debug {
				args = append(args, "--debug")
			}
			if c.options.process.WorkDir != "" {
				args = append(args, "--work-dir", c.options.process.WorkDir)
			}
			if w.process, err = c.start(name, nil, args...); err != nil {
				return err
			}
			continue
		}
		select {
		case err := <-w.ended:
			w.stdin.Close()
			if err == nil { // it says that the job is over
				w.again = time.Now().Add(time.Minute)
				w.process = nil
				continue
			}
			last := w.lines.lastLine()
			if !w.died(rows, c.options.process.MaxRestarts) {
				return fmt.Errorf("%s ended %s without a row being done in between, the last time with %w: %s", name,
					plural.Count(w.failures, "time"), err, last)
			}
			c.restarts++
			fmt.Fprintf(c.env.stderr, "warning: %s ended (%v) and is started again\n", name, err)
		default:
		}
	}
	return nil
}
