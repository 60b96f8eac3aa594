package record

import (
	"fmt"
)

// columnError reports that a file has none of the columns in which prompts are expected.
type columnError struct{ what, advice string }

func (e *columnError) Error() string { return e.what }

// WithFile returns err with the name of the file that it concerns.
func WithFile(name string, err error) *FileError {
	e := &FileError{File: name, What: err.Error()}
	if lacks, ok := err.(*columnError); ok {
		e.NoPrompts, e.Advice = true, lacks.advice
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
}

func (e *RowError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", e.File, e.Line, e.What)
	}
	return fmt.Sprintf("%s row %d: %s", e.File, e.Row, e.What)
}

// FileError states why a whole file cannot be used.
type FileError struct {
	File string
	What string
	Err  error // cause, may be nil
	// Missing reports whether no file has the name: the name is wrong.
	Missing bool
	// NoPrompts reports whether the file has none of the columns in which prompts are expected, so that others must
	// be named. Advice, which is not in the text of the error, names the settings for that; it may be empty.
	NoPrompts bool
	Advice    string
}

func (e *FileError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.File, e.What, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.File, e.What)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }
