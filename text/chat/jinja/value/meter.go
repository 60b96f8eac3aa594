package value

import (
	"errors"
	"fmt"
	"time"
)

// ErrLimit is wrapped by the error of a template that exceeds its Limits.
var ErrLimit = errors.New("limit exceeded")

// maxDepth bounds the nesting of values.
const maxDepth = 200

// Meter counts the work and the memory of one rendering, and bounds both.
type Meter struct {
	// Strict makes it an error to convert None or an undefined value to text.
	Strict   bool
	memory   int // the limit on made
	time     time.Duration
	deadline time.Time
	made     int // bytes
	steps    int
}

// NewMeter allows so many bytes of strings and lists, and so much time from now on.
func NewMeter(memory int, limit time.Duration) *Meter {
	return &Meter{memory: memory, time: limit, deadline: time.Now().Add(limit)}
}

// Step is called for each node that is evaluated.
func (m *Meter) Step() error {
	if m.steps++; m.steps%1024 == 0 && time.Now().After(m.deadline) {
		return fmt.Errorf("%w: more than %v", ErrLimit, m.time)
	}
	return nil
}

// Reserve accounts for n bytes before they are allocated.
func (m *Meter) Reserve(n int) error {
	if n < 0 || n > m.memory || m.made > m.memory-n {
		return fmt.Errorf("%w: more than %d bytes made on the way", ErrLimit, m.memory)
	}
	m.made += n
	return nil
}

// ReserveItems accounts for a list of n items.
func (m *Meter) ReserveItems(n int) error {
	if n > m.memory/ItemBytes {
		return m.Reserve(-1)
	}
	return m.Reserve(n * ItemBytes)
}

// visit is called for each part of a value that is printed or compared. A value can share its parts, so that its size
// does not bound how long that takes.
func (m *Meter) visit(depth int) {
	m.must(m.Step())
	if depth > maxDepth {
		m.must(fmt.Errorf("%w: a value is nested more than %d deep", ErrLimit, maxDepth))
	}
}

// limitPanic carries an ErrLimit from functions without an error to Render.
type limitPanic struct{ error }

// Exceeded returns the error of a panic by which a function without an error result reports an exceeded limit. It is
// nil for other panics.
func Exceeded(panicked any) error {
	if p, ok := panicked.(limitPanic); ok {
		return p.error
	}
	return nil
}

func (m *Meter) must(err error) {
	if err != nil {
		panic(limitPanic{err})
	}
}

// ItemBytes is approximately the size of an item of a list.
const ItemBytes = 32

// Text accounts for a string that was just made.
func (m *Meter) Text(s string) (any, error) { return s, m.Reserve(len(s)) }

// List makes a list and accounts for it.
func (m *Meter) List(items []any) (any, error) {
	return &List{items}, m.Reserve(len(items) * ItemBytes)
}
