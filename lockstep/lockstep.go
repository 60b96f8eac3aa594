// Package lockstep keeps processes on several hosts in step. Each has its own devices, and all devices run one program,
// so all processes must do the same things in the same order.
//
// Process 0 leads: it makes all decisions, tells the others, and compares the results. The others follow and decide
// nothing, so the timing of events on a host changes nothing. A process that differs ends all of them with an error
// that names the process and the difference ([DifferentError]). So does one that fails ([StoppedError]), and one that
// goes away or is silent for too long ([LostError]).
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
	"sync"
	"time"
)

// Options say which of the processes this one is, and where they meet. The names are those of jax.distributed.
type Options struct {
	// CoordinatorAddress is host:port where the others reach process 0.
	CoordinatorAddress string
	// BindAddress is where process 0 listens; "" for CoordinatorAddress, and no other address.
	BindAddress string
	// NumProcesses is how many there are, ProcessID which one this is, from 0 on.
	NumProcesses, ProcessID int
	// InitializationTimeout bounds the wait for all processes; by default 5 minutes.
	InitializationTimeout time.Duration
	// HeartbeatTimeout is how long nothing may come from a process that is not dead; by default 100 seconds.
	HeartbeatTimeout time.Duration
	// Version is what the processes must have in common before they talk: that of the program.
	Version string
	// Host is the name of this machine in messages.
	Host string
	Log  *slog.Logger
}

const (
	defaultInitialization = 5 * time.Minute
	defaultHeartbeat      = 100 * time.Second
)

// Group is all the processes, seen from one of them. Its methods may be called by many goroutines, but for each kind of
// message by one at a time.
type Group struct {
	options Options
	peers   []*peer  // by process, nil for this one and, where that is not process 0, for all but 0
	hosts   []string // by process

	mu      sync.Mutex
	changed *sync.Cond
	boxes   map[box][]message
	err     error    // why it is over
	status  int      // of the end that process 0 gave
	ended   bool     // process 0 said that it is through
	closing bool     // this process is
	word    *message // the last one, for the others

	done              chan struct{}
	leaving           chan struct{}
	leave, fall, hang sync.Once
}

// box is where messages of a stream wait, by the process that they came from.
type box struct {
	from   int
	stream stream
}

// stream is messages in an order of their own.
type stream int

const (
	agreement stream = iota // facts, and values of process 0
	calls                   // what to do
	results                 // what it came to
	exchanges               // of device 0; those of others follow
)

// MaxExchanges is how many devices of a process may exchange numbers.
const MaxExchanges = 1024

// Join meets the other processes. It returns when all are there, or with an error that says who is missing.
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
	g := &Group{options: o, peers: make([]*peer, o.NumProcesses), hosts: make([]string, o.NumProcesses),
		boxes: map[box][]message{}, done: make(chan struct{}), leaving: make(chan struct{})}
	g.changed = sync.NewCond(&g.mu)
	g.hosts[o.ProcessID] = o.Host
	if o.NumProcesses == 1 {
		return g, nil
	}
	if _, _, err := net.SplitHostPort(o.CoordinatorAddress); err != nil {
		return nil, fmt.Errorf("lockstep: the coordinator's address is %q, but must be host:port of process 0: %w",
			o.CoordinatorAddress, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.InitializationTimeout)
	defer cancel()
	meet := g.dial
	if o.ProcessID == 0 {
		meet = g.listen
	}
	if err := meet(ctx); err != nil {
		return nil, err
	}
	for id, p := range g.peers {
		if p != nil {
			go g.read(id, p)
			go g.beat(p)
		}
	}
	return g, nil
}

// NumProcesses returns how many processes there are.
func (g *Group) NumProcesses() int { return g.options.NumProcesses }

// ProcessID returns which one this is.
func (g *Group) ProcessID() int { return g.options.ProcessID }

// Leads reports whether this is process 0.
func (g *Group) Leads() bool { return g.options.ProcessID == 0 }

// Done is closed when the group is over; then Err says why.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err returns why the group is over: an error as in the package's documentation, or nil while it is not and where
// process 0 ended it.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// End is process 0's word that all is done: the others' Next answers [io.EOF], and their Status is status.
func (g *Group) End(status int) {
	g.close(message{Kind: kindEnd, Tag: uint64(status)})
}

// Status is what process 0 ended with.
func (g *Group) Status() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status
}

// Fail ends this process' part because of err, which the others stop with. After End, or another error, it does
// nothing.
func (g *Group) Fail(err error) { g.fail(err) }

// Close ends this process' part. Without End, or an end that process 0 gave, the others stop with an error.
func (g *Group) Close() {
	g.close(message{Kind: kindFailed, Text: g.name(g.options.ProcessID) + " left before the end"})
}

// Leave asks process 0 to end soon, since this process is wanted elsewhere: its Leaving is closed. It does not wait for
// that.
func (g *Group) Leave() {
	if p := g.peers[0]; p != nil {
		_ = p.send(message{Kind: kindLeave})
	}
}

// Leaving is closed when a process asked for the end.
func (g *Group) Leaving() <-chan struct{} { return g.leaving }

// close says a last word and hangs up.
func (g *Group) close(last message) {
	g.mu.Lock()
	if g.closing = true; g.word == nil && !g.ended {
		g.word = &last
	}
	g.mu.Unlock()
	g.over()
	g.hangUp()
}

func (g *Group) over() {
	g.fall.Do(func() { close(g.done) })
	g.mu.Lock()
	g.changed.Broadcast()
	g.mu.Unlock()
}

// fail notes why the group is over, and tells the others.
func (g *Group) fail(err error) {
	text := err.Error()
	var known interface{ everywhere() bool }
	if !errors.As(err, &known) {
		text = g.name(g.options.ProcessID) + ": " + text
	}
	g.mu.Lock()
	if g.closing || g.err != nil || g.ended {
		g.mu.Unlock()
		return
	}
	g.err, g.word = err, &message{Kind: kindFailed, Text: text}
	g.mu.Unlock()
	g.over() // whoever waits here need not wait for the others to hear of it
	g.hangUp()
}

// hangUp closes the connections after the last word, if there is one, and returns when that is done.
func (g *Group) hangUp() {
	g.hang.Do(func() {
		g.mu.Lock()
		word := g.word
		g.mu.Unlock()
		var wg sync.WaitGroup
		for _, p := range g.peers {
			if p != nil {
				wg.Go(func() { p.hangUp(word) })
			}
		}
		wg.Wait()
	})
}

// name is a process in messages.
func (g *Group) name(id int) string {
	host := g.hosts[id]
	if host == "" {
		return fmt.Sprintf("process %d", id)
	}
	return fmt.Sprintf("process %d (%s)", id, host)
}
