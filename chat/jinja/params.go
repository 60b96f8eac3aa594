package jinja

import "fmt"

// params are the arguments of a filter or method, read in order by get. The
// first error sticks and is returned by done.
type params struct {
	args   []any
	kwargs *Dict
	at     int
	used   int
	err    error
}

// get returns the next argument, by position or name; ok is false if it was not
// given.
func (p *params) get(name string) (any, bool) {
	i := p.at
	p.at++
	if i < len(p.args) {
		return p.args[i], true
	}
	v, ok := p.kwargs.get(name)
	if ok {
		p.used++
	}
	return v, ok
}

func (p *params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *params) any(name string, otherwise any) any {
	if v, ok := p.get(name); ok {
		return v
	}
	return otherwise
}

func (p *params) required(name string) any {
	v, ok := p.get(name)
	if !ok {
		p.fail("the argument %s is missing", name)
	}
	return v
}

func (p *params) text(name, otherwise string) string {
	v, ok := p.get(name)
	if !ok {
		return otherwise
	}
	s, isText := v.(string)
	if !isText {
		p.fail("the argument %s must be a string, not %s", name, typeName(v))
	}
	return s
}

func (p *params) needText(name string) string {
	if v, ok := p.required(name).(string); ok {
		return v
	}
	p.fail("the argument %s must be a string", name)
	return ""
}

func (p *params) int(name string, otherwise int) int {
	v, ok := p.get(name)
	if !ok {
		return otherwise
	}
	n, _, isInt, _ := number(v)
	if !isInt {
		p.fail("the argument %s must be an integer, not %s", name, typeName(v))
	}
	return n
}

func (p *params) bool(name string, otherwise bool) bool {
	if v, ok := p.get(name); ok {
		return truth(v)
	}
	return otherwise
}

// done checks that every argument was read.
func (p *params) done() error {
	switch {
	case p.err != nil:
		return p.err
	case len(p.args) > p.at:
		return fmt.Errorf("takes at most %d arguments, not %d", p.at, len(p.args))
	case p.used < len(p.kwargs.keys):
		return fmt.Errorf("does not take all of the arguments %s", p.kwargs.names())
	}
	return nil
}
