package schema

import (
	"errors"
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// errCircle is the error of a form that needs itself.
var errCircle = errors.New("it refers to itself without a value in between")

// maxSteps bounds the work of combining schemas.
const maxSteps = 200_000

// maxSpent bounds the memory that combining schemas takes.
const maxSpent = 64 << 20

// maxCases bounds the alternatives of arrays and objects, which allOf of anyOf multiplies.
const maxCases = 2000

// forms makes the form of each goal: it reads the schemas of a goal and combines their forms.
type forms struct {
	b       *automaton.Builder
	parts   *jsontext.Parts
	goals   *goals
	sets    *regularSets
	arrays  *arrays
	objects *objects
	read    func(*schemaNode) (*form, error) // the form of a schema

	known []knownForm // by goal
	steps int
}

type knownForm struct {
	form *form
	busy bool // the form is being made
	void voidness
}

// voidness is what is known of whether a goal allows a value.
type voidness int8

const (
	voidUnknown voidness = iota
	hasValue
	hasNone
	voidAsked // being found out
)

func newForms(p *jsontext.Parts, g *goals, sets *regularSets) *forms {
	c := &forms{b: p.B, parts: p, goals: g, sets: sets}
	c.arrays = &arrays{goals: g, empty: c.empty}
	c.objects = &objects{b: p.B, parts: p, goals: g, sets: sets, empty: c.empty}
	return c
}

// and is what both forms allow.
func (c *forms) and(f, g *form) (*form, error) {
	to := &form{null: f.null && g.null, yes: f.yes && g.yes, no: f.no && g.no,
		number: c.sets.intersect(f.number, g.number, c.parts.Number),
		text:   c.sets.intersect(f.text, g.text, c.parts.Free)}
	var xs, ys []*object // the objects that are not part of one of the others
	xs, to.objects = c.objects.apportion(f.objects, g.objects)
	ys, more := c.objects.apportion(g.objects, f.objects)
	to.objects = c.objects.join(to.objects, more)
	if len(f.arrays)*len(g.arrays) > maxCases || len(xs)*len(ys) > maxCases {
		return nil, fmt.Errorf("it has more than %d combinations of alternatives", maxCases)
	}
	for _, x := range f.arrays {
		for _, y := range g.arrays {
			if a := c.arrays.and(x, y); a != nil {
				to.arrays = append(to.arrays, a)
			}
		}
	}
	many := len(f.objects) > 1 && len(g.objects) > 1 // empty ones would multiply with further forms
	for _, x := range xs {
		for _, y := range ys {
			o, err := c.objects.and(x, y)
			if err != nil {
				return nil, err
			}
			if o == nil {
				continue
			}
			if many {
				if isEmpty, err := c.objects.isEmpty(o); err != nil {
					return nil, err
				} else if isEmpty {
					continue
				}
			}
			to.objects = append(to.objects, o)
		}
	}
	return to, nil
}

// or is what at least one of two forms allows.
func (c *forms) or(f, g *form) *form {
	return &form{null: f.null || g.null, yes: f.yes || g.yes, no: f.no || g.no,
		number:  c.sets.unite(f.number, g.number, c.parts.Number),
		text:    c.sets.unite(f.text, g.text, c.parts.Free),
		arrays:  joinArrays(f.arrays, g.arrays),
		objects: c.objects.join(f.objects, g.objects)}
}

// negate is what a form does not allow.
func (c *forms) negate(f *form) (*form, error) {
	to := &form{null: !f.null, yes: !f.yes, no: !f.no,
		number: c.sets.complement(f.number, c.parts.Number, c.sets.decimals.all),
		text:   c.sets.complement(f.text, c.parts.Free, c.parts.Plain)}
	rest := everything(c.parts)
	for _, a := range f.arrays {
		not, err := c.arrays.not(a)
		if err != nil {
			return nil, err
		}
		if rest, err = c.and(rest, onlyArrays(c.parts, not...)); err != nil {
			return nil, err
		}
	}
	for _, o := range f.objects {
		not, err := c.objects.not(o)
		if err != nil {
			return nil, err
		}
		if rest, err = c.and(rest, onlyObjects(c.parts, not...)); err != nil {
			return nil, err
		}
	}
	to.arrays, to.objects = rest.arrays, rest.objects
	return to, nil
}

// formOf returns the form of a goal.
func (c *forms) formOf(g goal) (*form, error) {
	if f := entry(&c.known, g); f.form != nil {
		return f.form, nil
	} else if f.busy {
		return nil, errCircle
	}
	if c.steps++; c.steps+c.objects.steps > maxSteps {
		return nil, fmt.Errorf("the schema has more than %d parts to combine", maxSteps)
	}
	if c.b.Spent() > maxSpent {
		return nil, fmt.Errorf("its combination with others needs more than %d MiB", maxSpent>>20)
	}
	entry(&c.known, g).busy = true
	f, err := c.make(g)
	entry(&c.known, g).busy = false
	entry(&c.known, g).form = f
	return f, err
}

func (c *forms) make(g goal) (*form, error) {
	n := c.goals.list[g]
	switch n.kind {
	case goalNever:
		return &form{}, nil
	case goalAlways:
		return everything(c.parts), nil
	case goalSchema:
		return c.read(n.node)
	case goalNot:
		f, err := c.formOf(n.operands[0])
		if err != nil {
			return nil, err
		}
		return c.negate(f)
	}
	f, err := c.formOf(n.operands[0])
	for _, g := range n.operands[1:] {
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

// empty reports whether a goal is known to allow no value: other goals may be empty, too.
func (c *forms) empty(g goal) (bool, error) {
	switch {
	case g == never:
		return true, nil
	case g == always:
		return false, nil
	}
	switch entry(&c.known, g).void {
	case hasValue, voidAsked:
		return false, nil
	case hasNone:
		return true, nil
	}
	entry(&c.known, g).void = voidAsked
	f, err := c.formOf(g)
	var isEmpty bool
	if err == nil {
		isEmpty, err = c.emptyForm(f)
	}
	if errors.Is(err, errCircle) { // a form that is being made asks: the answer is not known yet
		entry(&c.known, g).void = voidUnknown
		return false, nil
	}
	if err != nil {
		entry(&c.known, g).void = voidUnknown
		return false, err
	}
	entry(&c.known, g).void = hasValue
	if isEmpty {
		entry(&c.known, g).void = hasNone
	}
	return isEmpty, nil
}

func (c *forms) emptyForm(f *form) (bool, error) {
	if f.null || f.yes || f.no || f.number != automaton.Fail || f.text != automaton.Fail {
		return false, nil
	}
	for _, a := range f.arrays {
		if isEmpty, err := c.arrays.isEmpty(a); !isEmpty || err != nil {
			return false, err
		}
	}
	for _, o := range f.objects {
		if isEmpty, err := c.objects.isEmpty(o); !isEmpty || err != nil {
			return false, err
		}
	}
	return true, nil
}
