package record

import (
	"fmt"

	"github.com/quire/quire/data/setting"
)

// columnError reports that a file has none of the columns in which prompts are expected.
type columnError struct {
	error
	advice setting.Text
}

// WithFile returns err with the name of the file that it concerns.
func WithFile(name string, err error) *FileError {
	e := &FileError{File: name, Err: err}
	if lacks, ok := err.(*columnError); ok {
		e.Err, e.NoPrompts, e.Advice = lacks.error, true, lacks.advice
	}
	return e
}

// RowError states what is wrong with one row and what to do about it.
type RowError struct {
	File string
	Row  int64 // number in the file, from 0
	Line int64 // line in a JSONL file, from 1; 0 in a Parquet file
	What string
	// Param is the member of a batch file's line that is wrong, and Code the kind of error, by OpenAI's names; they
	// may be empty.
	Param, Code string
	Err         error // what What is the text of; may be nil
}

func (e *RowError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", e.File, e.Line, e.What)
	}
	return fmt.Sprintf("%s row %d: %s", e.File, e.Row, e.What)
}

func (e *RowError) Unwrap() error { return e.Err }

// FileError states why a whole file cannot be used.
type FileError struct {
	File string
	What string // may be empty if there is a cause
	Err  error  // cause, may be nil
	// Missing reports whether no file has the name: the name is wrong.
	Missing bool
	// Changed reports whether the file is not any more what it was when the job started.
	Changed bool
	// NoPrompts reports whether the file has none of the columns in which prompts are expected, so that others must
	// be named. Advice, which is not in the text of the error, names the settings for that; it may be empty.
	NoPrompts bool
	Advice    setting.Text
}

func (e *FileError) Error() string {
	switch {
	case e.What == "" && e.Err != nil:
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("%s: %s: %v", e.File, e.What, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.File, e.What)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }
