package schema

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// Options select among the valid texts.
type Options struct {
	// AnyOrder allows the properties that a schema lists in any order. Otherwise they come in the schema's order.
	AnyOrder bool
	// Closed forbids the members of objects, and the items after a list of items, that a schema neither lists nor
	// mentions.
	Closed bool
}

// Compile makes the expression of the JSON texts that are valid by a schema.
func Compile(p *jsontext.Parts, text []byte, o Options) (automaton.Expr, error) {
	root, err := parseValue(text)
	if err != nil {
		return 0, fmt.Errorf("the JSON schema is not JSON: %w", err)
	}
	if root.kind != objectValue && root.kind != boolValue {
		return 0, fmt.Errorf("the JSON schema is neither an object nor true or false")
	}
	if dialect, isOld := tooOld(root); isOld {
		return 0, fmt.Errorf("JSON schema: $schema %q is not supported: write the schema in draft 4 or later", dialect)
	}
	c := newCompiler(p, newDocument(root), o)
	e, err := c.expr(c.goals.schema(root, "", "", nil))
	if err != nil {
		return 0, fmt.Errorf("JSON schema: %w", err)
	}
	return e, nil
}

// compiler makes the expressions of goals. It works in three steps, each of which calls the previous one: a reader
// turns the keywords of a schema into a form, forms combines forms as the goal does, and the compiler turns the form of
// the goal into an expression.
type compiler struct {
	b       *automaton.Builder
	parts   *jsontext.Parts
	goals   *goals
	forms   *forms
	numbers *numbers
	arrays  arrayCompiler
	objects objectCompiler
	exprs   []automaton.Expr // by goal, Fail if there is none yet
}

func newCompiler(p *jsontext.Parts, doc *document, o Options) *compiler {
	decimals := newDecimals(p.B)
	sets := newRegularSets(p.B, decimals, p.PlainChar)
	g := newGoals(doc)
	n := &numbers{b: p.B, decimals: decimals, sets: sets, whole: p.Number, before: doc.whole, after: doc.fraction}
	f := newForms(p, g, sets)
	f.read = newReader(f, n, o.Closed).schema
	c := &compiler{b: p.B, parts: p, goals: g, forms: f, numbers: n}
	c.arrays = arrayCompiler{b: p.B, parts: p, goals: g, forms: f, sets: sets, numbers: n, expr: c.expr}
	c.objects = objectCompiler{b: p.B, parts: p, goals: g, objects: f.objects, sets: sets, anyOrder: o.AnyOrder,
		empty: f.empty, expr: c.expr}
	return c
}

// expr returns the expression of a goal. It is a rule, since goals may contain themselves.
func (c *compiler) expr(g goal) (automaton.Expr, error) {
	switch {
	case g == never:
		return automaton.Fail, nil
	case g == always:
		return c.parts.Value(), nil
	}
	if e := *entry(&c.exprs, g); e != automaton.Fail {
		return e, nil
	}
	f, err := c.forms.formOf(g)
	if err != nil {
		return 0, err
	}
	if len(f.arrays) == 0 && len(f.objects) == 0 {
		e := c.scalars(f)
		*entry(&c.exprs, g) = e
		return e, nil
	}
	rule := c.b.Rule(c.goals.place(g))
	*entry(&c.exprs, g) = rule
	e, err := c.alternatives(f)
	if err != nil {
		return 0, c.goals.refuse(g, err)
	}
	c.b.Define(rule, e)
	return rule, nil
}

func (c *compiler) scalars(f *form) automaton.Expr {
	list := []automaton.Expr{c.b.Choice(f.words(c.parts)...), c.numbers.lexeme(f.number)}
	if f.text != automaton.Fail {
		list = append(list, c.parts.Quoted(f.text))
	}
	return c.b.Alt(list...)
}

func (c *compiler) alternatives(f *form) (automaton.Expr, error) {
	list := []automaton.Expr{c.scalars(f)}
	for _, a := range f.arrays {
		e, err := c.arrays.compile(a)
		if err != nil {
			return 0, err
		}
		list = append(list, e)
	}
	for _, o := range f.objects {
		e, err := c.objects.compile(o)
		if err != nil {
			return 0, err
		}
		list = append(list, e)
	}
	return c.b.Alt(list...), nil
}
