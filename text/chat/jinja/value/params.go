package value

import "fmt"

// Params are the arguments of a filter or method. Its methods read them in order. Done returns the first error.
type Params struct {
	Args   []any
	Kwargs *Dict
	index  int
	used   int
	err    error
}

// Get returns the next argument, by position or name, and whether it was given.
func (p *Params) Get(name string) (any, bool) {
	i := p.index
	p.index++
	if i < len(p.Args) {
		return p.Args[i], true
	}
	v, ok := p.Kwargs.Get(name)
	if ok {
		p.used++
	}
	return v, ok
}

func (p *Params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *Params) Any(name string, otherwise any) any {
	if v, ok := p.Get(name); ok {
		return v
	}
	return otherwise
}

func (p *Params) Required(name string) any {
	v, ok := p.Get(name)
	if !ok {
		p.fail("the argument %s is missing", name)
	}
	return v
}

func (p *Params) Text(name, otherwise string) string {
	v, ok := p.Get(name)
	if !ok {
		return otherwise
	}
	s, isText := v.(string)
	if !isText {
		p.fail("the argument %s must be a string, not %s", name, TypeName(v))
	}
	return s
}

func (p *Params) NeedText(name string) string {
	if v, ok := p.Required(name).(string); ok {
		return v
	}
	p.fail("the argument %s must be a string", name)
	return ""
}

func (p *Params) Int(name string, otherwise int) int {
	v, ok := p.Get(name)
	if !ok {
		return otherwise
	}
	n, _, isInt, _ := Number(v)
	if !isInt {
		p.fail("the argument %s must be an integer, not %s", name, TypeName(v))
	}
	return n
}

func (p *Params) Bool(name string, otherwise bool) bool {
	if v, ok := p.Get(name); ok {
		return Truth(v)
	}
	return otherwise
}

// Rest returns the positional arguments that are left.
func (p *Params) Rest() []any {
	from := min(p.index, len(p.Args))
	p.index = max(p.index, len(p.Args))
	return p.Args[from:]
}

// Done checks that every argument was read.
func (p *Params) Done() error {
	switch {
	case p.err != nil:
		return p.err
	case len(p.Args) > p.index:
		return fmt.Errorf("takes at most %d arguments, not %d", p.index, len(p.Args))
	case p.used < len(p.Kwargs.keys):
		return fmt.Errorf("does not take all of the arguments %s", p.Kwargs.Names())
	}
	return nil
}
