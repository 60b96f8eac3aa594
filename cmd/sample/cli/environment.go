// Package cli is what all subcommands share: their flags and help, the environment they run in, exit codes, and how
// text and progress appear on a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/vfs"
)

// Exit codes, the same for every subcommand; the help documents them.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitPartial     = 3
	ExitInterrupted = 4
	ExitDamaged     = 5
)

// Environment is what a subcommand sees of the world outside.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Models opens models. Tests put ones without an engine in their place.
	Models process.Models
	// Timing is how long things wait; 0 as in production.
	Timing process.Timing
	// FS has the output.
	FS vfs.FS
	// Interrupt ends the work as the first signal does, for a reason.
	Interrupt func(reason string)
	// Signals are SIGINTs of the terminal, which a subcommand may take.
	Signals *Interrupts
}

// Interrupts receives a SIGINT, which otherwise ends the command.
type Interrupts struct {
	mu   sync.Mutex
	take func() bool
}

// SetHandler gives the next ones to take, whose result reports whether it took one. nil takes none.
func (i *Interrupts) SetHandler(take func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.take = take
}

func (i *Interrupts) Taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.take != nil && i.take()
}

// Command is one word after "sample".
type Command struct {
	Name    string
	Args    string // what follows the flags in the usage line
	Summary string // one line
	About   string // paragraphs under the usage line
	Example string // lines; the short help prints only the first
	// Short are the flags in the short help. If there are none, the short help is the whole help.
	Short []string
	// Flags defines the flags; run gets what is left of the arguments after they are parsed.
	Flags func(f *Flags)
	Run   func(ctx context.Context, env *Environment, args []string) error
}

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Code int
	Err  error // nil if everything is printed already
}

// Exit returns an error with an exit code. err is nil if everything is printed already.
func Exit(code int, err error) error { return &ExitError{code, err} }

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprint("exit code ", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns an error about the command line itself.
func Usagef(format string, args ...any) error {
	return Exit(ExitUsage, fmt.Errorf(format, args...))
}

// CodeOf returns the exit code that an error has of its own; known is false if it has none and is a failure.
func CodeOf(err error) (code int, known bool) {
	var exit *ExitError
	var job *outcome.Error
	switch {
	case err == nil:
		return ExitOK, true
	case errors.As(err, &exit):
		return exit.Code, true
	case errors.As(err, &job):
		return int(job.Outcome), true
	}
	return ExitFailure, false
}
