package schema

import (
	"fmt"

	"github.com/quire/quire/grammar/automaton"
	"github.com/quire/quire/grammar/jsontext"
)

// maxSteps bounds the work of combining schemas.
const maxSteps = 200_000

type compiler struct {
	b     *automaton.Builder
	parts *jsontext.Parts
	doc   *document

	Options

	goals   []goalNode
	goalIDs map[string]goal
	steps   int

	implying bool // what is looked at may be more than what the schema needs: it is not looked at closely

	digit, fraction, unsigned, decimals, integers automaton.Expr

	shortest automaton.Expr          // the decimals without a zero at the end of a fraction: one for each value
	spelled  map[automaton.Expr]bool // numbers that may lack spellings of a value, but none in the shortest form

	formats map[string]automaton.Expr
	lengths map[automaton.Expr][2]int // texts of so many characters
}

// Options say which of the valid texts there are.
type Options struct {
	// AnyOrder lets the properties that a schema lists come in any order. Otherwise they come in the schema's.
	AnyOrder bool
	// Closed leaves out the members of objects, and the items behind those of a list, that a schema neither lists nor
	// says anything of.
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
	if dialect, is := tooOld(root); is {
		return 0, fmt.Errorf("JSON schema: $schema %q is not supported: write the schema in draft 4 or later", dialect)
	}
	c := &compiler{b: p.B, parts: p, Options: o, doc: newDocument(root), goalIDs: map[string]goal{},
		formats: map[string]automaton.Expr{}, lengths: map[automaton.Expr][2]int{}}
	c.spelled = map[automaton.Expr]bool{}
	c.goals = []goalNode{{kind: goalNever, void: 2}, {kind: goalAlways, void: 1}}
	c.numbers()
	e, err := c.expr(c.schema(root, "", "", nil))
	if err != nil {
		return 0, fmt.Errorf("JSON schema: %w", err)
	}
	return e, nil
}

// expr compiles a goal, to a rule: goals may be nested in themselves.
func (c *compiler) expr(g goal) (automaton.Expr, error) {
	switch {
	case g == never:
		return automaton.Fail, nil
	case g == always:
		return c.parts.Value(), nil
	}
	if e := c.goals[g].expr; e != automaton.Fail {
		return e, nil
	}
	f, err := c.formOf(g)
	if err != nil {
		return 0, err
	}
	if e, ok := c.scalar(f); ok {
		c.goals[g].expr = e
		return e, nil
	}
	rule := c.b.Rule(c.nameOf(g))
	c.goals[g].expr = rule
	e, err := c.formExpr(f)
	if err != nil {
		return 0, c.at(g, err)
	}
	c.b.Define(rule, e)
	return rule, nil
}

// nameOf is a goal's place in the schema.
func (c *compiler) nameOf(g goal) string {
	for n := &c.goals[g]; ; n = &c.goals[n.list[0]] {
		if n.kind == goalSchema {
			return "#" + n.of.path
		}
		if len(n.list) == 0 {
			return "#"
		}
	}
}

// refusal is an error that names its place.
type refusal struct {
	path string
	err  error
}

func (r *refusal) Error() string { return r.path + ": " + r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refuse is an error that names a keyword of a schema.
func (n *schemaNode) refuse(keyword string, err error) error {
	if r, ok := err.(*refusal); ok {
		return r
	}
	return &refusal{"#" + n.path, fmt.Errorf("%s: %w", keyword, err)}
}

// at names the place of an error that has none.
func (c *compiler) at(g goal, err error) error {
	if r, ok := err.(*refusal); ok {
		return r
	}
	return &refusal{c.nameOf(g), err}
}

// scalar compiles a form without arrays and objects.
func (c *compiler) scalar(f *form) (automaton.Expr, bool) {
	if len(f.arrays) > 0 || len(f.objects) > 0 {
		return 0, false
	}
	return c.scalars(f), true
}

// words are null, true and false as far as a form allows them.
func (c *compiler) words(f *form) (words []string) {
	for _, w := range []struct {
		is   bool
		text string
	}{{f.null, c.parts.Null}, {f.yes, c.parts.True}, {f.no, c.parts.False}} {
		if w.is {
			words = append(words, w.text)
		}
	}
	return words
}

func (c *compiler) scalars(f *form) automaton.Expr {
	list := []automaton.Expr{c.b.Choice(c.words(f)...), c.lexeme(f.number)}
	if f.text != automaton.Fail {
		list = append(list, c.parts.Quoted(f.text))
	}
	return c.b.Alt(list...)
}

func (c *compiler) formExpr(f *form) (automaton.Expr, error) {
	list := []automaton.Expr{c.scalars(f)}
	for _, a := range f.arrays {
		e, err := c.arrayExpr(a)
		if err != nil {
			return 0, err
		}
		list = append(list, e)
	}
	for _, o := range f.objects {
		e, err := c.objectExpr(o)
		if err != nil {
			return 0, err
		}
		list = append(list, e)
	}
	return c.b.Alt(list...), nil
}
