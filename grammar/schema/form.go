package schema

import (
	"errors"
	"fmt"

	"github.com/quire/quire/grammar/automaton"
)

// form is what a goal allows, type by type: each type is a union. Strings and numbers are regular expressions of their
// texts, so that unions, intersections and complements of them are exact.
type form struct {
	null, yes, no bool
	number        automaton.Expr // within decimals, or Parts.Number
	text          automaton.Expr // contents of strings within Plain, or Free
	arrays        []*array
	objects       []*object
}

// errCircle is what a form that needs itself ends with.
var errCircle = errors.New("it refers to itself without a value in between")

// maxSpent bounds the memory that combining schemas takes.
const maxSpent = 64 << 20

// maxCases bounds the alternatives of arrays and objects that allOf of anyOf makes.
const maxCases = 2000

func (c *compiler) everything() *form {
	return &form{true, true, true, c.parts.Number, c.parts.Free, []*array{anyArray()}, []*object{c.anyObject()}}
}

// isolated is a form that allows everything but of the types that others are set for.
func (c *compiler) otherThanArrays(a ...*array) *form {
	f := c.everything()
	f.arrays = a
	return f
}

func (c *compiler) otherThanObjects(o ...*object) *form {
	f := c.everything()
	f.objects = o
	return f
}

// andRegular intersects regular expressions; whole is the one that has all.
func (c *compiler) andRegular(x, y, whole automaton.Expr) automaton.Expr {
	switch {
	case x == whole:
		return y
	case y == whole:
		return x
	}
	lx, isLength := c.lengths[x]
	if ly, both := c.lengths[y]; isLength && both {
		lo, hi := max(lx[0], ly[0]), lower(lx[1], ly[1])
		if hi != automaton.Unlimited && hi < lo {
			return automaton.Fail
		}
		return c.ofLength(lo, hi)
	}
	e := c.b.And(x, y)
	if c.b.EmptyRegular(e) {
		return automaton.Fail
	}
	c.spelled[e] = c.spelled[x] || c.spelled[y]
	return e
}

func (c *compiler) orRegular(x, y, whole automaton.Expr) automaton.Expr {
	if x == whole || y == whole {
		return whole
	}
	e := c.b.Alt(x, y)
	c.spelled[e] = c.spelled[x] || c.spelled[y]
	return e
}

// notRegular is what of domain an expression does not have.
func (c *compiler) notRegular(x, whole, domain automaton.Expr) automaton.Expr {
	switch x {
	case whole:
		return automaton.Fail
	case automaton.Fail:
		return whole
	}
	if l, ok := c.lengths[x]; ok { // a walk to what is longer than a bound may be long
		shorter, longer := automaton.Fail, automaton.Fail
		if l[0] > 0 {
			shorter = c.ofLength(0, l[0]-1)
		}
		if l[1] != automaton.Unlimited {
			longer = c.ofLength(l[1]+1, automaton.Unlimited)
		}
		return c.b.Alt(shorter, longer)
	}
	not := c.b.Not(x)
	if c.spelled[x] { // it lacks spellings of what it has
		domain, c.spelled[not] = c.shortest, true
	}
	return c.andRegular(domain, not, whole)
}

// and is what both forms allow.
func (c *compiler) and(f, g *form) (*form, error) {
	to := &form{null: f.null && g.null, yes: f.yes && g.yes, no: f.no && g.no,
		number: c.andRegular(f.number, g.number, c.parts.Number),
		text:   c.andRegular(f.text, g.text, c.parts.Free)}
	var xs, ys []*object // those that are not wholly in one of the others
	xs, to.objects = c.apportion(f.objects, g.objects)
	ys, more := c.apportion(g.objects, f.objects)
	to.objects = c.joinObjects(to.objects, more)
	if len(f.arrays)*len(g.arrays) > maxCases || len(xs)*len(ys) > maxCases {
		return nil, fmt.Errorf("it has more than %d combinations of alternatives", maxCases)
	}
	for _, x := range f.arrays {
		for _, y := range g.arrays {
			if a := c.andArray(x, y); a != nil {
				to.arrays = append(to.arrays, a)
			}
		}
	}
	many := len(f.objects) > 1 && len(g.objects) > 1 // what is empty would multiply with what comes
	for _, x := range xs {
		for _, y := range ys {
			o, err := c.andObject(x, y)
			if err != nil {
				return nil, err
			}
			if o == nil {
				continue
			}
			if many {
				if is, err := c.emptyObject(o); err != nil {
					return nil, err
				} else if is {
					continue
				}
			}
			to.objects = append(to.objects, o)
		}
	}
	return to, nil
}

// or is what one of two forms allows.
func (c *compiler) or(f, g *form) *form {
	return &form{null: f.null || g.null, yes: f.yes || g.yes, no: f.no || g.no,
		number:  c.orRegular(f.number, g.number, c.parts.Number),
		text:    c.orRegular(f.text, g.text, c.parts.Free),
		arrays:  joinArrays(f.arrays, g.arrays),
		objects: c.joinObjects(f.objects, g.objects)}
}

// negate is what a form does not allow.
func (c *compiler) negate(f *form) (*form, error) {
	to := &form{null: !f.null, yes: !f.yes, no: !f.no,
		number: c.notRegular(f.number, c.parts.Number, c.decimals),
		text:   c.notRegular(f.text, c.parts.Free, c.parts.Plain)}
	rest := c.everything()
	for _, a := range f.arrays {
		not, err := c.notArray(a)
		if err != nil {
			return nil, err
		}
		if rest, err = c.and(rest, c.otherThanArrays(not...)); err != nil {
			return nil, err
		}
	}
	for _, o := range f.objects {
		not, err := c.notObject(o)
		if err != nil {
			return nil, err
		}
		if rest, err = c.and(rest, c.otherThanObjects(not...)); err != nil {
			return nil, err
		}
	}
	to.arrays, to.objects = rest.arrays, rest.objects
	return to, nil
}

// formOf makes the form of a goal.
func (c *compiler) formOf(g goal) (*form, error) {
	if f := c.goals[g].form; f != nil {
		return f, nil
	}
	if c.goals[g].busy {
		return nil, errCircle
	}
	if c.steps++; c.steps > maxSteps {
		return nil, fmt.Errorf("the schema has more than %d parts to combine", maxSteps)
	}
	if c.b.Spent() > maxSpent {
		return nil, fmt.Errorf("its combination with others needs more than %d MiB", maxSpent>>20)
	}
	c.goals[g].busy = true
	f, err := c.makeForm(g)
	c.goals[g].busy = false
	c.goals[g].form = f
	return f, err
}

func (c *compiler) makeForm(g goal) (*form, error) {
	n := c.goals[g]
	switch n.kind {
	case goalNever:
		return &form{}, nil
	case goalAlways:
		return c.everything(), nil
	case goalSchema:
		return c.schemaForm(n.of)
	case goalNot:
		f, err := c.formOf(n.list[0])
		if err != nil {
			return nil, err
		}
		return c.negate(f)
	}
	f, err := c.formOf(n.list[0])
	for _, g := range n.list[1:] {
		if err != nil {
			return nil, err
		}
		var other *form
		if other, err = c.formOf(g); err != nil {
			return nil, err
		}
		if n.kind == goalOr {
			f = c.or(f, other)
		} else {
			f, err = c.and(f, other)
		}
	}
	return f, err
}

// empty says that a goal allows no value, as far as that shows: what it does not call empty may still be.
func (c *compiler) empty(g goal) (bool, error) {
	switch c.goals[g].void {
	case 1, 3:
		return false, nil
	case 2:
		return true, nil
	}
	c.goals[g].void = 3
	f, err := c.formOf(g)
	var is bool
	if err == nil {
		is, err = c.emptyForm(f)
	}
	if errors.Is(err, errCircle) { // one that is being made asks: it can't be known yet
		c.goals[g].void = 0
		return false, nil
	}
	if err != nil {
		c.goals[g].void = 0
		return false, err
	}
	c.goals[g].void = 1
	if is {
		c.goals[g].void = 2
	}
	return is, nil
}

func (c *compiler) emptyForm(f *form) (bool, error) {
	if f.null || f.yes || f.no || f.number != automaton.Fail || f.text != automaton.Fail {
		return false, nil
	}
	for _, a := range f.arrays {
		if is, err := c.emptyArray(a); !is || err != nil {
			return false, err
		}
	}
	for _, o := range f.objects {
		if is, err := c.emptyObject(o); !is || err != nil {
			return false, err
		}
	}
	return true, nil
}
