package jinja

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

const maxNesting = 200 // of expressions, blocks and calls

// run is one rendering.
type run struct {
	*value.Meter
	most  int              // bytes of text
	out   *strings.Builder // of the text, or of the block that is being captured
	line  int              // of the statement that runs
	depth int              // of nested calls
}

func (r *run) write(s string) error {
	if r.out.Len()+len(s) > r.most {
		return fmt.Errorf("%w: more than %d bytes of text", value.ErrLimit, r.most)
	}
	r.out.WriteString(s)
	return nil
}

// enter bounds the depth of calls.
func (r *run) enter() error {
	if r.depth++; r.depth > maxNesting {
		return fmt.Errorf("%w: calls are nested more than %d deep", value.ErrLimit, maxNesting)
	}
	return nil
}

func (r *run) leave() { r.depth-- }

// capture runs f and returns what it wrote.
func (r *run) capture(f func() error) (string, error) {
	outer := r.out
	r.out = new(strings.Builder)
	err := f()
	text := r.out.String()
	r.out = outer
	if err != nil {
		return "", err
	}
	return text, r.Reserve(len(text))
}

// RaisedError is what a template's raise_exception makes.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

// scope holds the variables of a template, loop body, macro or block.
type scope struct {
	parent *scope
	vars   map[string]any
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = make(map[string]any)
	}
	s.vars[name] = v
}

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// withLine adds the line to an error that has none yet.
func withLine(line int, err error) error {
	if err == nil || err == errBreak || err == errContinue {
		return err
	}
	var known *lineError
	if errors.As(err, &known) {
		return err
	}
	return &lineError{line, err}
}

type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }
