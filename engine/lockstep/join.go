package lockstep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/quire/quire/data/setting"
)

// Options give this process' number, and the address where the processes meet. The names are from jax.distributed.
type Options struct {
	// CoordinatorAddress is the host:port at which the others reach process 0.
	CoordinatorAddress string
	// BindAddress is the address at which process 0 listens; "" for CoordinatorAddress.
	BindAddress string
	// NumProcesses is how many processes there are, ProcessID which one this is, from 0.
	NumProcesses, ProcessID int
	// InitializationTimeout bounds the wait for all processes; by default 5 minutes.
	InitializationTimeout time.Duration
	// HeartbeatTimeout is how long a process may be silent before it counts as lost; by default 100 seconds.
	HeartbeatTimeout time.Duration
	// Version is the version of the program. Processes with different versions do not talk.
	Version string
	// Host is the name of this machine in messages.
	Host string
	Log  *slog.Logger
}

const (
	defaultInitialization = 5 * time.Minute
	defaultHeartbeat      = 100 * time.Second
)

const (
	// helloTimeout bounds the time for introductions: callers may be no processes of the group.
	helloTimeout = 10 * time.Second
	helloBytes   = 1 << 16
	dialPause    = 200 * time.Millisecond
)

// roster is the processes that meet: the others by their connections. The goroutine of Join owns it until all are
// there; then it does not change any more.
type roster struct {
	options Options
	// peers has the connections by process; nil for this one and, unless it is process 0, for all but process 0.
	peers []*peer
	hosts []string // by process
}

func newRoster(o Options) *roster {
	r := &roster{options: o, peers: make([]*peer, o.NumProcesses), hosts: make([]string, o.NumProcesses)}
	r.hosts[o.ProcessID] = o.Host
	return r
}

// meet connects this process with the others, and returns when all are there.
func (r *roster) meet(ctx context.Context) error {
	if r.options.ProcessID == 0 {
		return r.listen(ctx)
	}
	return r.dial(ctx)
}

// hello returns how this process introduces itself.
func (r *roster) hello() *hello {
	o := r.options
	return &hello{Protocol: protocol, Version: o.Version, NumProcesses: o.NumProcesses, ProcessID: o.ProcessID,
		Host: o.Host}
}

// listen waits at process 0 for the others.
func (r *roster) listen(ctx context.Context) error {
	address := r.options.BindAddress
	if address == "" {
		address = r.options.CoordinatorAddress
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf(
			"process 0 cannot listen at %s: %w: give an address of this machine as the coordinator's, or one to "+
				"bind to", address, err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	came, quit := make(chan caller), make(chan struct{})
	defer close(quit)
	go r.accept(l, came, quit)
	for missing := r.options.NumProcesses - 1; missing > 0; {
		select {
		case <-ctx.Done():
			return r.abandon(r.absent(ctx))
		case c := <-came:
			replaced, err := r.admit(c)
			if err != nil {
				return r.abandon(err)
			}
			if !replaced {
				missing--
			}
			r.options.Log.Info("a process connected", "process", c.who.ProcessID, "host", c.who.Host, "missing",
				missing)
		}
	}
	return r.begin()
}

// caller is a process that has introduced itself to process 0.
type caller struct {
	p   *peer
	who *hello
}

// accept sends the processes that call to came, until the listener closes. Their introductions run concurrently. Nobody
// reads came after quit is closed.
func (r *roster) accept(l net.Listener, came chan<- caller, quit <-chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			p, who := r.greet(conn)
			if p == nil {
				return
			}
			select {
			case came <- caller{p, who}:
			case <-quit:
				p.close()
			}
		}()
	}
}

// admit makes a caller a peer. It reports whether the caller replaced one with its process ID.
func (r *roster) admit(c caller) (replaced bool, err error) {
	c.p.host = c.who.Host
	if wrong := r.refuse(c.who); wrong != "" {
		err := fmt.Errorf("process %d (%s) is refused: %s", c.who.ProcessID, c.who.Host, wrong)
		c.p.last(message{Kind: kindFailed, Text: err.Error()})
		c.p.close()
		return false, err
	}
	old := r.peers[c.who.ProcessID]
	if old != nil {
		// It was restarted, or two processes have the same ID: report it to the former one, if it is still there.
		old.last(message{Kind: kindFailed,
			Text: setting.Textf("another process %d connected, from %s: give each process a `process-id` of its own",
				c.who.ProcessID, c.who.Host).String()})
		old.close()
	}
	r.peers[c.who.ProcessID] = c.p
	return old != nil, nil
}

// abandon sends err to all peers, and returns it.
func (r *roster) abandon(err error) error {
	for _, p := range r.peers {
		if p != nil {
			p.last(message{Kind: kindFailed, Text: err.Error()})
			p.close()
		}
	}
	return err
}

// begin reports to all peers that the group is complete.
func (r *roster) begin() error {
	taken := r.hello()
	for id, p := range r.peers {
		if p != nil {
			r.hosts[id] = p.host
		}
	}
	taken.Hosts = r.hosts
	for id, p := range r.peers {
		if p == nil {
			continue
		}
		if err := p.send(message{Kind: kindTaken, Hello: taken}); err != nil {
			return r.abandon(&LostError{Process: id, Name: r.name(id), Cause: err})
		}
		p.timeout = r.options.HeartbeatTimeout
	}
	return nil
}

// greet waits for the introduction of a caller. It returns nil if the caller is no process of the group.
func (r *roster) greet(conn net.Conn) (*peer, *hello) {
	p := newPeer(conn, min(helloTimeout, r.options.HeartbeatTimeout))
	p.left = helloBytes
	var m message
	if err := p.decoder.Decode(&m); err != nil || m.Kind != kindHello || m.Hello == nil ||
		m.Hello.Protocol != protocol {
		r.options.Log.Warn("refused a connection that is not from a process of this job", "address", conn.RemoteAddr())
		p.close()
		return nil, nil
	}
	p.left = -1
	return p, m.Hello
}

// refuse returns why a process can't be one of the group, or "" if it can.
func (r *roster) refuse(who *hello) string {
	o := r.options
	switch {
	case who.Version != o.Version:
		return fmt.Sprintf("its version is %s, but process 0 has %s", who.Version, o.Version)
	case who.NumProcesses != o.NumProcesses:
		return fmt.Sprintf("it is one of %d processes, but process 0 is one of %d", who.NumProcesses, o.NumProcesses)
	case who.ProcessID < 1 || who.ProcessID >= o.NumProcesses:
		return fmt.Sprintf("process ids are 0 to %d, and 0 is taken", o.NumProcesses-1)
	}
	return ""
}

// absent returns the error for processes that did not come.
func (r *roster) absent(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var names []string
	for id, p := range r.peers {
		if p == nil && id != r.options.ProcessID {
			names = append(names, fmt.Sprint(id))
		}
	}
	return fmt.Errorf("of %d processes these did not connect to %s within %s: %s", r.options.NumProcesses,
		r.options.CoordinatorAddress, r.options.InitializationTimeout, strings.Join(names, ", "))
}

// dial connects to process 0, which may not be there yet.
func (r *roster) dial(ctx context.Context) error {
	var dialer net.Dialer
	var last error
	for {
		conn, err := dialer.DialContext(ctx, "tcp", r.options.CoordinatorAddress)
		if err == nil {
			// All others may come later than this one: until then process 0 sends nothing.
			p := newPeer(conn, r.options.InitializationTimeout)
			r.peers[0] = p
			stop := context.AfterFunc(ctx, p.close)
			if err = r.introduce(p); stop() && err == nil {
				return nil
			}
			p.close()
			var stopped *StoppedError
			if errors.As(err, &stopped) {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("process 0 did not answer at %s, or did not have all processes, within %s: %w",
				r.options.CoordinatorAddress, r.options.InitializationTimeout, errors.Join(last))
		case <-time.After(dialPause):
		}
	}
}

// introduce waits until process 0 has all processes.
func (r *roster) introduce(p *peer) error {
	if err := p.send(message{Kind: kindHello, Hello: r.hello()}); err != nil {
		return err
	}
	var m message
	if err := p.decoder.Decode(&m); err != nil {
		return err
	}
	switch {
	case m.Kind == kindFailed:
		return &StoppedError{m.Text}
	case m.Kind != kindTaken || m.Hello == nil || len(m.Hello.Hosts) != r.options.NumProcesses:
		return fmt.Errorf("the server at %s is not a process of this job", r.options.CoordinatorAddress)
	}
	r.hosts, p.timeout = m.Hello.Hosts, r.options.HeartbeatTimeout
	return nil
}

// name returns the name of a process for messages.
func (r *roster) name(id int) string {
	host := r.hosts[id]
	if host == "" {
		return fmt.Sprintf("process %d", id)
	}
	return fmt.Sprintf("process %d (%s)", id, host)
}

// NumProcesses returns how many processes there are.
func (r *roster) NumProcesses() int { return r.options.NumProcesses }

// ProcessID returns which one this is.
func (r *roster) ProcessID() int { return r.options.ProcessID }

// Leads reports whether this is process 0.
func (r *roster) Leads() bool { return r.options.ProcessID == 0 }
