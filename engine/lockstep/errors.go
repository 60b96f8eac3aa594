package lockstep

import (
	"fmt"
	"strings"
	"time"
)

// LostError reports that a process is gone: its connection ended, or it was silent for too long.
type LostError struct {
	Process int
	Name    string // of the process, with its host
	Silent  time.Duration
	Cause   error
}

func (e *LostError) Error() string {
	if e.Silent > 0 {
		return fmt.Sprintf("%s is lost: no message from it for %s", e.Name, e.Silent)
	}
	return fmt.Sprintf("%s is lost: %v", e.Name, e.Cause)
}

// There is no Unwrap: the cause may be io.EOF, which readers of calls take for a clean end.
func (e *LostError) everywhere() bool { return true }

// StoppedError reports that another process failed, with its error.
type StoppedError struct {
	Text string
}

func (e *StoppedError) Error() string    { return "stopped with the other processes: " + e.Text }
func (e *StoppedError) everywhere() bool { return true }

// DifferentError reports that a process does not do what process 0 does.
type DifferentError struct {
	Process     int
	Name        string // of the process, with its host
	When        string // what was compared
	Differences []string
}

func (e *DifferentError) Error() string {
	const most = 5
	list := e.Differences
	if more := len(list) - most; more > 0 {
		list = append(list[:most:most], fmt.Sprintf("%d more differences", more))
	}
	return fmt.Sprintf("%s differs from process 0 in %s: %s", e.Name, e.When, strings.Join(list, "; "))
}

func (e *DifferentError) everywhere() bool { return true }
