package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/quire/quire/internal/visible"
)

// screen is standard output or standard error. What is written there has its control characters made visible, whoever
// wrote it: names, prompts, ids, completions and errors come from files, models and networks. The first error of a
// write is remembered, so that no command succeeds whose output was lost.
//
// A pipe that nobody reads any more, as in "sample show out | head", ends the process by SIGPIPE without a word, as it
// ends other tools: the Go runtime does so for writes to standard output and standard error.
type screen struct {
	to    io.Writer
	names bool // names of settings are written as flags

	mu   sync.Mutex
	text *visible.Writer
	bar  bool // a progress bar stands in the last line, which the next one to be written replaces
	err  error
}

func newScreen(to io.Writer) *screen { return &screen{to: to, text: visible.NewWriter(to)} }

// Write writes b. After an error it writes nothing more, and returns that one.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.bar {
		if _, err := io.WriteString(s.to, clearLine); err != nil {
			s.note(err)
			return 0, err
		}
	}
	text := b
	if s.names {
		text = []byte(asFlags(string(b)))
	}
	if _, err := s.text.Write(text); err != nil {
		s.note(err)
		return 0, err
	}
	return len(b), nil
}

// clearLine has a terminal go to the beginning of its line and clear it.
const clearLine = "\r\x1b[2K"

// showsBar says whether a progress bar stands on w's terminal from now on. It is drawn again where the text ends.
func showsBar(w io.Writer, shows bool) {
	if s, ok := w.(*screen); ok {
		s.mu.Lock()
		s.bar = shows
		s.mu.Unlock()
	}
}

func (s *screen) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// failure ends the writing, and returns the first error of it; stream is what people call it.
func (s *screen) failure(stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(s.text.Flush())
	if s.err == nil {
		return nil
	}
	err := s.err
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("cannot write to %s: %w; some of what was to be printed is lost", stream, err)
}

// terminalOf returns what w writes to in the end, for those who draw on a terminal with control characters of their
// own.
func terminalOf(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.to
	}
	return w
}

// fileOf returns the file that w writes to, if it is one.
func fileOf(w io.Writer) (*os.File, bool) {
	f, ok := terminalOf(w).(*os.File)
	return f, ok
}
