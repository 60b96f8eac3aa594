package crew

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quire/quire/internal/plural"
)

// keptServer is the queue's server of a crew, which is started again when it dies.
type keptServer struct {
	listens chan struct{} // closed when it listens for the first time
	failed  chan error    // why it is not started any more
	rows    atomic.Int64  // finished rows of the job: a server that dies often without one more is given up
	cancel  context.CancelFunc
	done    chan struct{}
}

// keepServer keeps the server running until stop, also while its users wait for it.
func (c *Crew) keepServer() *keptServer {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keptServer{listens: make(chan struct{}), failed: make(chan error, 1), cancel: cancel,
		done: make(chan struct{})}
	go func() {
		defer close(k.done)
		if err := k.run(ctx, c); err != nil {
			k.failed <- err
		}
	}()
	return k
}

func (k *keptServer) run(ctx context.Context, c *Crew) error {
	m := &member{}
	defer func() { m.stop(5 * time.Second) }()
	first := true
	for {
		p, err := c.serve(ctx)
		if ctx.Err() != nil {
			m.child = p
			return nil
		}
		if err == nil {
			if m.child = p; first {
				close(k.listens)
				first = false
			}
			select {
			case err = <-p.ended:
				p.stdin.Close()
			case <-ctx.Done():
				return nil
			}
			fmt.Fprintf(c.Messages, "warning: the queue's server died (%v) and is started again\n", err)
		} else if exit := (*exec.ExitError)(nil); first && !(errors.As(err, &exit) && exit.ExitCode() < 0) {
			return err // it ended by itself, and was not killed: it would again
		} else {
			fmt.Fprintf(c.Messages, "warning: %v\n", err)
		}
		if !m.died(k.rows.Load(), c.MaxRestarts, c.Timing) {
			return fmt.Errorf("the queue's server died %s without a row being done in between, the last time with: %w",
				plural.Count(m.failures, "time"), err)
		}
		select {
		case <-time.After(time.Until(m.again)):
		case <-ctx.Done():
			return nil
		}
	}
}

// stop ends the server.
func (k *keptServer) stop() {
	k.cancel()
	<-k.done
}

// serve starts the server, on the port that it had if it ran before, and waits until it listens. An error that is an
// *exec.ExitError reports how it ended before that.
func (c *Crew) serve(ctx context.Context) (*child, error) {
	address := c.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := c.start("nats", -1, w, c.Server(address, c.store)...)
	w.Close()
	if err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(r).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		address, ok := strings.CutPrefix(strings.TrimSpace(text), Listening)
		if !ok {
			err := p.stop(time.Second)
			if err == nil {
				err = errors.New("it ended")
			}
			return nil, fmt.Errorf("the queue's server did not start: %w: %s", err, p.lines.lastLine())
		}
		if c.address == "" { // later it is the same, and read by others
			c.address = address
		}
		return p, nil
	case <-ctx.Done():
		p.stop(time.Second)
		return nil, ctx.Err()
	}
}
