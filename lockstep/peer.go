package lockstep

import (
	"bufio"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// kind is what a message is for.
type kind uint8

const (
	kindHello  kind = iota // of a process that joins
	kindTaken              // process 0's answer
	kindBeat               // nothing: there is life
	kindStream             // of a stream
	kindEnd                // process 0: all is done
	kindLeave              // to process 0: end soon
	kindFailed             // the sender stops, and why
)

// message is what goes over a connection.
type message struct {
	Kind   kind
	Stream stream
	Tag    uint64   // tells messages of a stream apart; of kindEnd the status
	Text   string   // of kindFailed
	Data   [][]byte // of kindStream
	Hello  *hello   // of kindHello and kindTaken
}

// hello is how a process introduces itself.
type hello struct {
	Protocol, Version       string
	NumProcesses, ProcessID int
	Host                    string
	Hosts                   []string // of all processes, in kindTaken
}

// protocol changes with the messages.
const protocol = "quire lockstep 1"

// peer is a connection to another process.
type peer struct {
	conn    net.Conn
	host    string
	timeout time.Duration
	decoder *gob.Decoder
	left    int64         // bytes that may still come, -1 for any number: of those who have not said who they are
	silent  chan struct{} // closed when nothing is read any more

	mu      sync.Mutex // of what follows
	writer  *bufio.Writer
	encoder *gob.Encoder
	stop    chan struct{}
	stopped sync.Once
}

func newPeer(conn net.Conn, timeout time.Duration) *peer {
	p := &peer{conn: conn, timeout: timeout, stop: make(chan struct{}), silent: make(chan struct{}), left: -1}
	p.writer = bufio.NewWriterSize(conn, 1<<16)
	p.encoder = gob.NewEncoder(p.writer)
	p.decoder = gob.NewDecoder(bufio.NewReaderSize(reader{p}, 1<<16))
	return p
}

// reader reads from a peer; each piece that comes is a heartbeat.
type reader struct{ p *peer }

func (r reader) Read(b []byte) (int, error) {
	if err := r.p.conn.SetReadDeadline(time.Now().Add(r.p.timeout)); err != nil {
		return 0, err
	}
	if r.p.left == 0 {
		return 0, errTooMuch
	}
	if r.p.left > 0 {
		b = b[:min(int64(len(b)), r.p.left)]
	}
	n, err := r.p.conn.Read(b)
	if r.p.left > 0 {
		r.p.left -= int64(n)
	}
	return n, err
}

// send sends a message. It takes as long as the other side takes to read, but no longer than the timeout.
func (p *peer) send(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.conn.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return err
	}
	if err := p.encoder.Encode(&m); err != nil {
		return err
	}
	return p.writer.Flush()
}

// lastWord bounds how long a process waits for another to hear why it stops.
const lastWord = 2 * time.Second

// last sends a message before the connection is closed, if that can be done soon.
func (p *peer) last(m message) {
	// One that waits in send for a peer that does not read must not keep this one.
	_ = p.conn.SetWriteDeadline(time.Now().Add(lastWord))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = p.conn.SetWriteDeadline(time.Now().Add(lastWord))
		if p.encoder.Encode(&m) == nil {
			_ = p.writer.Flush()
		}
	}()
	select {
	case <-done:
	case <-time.After(lastWord):
	}
}

// hangUp sends a last message, if there is one, and closes the connection when the other side has read it, or soon.
func (p *peer) hangUp(word *message) {
	defer p.close()
	if word == nil {
		return
	}
	p.last(*word)
	if half, ok := p.conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	select {
	case <-p.silent:
	case <-time.After(lastWord):
	}
}

func (p *peer) close() {
	p.stopped.Do(func() {
		close(p.stop)
		_ = p.conn.Close()
	})
}

// beat tells a peer that this process lives, until the connection ends.
func (g *Group) beat(p *peer) {
	ticker := time.NewTicker(p.timeout / 4)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			_ = p.send(message{Kind: kindBeat}) // a connection that is broken is noticed by its reader
		}
	}
}

// read takes in what a peer sends, until the connection ends.
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
			g.mu.Lock()
			at := box{id, m.Stream}
			g.boxes[at] = append(g.boxes[at], m)
			g.changed.Broadcast()
			g.mu.Unlock()
		case kindLeave:
			g.leave.Do(func() { close(g.leaving) })
		case kindEnd:
			g.mu.Lock()
			g.ended, g.status = true, int(m.Tag)
			g.mu.Unlock()
			close(p.silent)
			g.over()
			p.close()
			return
		case kindFailed:
			close(p.silent)
			g.fail(&StoppedError{m.Text})
			return
		}
	}
}

// receive waits for the next message of a stream from a process. At process 0, a process that came to the end of a call
// while an exchange of the call is waited for, or the other way round, is errAstray: it would be waited for in vain.
func (g *Group) receive(from int, s stream) (message, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := box{from, s}
	for {
		if len(g.boxes[at]) == 0 && g.Leads() && g.astray(from, s) {
			return message{}, errAstray
		}
		if waiting := g.boxes[at]; len(waiting) > 0 {
			g.boxes[at] = waiting[1:]
			return waiting[0], nil
		}
		switch {
		case g.err != nil:
			return message{}, g.err
		case g.ended:
			return message{}, io.EOF
		case g.closing:
			return message{}, errClosed
		}
		g.changed.Wait()
	}
}

// astray says that messages of a process wait which have no business to be there before one of the stream.
func (g *Group) astray(from int, s stream) bool {
	switch {
	case s >= exchanges:
		return len(g.boxes[box{from, results}]) > 0
	case s == results:
		for at, waiting := range g.boxes {
			if at.from == from && at.stream >= exchanges && len(waiting) > 0 {
				return true
			}
		}
	}
	return false
}

// send sends a message to a process; where that fails, the group is over.
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

var (
	errClosed = errors.New("lockstep: this process has left")

	errAstray = errors.New("lockstep: unexpected message from another process")

	errTooMuch = errors.New("lockstep: the first message is too long")
)
