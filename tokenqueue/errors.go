package tokenqueue

import "fmt"

// ErrQueueFull says that tokens were enqueued for which there was no room. errors.Is matches any ErrQueueFull.
type ErrQueueFull struct {
	Dropped  int // Tokens left out.
	Capacity int // Tokens the queue holds.
}

func (e ErrQueueFull) Error() string {
	return fmt.Sprintf(
		"token queue full: its %[2]d places have no room for %[1]d more tokens; admit fewer prompt tokens at a time",
		e.Dropped, e.Capacity)
}

// Is reports whether target is an ErrQueueFull.
func (e ErrQueueFull) Is(target error) bool { _, ok := target.(ErrQueueFull); return ok }
