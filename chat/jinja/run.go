// Package jinja renders Jinja templates as Python's sandboxed jinja2 does with the settings of transformers' chat
// templates.
//
// Templates are untrusted input: they cannot load anything, cannot change their arguments, and run within limits of
// steps, time and memory. Parsing refuses what the language has and this package lacks.
package jinja

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits bound one Render.
type Limits struct {
	Output int           // bytes of text
	Memory int           // bytes of strings and lists made on the way, all together
	Time   time.Duration // wall time
}

// ErrLimit is wrapped by the error of a template that exceeds its Limits.
var ErrLimit = errors.New("limit exceeded")

// Template is a parsed template, safe for concurrent use.
type Template struct {
	body        []stmt
	used, bound map[string]bool // names: those that are taken, and those that something is assigned to
	values      map[string]bool // used otherwise than to call them
}

// Parse reads a template. Its error is a *SyntaxError.
func Parse(source string) (*Template, error) {
	t, err := parse(source)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Uses returns the names whose values the template takes, sorted. Wants returns those of them that have to be given:
// that it assigns nothing to, and that are not Jinja's own.
func (t *Template) Uses() []string { return slices.Sorted(maps.Keys(t.used)) }

func (t *Template) Wants() []string {
	own := builtins(&run{})
	return slices.DeleteFunc(t.Uses(), func(name string) bool {
		return t.bound[name] || own[name] != nil && !t.values[name] || name == "loop"
	})
}

// Render returns the text of the template with the given variables. Their
// values may be nil, bool, int, float64, string, *List, Tuple, *Dict and *Func.
func (t *Template) Render(vars map[string]any, limits Limits) (text string, err error) {
	return t.render(vars, limits, false)
}

// RenderStrictly is Render, but it is an error to print None or what is undefined, or to make it part of a text. A name
// of Jinja's own is undefined where the template takes its value.
func (t *Template) RenderStrictly(vars map[string]any, limits Limits) (text string, err error) {
	return t.render(vars, limits, true)
}

func (t *Template) render(vars map[string]any, limits Limits, strict bool) (text string, err error) {
	r := &run{out: new(strings.Builder), strict: strict, limits: limits, deadline: time.Now().Add(limits.Time)}
	defer func() {
		if p := recover(); p != nil {
			stop, ok := p.(limitPanic)
			if !ok {
				panic(p)
			}
			text, err = "", at(r.line, stop.error)
		}
	}()
	globals := &scope{vars: builtins(r)}
	if strict {
		maps.DeleteFunc(globals.vars, func(name string, _ any) bool { return t.values[name] })
	}
	top := &scope{parent: globals, vars: make(map[string]any, len(vars))}
	for name, v := range vars {
		top.vars[name] = v
	}
	if err := r.body(t.body, &scope{parent: top}); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// run is one rendering.
type run struct {
	out      *strings.Builder // or of the block that is captured now
	strict   bool
	line     int // of the statement that runs
	limits   Limits
	deadline time.Time
	made     int // bytes
	steps    int
	depth    int
}

// step is called for every node evaluated.
func (r *run) step() error {
	if r.steps++; r.steps%1024 == 0 && time.Now().After(r.deadline) {
		return fmt.Errorf("%w: more than %v", ErrLimit, r.limits.Time)
	}
	return nil
}

// make accounts for n bytes before they are allocated.
func (r *run) make(n int) error {
	if n < 0 || n > r.limits.Memory || r.made > r.limits.Memory-n {
		return fmt.Errorf("%w: more than %d bytes made on the way", ErrLimit, r.limits.Memory)
	}
	r.made += n
	return nil
}

// visit is called for every part of a value that is printed or compared. A
// value can share its parts, so its size says nothing about how long that takes.
func (r *run) visit(depth int) {
	r.must(r.step())
	if depth > maxDepth {
		r.must(fmt.Errorf("%w: a value is nested more than %d deep", ErrLimit, maxDepth))
	}
}

// limitPanic carries an ErrLimit from functions without an error to Render.
type limitPanic struct{ error }

func (r *run) must(err error) {
	if err != nil {
		panic(limitPanic{err})
	}
}

// itemBytes is about what an item of a list takes.
const itemBytes = 32

// text accounts for a string just made.
func (r *run) text(s string) (any, error) { return s, r.make(len(s)) }

// list accounts for a list.
func (r *run) list(items []any) (any, error) { return &List{items}, r.make(len(items) * itemBytes) }

func (r *run) write(s string) error {
	if r.out.Len()+len(s) > r.limits.Output {
		return fmt.Errorf("%w: more than %d bytes of text", ErrLimit, r.limits.Output)
	}
	r.out.WriteString(s)
	return nil
}

// enter bounds the depth of calls.
func (r *run) enter() error {
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("%w: calls are nested more than %d deep", ErrLimit, maxDepth)
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
	return text, r.make(len(text))
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

// at adds the line to an error that has none yet.
func at(line int, err error) error {
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
