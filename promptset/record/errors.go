package record

import (
	"fmt"
)

// columnError says that a file has none of the columns that prompts are looked for in.
type columnError struct{ what, advice string }

func (e *columnError) Error() string { return e.what }

// WithFile names the file that an error is about.
func WithFile(name string, err error) *FileError {
	e := &FileError{File: name, What: err.Error()}
	if lacks, ok := err.(*columnError); ok {
		e.NoPrompts, e.Advice = true, lacks.advice
	}
	return e
}

// RowError says what is wrong with one row and what to do about it.
type RowError struct {
	File string
	Row  int64 // from 0
	Line int64 // in a JSONL file, from 1; 0 in a Parquet file
	What string
	// Param is the member of a line of a batch file that it is about, and Code what it is, by OpenAI's names; they may
	// be empty.
	Param, Code string
}

func (e *RowError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", e.File, e.Line, e.What)
	}
	return fmt.Sprintf("%s row %d: %s", e.File, e.Row, e.What)
}

// FileError says why a whole file cannot be used.
type FileError struct {
	File string
	What string
	Err  error // cause, may be nil
	// Missing says that no file has the name: it is the name that is wrong.
	Missing bool
	// NoPrompts says that the file has none of the columns that prompts are looked for in: others have to be named.
	// Advice, which is not in the text of the error, says by which settings; it may be empty.
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
