// Package lockstep keeps processes on several hosts in step. Each has its own devices, and all devices run one program,
// so all processes must do the same things in the same order.
//
// Process 0 leads: it makes all decisions, sends them to the others, and compares the results. The others follow and
// decide nothing, so the timing of events on a host changes nothing. A process that differs ends all of them with an
// error that names the process and the difference ([DifferentError]). So does one that fails ([StoppedError]), and one
// that goes away or is silent for too long ([LostError]).
//
// The processes meet at process 0. Each of the others has one TCP connection to it, with messages of encoding/gob.
// There is neither a password nor encryption: like jax.distributed and NCCL it is for a trusted network.
package lockstep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
)

// Group is all the processes, seen from one of them. Its methods may be called by many goroutines, but for each kind of
// message by one at a time.
type Group struct {
	*roster
	inbox   *inbox
	leaving chan struct{} // closed when a process asked for the end
	leave   sync.Once     // closes leaving
	hang    sync.Once     // closes the connections
}

// MaxExchanges is how many devices of a process may exchange numbers.
const MaxExchanges = 1024

// Join meets the other processes. It returns when all are there, or with an error that names the missing ones.
func Join(ctx context.Context, o Options) (*Group, error) {
	if o.NumProcesses < 1 || o.ProcessID < 0 || o.ProcessID >= o.NumProcesses {
		return nil, fmt.Errorf("lockstep: there is no process %d of %d: they count from 0", o.ProcessID, o.NumProcesses)
	}
	if o.InitializationTimeout <= 0 {
		o.InitializationTimeout = defaultInitialization
	}
	if o.HeartbeatTimeout <= 0 {
		o.HeartbeatTimeout = defaultHeartbeat
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Group{roster: newRoster(o), inbox: newInbox(), leaving: make(chan struct{})}
	if o.NumProcesses == 1 {
		return g, nil
	}
	if _, _, err := net.SplitHostPort(o.CoordinatorAddress); err != nil {
		return nil, fmt.Errorf("lockstep: the coordinator's address is %q, but must be host:port of process 0: %w",
			o.CoordinatorAddress, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.InitializationTimeout)
	defer cancel()
	if err := g.meet(ctx); err != nil {
		return nil, err
	}
	for id, p := range g.peers {
		if p != nil {
			go g.read(id, p)
			go p.beat()
		}
	}
	return g, nil
}

// Done is closed when the group is over. Err returns why.
func (g *Group) Done() <-chan struct{} { return g.inbox.done }

// Err returns why the group is over, an error that the package's documentation names. It returns nil until then, and if
// process 0 ended the group.
func (g *Group) Err() error {
	_, _, err := g.inbox.outcome()
	return err
}

// End reports to the others that everything is done: their Next returns [io.EOF], and their Status is status. Process 0
// only.
func (g *Group) End(status int) {
	g.close(message{Kind: kindEnd, Tag: uint64(status)})
}

// Status returns the status that process 0 ended with.
func (g *Group) Status() int {
	status, _, _ := g.inbox.outcome()
	return status
}

// Fail ends this process' part because of err. The others stop with err. After End, or another error, it does nothing.
func (g *Group) Fail(err error) { g.fail(err) }

// Close ends this process' part. The others stop with an error, unless process 0 has called End.
func (g *Group) Close() {
	g.close(message{Kind: kindFailed, Text: g.name(g.options.ProcessID) + " left before the end"})
}

// Leave asks process 0 to end soon, because this process is wanted elsewhere: it closes Leaving there. It does not wait
// for the end.
func (g *Group) Leave() {
	if p := g.peers[0]; p != nil {
		_ = p.send(message{Kind: kindLeave})
	}
}

// Leaving is closed when a process asked for the end.
func (g *Group) Leaving() <-chan struct{} { return g.leaving }

// close leaves the group with a last message, and hangs up.
func (g *Group) close(last message) {
	g.inbox.close(last)
	g.hangUp()
}

// fail records why the group is over, and informs the others. Goroutines that wait here are woken first: they need not
// wait until the others have heard.
func (g *Group) fail(err error) {
	text := err.Error()
	var known interface{ everywhere() bool }
	if !errors.As(err, &known) {
		text = g.name(g.options.ProcessID) + ": " + text
	}
	if g.inbox.fail(err, message{Kind: kindFailed, Text: text}) {
		g.hangUp()
	}
}

// hangUp closes the connections after the last message, if there is one, and returns when that is done.
func (g *Group) hangUp() {
	g.hang.Do(func() {
		_, word, _ := g.inbox.outcome()
		var wg sync.WaitGroup
		for _, p := range g.peers {
			if p != nil {
				wg.Go(func() { p.hangUp(word) })
			}
		}
		wg.Wait()
	})
}

// read receives the messages of a peer, until the connection ends.
func (g *Group) read(id int, p *peer) {
	for {
		var m message
		if err := p.decoder.Decode(&m); err != nil {
			close(p.silent)
			lost := &LostError{Process: id, Name: g.name(id), Cause: err}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				lost.Silent = p.timeout
			}
			g.fail(lost)
			return
		}
		switch m.Kind {
		case kindStream:
			g.inbox.put(id, m)
		case kindLeave:
			g.leave.Do(func() { close(g.leaving) })
		case kindEnd:
			close(p.silent)
			g.inbox.end(int(m.Tag))
			p.close()
			return
		case kindFailed:
			close(p.silent)
			g.fail(&StoppedError{m.Text})
			return
		}
	}
}

// send sends a message to a process. If that fails, the group is over.
func (g *Group) send(to int, m message) error {
	if err := g.peers[to].send(m); err != nil {
		g.fail(&LostError{Process: to, Name: g.name(to), Cause: err})
		if known := g.Err(); known != nil {
			return known
		}
		return errClosed
	}
	return nil
}

// tell sends a message to all others.
func (g *Group) tell(m message) error {
	for id, p := range g.peers {
		if p != nil {
			if err := g.send(id, m); err != nil {
				return err
			}
		}
	}
	return nil
}
