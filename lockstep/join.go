package lockstep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	// helloTimeout bounds the time for introductions: others than processes of the group may call.
	helloTimeout = 10 * time.Second
	helloBytes   = 1 << 16
	dialPause    = 200 * time.Millisecond
)

func (g *Group) hello() *hello {
	o := g.options
	return &hello{Protocol: protocol, Version: o.Version, NumProcesses: o.NumProcesses, ProcessID: o.ProcessID,
		Host: o.Host}
}

// listen waits at process 0 for the others.
func (g *Group) listen(ctx context.Context) error {
	address := g.options.BindAddress
	if address == "" {
		address = g.options.CoordinatorAddress
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
	go g.accept(l, came, quit)
	for missing := g.options.NumProcesses - 1; missing > 0; {
		select {
		case <-ctx.Done():
			return g.abandon(g.absent(ctx))
		case c := <-came:
			replaced, err := g.admit(c)
			if err != nil {
				return g.abandon(err)
			}
			if !replaced {
				missing--
			}
			g.options.Log.Info("a process connected", "process", c.who.ProcessID, "host", c.who.Host, "missing",
				missing)
		}
	}
	return g.begin()
}

// caller is a process that has introduced itself to process 0.
type caller struct {
	p   *peer
	who *hello
}

// accept hands over the processes that call, until the listener closes. Their introductions run beside one another; the
// reader of came has gone when quit is closed.
func (g *Group) accept(l net.Listener, came chan<- caller, quit <-chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			p, who := g.greet(conn)
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

// admit makes a caller a peer. replaced says that one with its process ID was there before.
func (g *Group) admit(c caller) (replaced bool, err error) {
	c.p.host = c.who.Host
	if wrong := g.refuse(c.who); wrong != "" {
		err := fmt.Errorf("process %d (%s) is refused: %s", c.who.ProcessID, c.who.Host, wrong)
		c.p.last(message{Kind: kindFailed, Text: err.Error()})
		c.p.close()
		return false, err
	}
	old := g.peers[c.who.ProcessID]
	if old != nil {
		// It was restarted, or two processes have the same ID: tell the former one, if it is still there.
		old.last(message{Kind: kindFailed,
			Text: fmt.Sprintf("another process %d connected, from %s: give each process a --process-id of its own",
				c.who.ProcessID, c.who.Host)})
		old.close()
	}
	g.peers[c.who.ProcessID] = c.p
	return old != nil, nil
}

// abandon tells all peers of err, and returns it.
func (g *Group) abandon(err error) error {
	for _, p := range g.peers {
		if p != nil {
			p.last(message{Kind: kindFailed, Text: err.Error()})
			p.close()
		}
	}
	return err
}

// begin tells all peers that the group is complete.
func (g *Group) begin() error {
	taken := g.hello()
	for id, p := range g.peers {
		if p != nil {
			g.hosts[id] = p.host
		}
	}
	taken.Hosts = g.hosts
	for id, p := range g.peers {
		if p == nil {
			continue
		}
		if err := p.send(message{Kind: kindTaken, Hello: taken}); err != nil {
			return g.abandon(&LostError{Process: id, Name: g.name(id), Cause: err})
		}
		p.timeout = g.options.HeartbeatTimeout
	}
	return nil
}

// greet hears who calls.
func (g *Group) greet(conn net.Conn) (*peer, *hello) {
	p := newPeer(conn, min(helloTimeout, g.options.HeartbeatTimeout))
	p.left = helloBytes
	var m message
	if err := p.decoder.Decode(&m); err != nil || m.Kind != kindHello || m.Hello == nil ||
		m.Hello.Protocol != protocol {
		g.options.Log.Warn("refused a connection that is not from a process of this job", "address", conn.RemoteAddr())
		p.close()
		return nil, nil
	}
	p.left = -1
	return p, m.Hello
}

// refuse says why a process can't be one of these; "" if it can.
func (g *Group) refuse(who *hello) string {
	o := g.options
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

// absent is the error for processes that did not come.
func (g *Group) absent(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var names []string
	for id, p := range g.peers {
		if p == nil && id != g.options.ProcessID {
			names = append(names, fmt.Sprint(id))
		}
	}
	return fmt.Errorf("of %d processes these did not connect to %s within %s: %s", g.options.NumProcesses,
		g.options.CoordinatorAddress, g.options.InitializationTimeout, strings.Join(names, ", "))
}

// dial goes to process 0, which may not be there yet.
func (g *Group) dial(ctx context.Context) error {
	var dialer net.Dialer
	var last error
	for {
		conn, err := dialer.DialContext(ctx, "tcp", g.options.CoordinatorAddress)
		if err == nil {
			// All others may come later than this one: until then process 0 says nothing.
			p := newPeer(conn, g.options.InitializationTimeout)
			g.peers[0] = p
			stop := context.AfterFunc(ctx, p.close)
			if err = g.introduce(p); stop() && err == nil {
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
				g.options.CoordinatorAddress, g.options.InitializationTimeout, errors.Join(last))
		case <-time.After(dialPause):
		}
	}
}

// introduce waits until process 0 has all processes.
func (g *Group) introduce(p *peer) error {
	if err := p.send(message{Kind: kindHello, Hello: g.hello()}); err != nil {
		return err
	}
	var m message
	if err := p.decoder.Decode(&m); err != nil {
		return err
	}
	switch {
	case m.Kind == kindFailed:
		return &StoppedError{m.Text}
	case m.Kind != kindTaken || m.Hello == nil || len(m.Hello.Hosts) != g.options.NumProcesses:
		return fmt.Errorf("the server at %s is not a process of this job", g.options.CoordinatorAddress)
	}
	g.hosts, p.timeout = m.Hello.Hosts, g.options.HeartbeatTimeout
	return nil
}
