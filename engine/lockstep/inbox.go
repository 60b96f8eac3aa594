package lockstep

import (
	"errors"
	"io"
	"sync"
)

// box holds the waiting messages of a stream, by the process that they came from.
type box struct {
	from   int
	stream stream
}

// inbox holds received messages and the end of the group, so that a goroutine that waits for a message also learns of
// the end. Readers of peers put messages in; any goroutine may take them out.
type inbox struct {
	// done is closed when the group is over. It is closed before changed is signalled, and outside mu.
	done chan struct{}
	fall sync.Once // closes done

	mu      sync.Mutex
	changed *sync.Cond // uses mu: signalled for each message and for each step towards the end
	// The fields below are protected by mu.
	boxes map[box][]message
	// The end. Only the first error counts, and none after ended or closing; receive prefers err to ended, and both to
	// closing, since they are more specific.
	err     error // why the group is over
	ended   bool  // process 0 reported that it is done
	status  int   // process 0's status, if ended
	closing bool  // this process is done
	// word is the last message to the others; nil if they need none. It is set once, with err or closing, so that what
	// they hear is the first reason.
	word *message
}

func newInbox() *inbox {
	b := &inbox{done: make(chan struct{}), boxes: map[box][]message{}}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// put adds a message from a process.
func (b *inbox) put(from int, m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := box{from, m.Stream}
	b.boxes[key] = append(b.boxes[key], m)
	b.changed.Broadcast()
}

// receive waits for the next message of a stream from a process. With strict, which is for process 0, it returns
// errAstray if the process came to the end of a call while an exchange of the call is waited for, or the other way
// round: the wait would never end.
func (b *inbox) receive(from int, s stream, strict bool) (message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := box{from, s}
	for {
		if waiting := b.boxes[key]; len(waiting) > 0 {
			b.boxes[key] = waiting[1:]
			return waiting[0], nil
		}
		switch {
		case strict && b.isAstray(from, s):
			return message{}, errAstray
		case b.err != nil:
			return message{}, b.err
		case b.ended:
			return message{}, io.EOF
		case b.closing:
			return message{}, errClosed
		}
		b.changed.Wait()
	}
}

// isAstray reports whether messages of a process wait that can't come before one of the stream. The caller holds mu.
func (b *inbox) isAstray(from int, s stream) bool {
	switch {
	case s >= exchanges:
		return len(b.boxes[box{from, results}]) > 0
	case s == results:
		for key, waiting := range b.boxes {
			if key.from == from && key.stream >= exchanges && len(waiting) > 0 {
				return true
			}
		}
	}
	return false
}

// fail records why the group is over, with the last message to the others. It returns false if it is over already.
func (b *inbox) fail(err error, word message) bool {
	b.mu.Lock()
	if b.closing || b.err != nil || b.ended {
		b.mu.Unlock()
		return false
	}
	b.err, b.word = err, &word
	b.mu.Unlock()
	b.wake()
	return true
}

// end records that process 0 is done.
func (b *inbox) end(status int) {
	b.mu.Lock()
	b.ended, b.status = true, status
	b.mu.Unlock()
	b.wake()
}

// close records that this process is done. The others receive last, unless they received another last message or
// process 0 is done.
func (b *inbox) close(last message) {
	b.mu.Lock()
	if b.closing = true; b.word == nil && !b.ended {
		b.word = &last
	}
	b.mu.Unlock()
	b.wake()
}

// wake makes all waiting goroutines check for the end.
func (b *inbox) wake() {
	b.fall.Do(func() { close(b.done) })
	b.mu.Lock()
	b.changed.Broadcast()
	b.mu.Unlock()
}

// outcome returns the end.
func (b *inbox) outcome() (status int, word *message, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.word, b.err
}

var (
	errClosed = errors.New("lockstep: this process has left")
	errAstray = errors.New("lockstep: unexpected message from another process")
)
