// Package outcome describes how jobs end: finished, failed, misused, partial or interrupted.
package outcome

import (
	"context"
	"errors"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
)

// Outcome is how a job ended. The command's exit codes are these numbers, and so is what process 0 of several tells the
// others.
type Outcome int

const (
	Finished    Outcome = 0
	Failed      Outcome = 1
	Misused     Outcome = 2 // what was asked for cannot be: an input that is not there
	Partial     Outcome = 3 // finished, and some rows carry errors
	Interrupted Outcome = 4
)

// Error is an error of a known outcome.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of an outcome, whose message may name settings: see [setting.Errorf].
func Errorf(outcome Outcome, format string, args ...any) error {
	return &Error{outcome, setting.Errorf(format, args...)}
}

// Of returns how something ended that returned err.
func Of(err error) Outcome {
	var known *Error
	switch {
	case err == nil:
		return Finished
	case errors.As(err, &known):
		return known.Outcome
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// RowsWithErrors is how a job ends whose output has rows with errors.
func RowsWithErrors(errors, rows int64, output string) error {
	if errors == 0 {
		return nil
	}
	return Errorf(Partial, "%d of %d rows carry errors: sample show `errors` %s prints them", errors, rows, output)
}

// Word returns how a run ended in a word.
func Word(err error) string {
	switch Of(err) {
	case Finished, Partial:
		return "finished"
	case Interrupted:
		return "interrupted"
	}
	return storage.Scrub(err.Error())
}
