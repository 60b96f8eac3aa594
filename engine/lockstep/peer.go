package lockstep

import (
	"bufio"
	"encoding/gob"
	"errors"
	"net"
	"sync"
	"time"
)

var errTooMuch = errors.New("lockstep: the first message is too long")

// peer is a connection to another process.
type peer struct {
	conn    net.Conn
	host    string
	timeout time.Duration
	decoder *gob.Decoder
	// left is how many bytes may still come, or -1 for any number. It bounds the memory of a caller that has not
	// introduced itself. The reader of the connection owns it.
	left   int64
	silent chan struct{} // closed when nothing is read any more

	// mu protects the writer and the encoder, so that one message follows another.
	mu      sync.Mutex
	writer  *bufio.Writer
	encoder *gob.Encoder

	stop    chan struct{} // closed with the connection
	stopped sync.Once     // closes stop
}

func newPeer(conn net.Conn, timeout time.Duration) *peer {
	p := &peer{conn: conn, timeout: timeout, stop: make(chan struct{}), silent: make(chan struct{}), left: -1}
	p.writer = bufio.NewWriterSize(conn, 1<<16)
	p.encoder = gob.NewEncoder(p.writer)
	p.decoder = gob.NewDecoder(bufio.NewReaderSize(reader{p}, 1<<16))
	return p
}

// reader reads from a peer. Each piece that comes counts as a heartbeat.
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

// last sends a message before the connection is closed, if the other side reads it soon.
func (p *peer) last(m message) {
	// A send that waits because the peer does not read must not delay this one.
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

// beat shows the peer that this process lives, until the connection ends.
func (p *peer) beat() {
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
