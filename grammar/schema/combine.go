package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/grammar/automaton"
)

func (c *compiler) allOfForm(n *schemaNode, name string, v *value) (*form, error) {
	goals, err := c.list(n, name, v)
	if err != nil {
		return nil, err
	}
	return c.formOf(c.all(goals...))
}

func (c *compiler) anyOfForm(n *schemaNode, name string, v *value) (*form, error) {
	goals, err := c.list(n, name, v)
	if err != nil {
		return nil, err
	}
	return c.formOf(c.any(goals...))
}

func (c *compiler) notForm(n *schemaNode, name string, v *value) (*form, error) {
	return c.formOf(c.not(c.sub(n, v, name)))
}

// ifForm is "if" with "then" and "else": a value is of if and then, or not of if, and of else.
func (c *compiler) ifForm(n *schemaNode, name string, v *value) (*form, error) {
	branch := func(keyword string) goal {
		if sub := n.v.get(keyword); sub != nil {
			return c.sub(n, sub, keyword)
		}
		return always
	}
	condition, then, otherwise := c.sub(n, v, name), branch("then"), branch("else")
	if then == always && otherwise == always {
		return nil, nil
	}
	yes := c.all(condition, then)
	if then == always {
		yes = condition
	}
	return c.formOf(c.any(yes, c.all(c.not(condition), otherwise)))
}

// oneOfForm is what exactly one schema allows.
func (c *compiler) oneOfForm(n *schemaNode, name string, v *value) (*form, error) {
	goals, err := c.list(n, name, v)
	if err != nil {
		return nil, err
	}
	base, err := c.plainObjects(n)
	if err != nil {
		return nil, err
	}
	forms := make([]*form, len(goals))
	for i, g := range goals {
		if forms[i], err = c.formOf(g); err != nil {
			return nil, err
		}
	}
	count := func(is func(*form) bool) bool {
		n := 0
		for _, f := range forms {
			if is(f) {
				n++
			}
		}
		return n == 1
	}
	one := &form{
		null:   count(func(f *form) bool { return f.null }),
		yes:    count(func(f *form) bool { return f.yes }),
		no:     count(func(f *form) bool { return f.no }),
		number: c.oneRegular(forms, func(f *form) automaton.Expr { return f.number }, c.parts.Number, c.decimals),
		text:   c.oneRegular(forms, func(f *form) automaton.Expr { return f.text }, c.parts.Free, c.parts.Plain),
	}
	for i := range forms {
		arrays, err := c.onlyArrays(forms, i)
		if err != nil {
			return nil, err
		}
		objects, err := c.onlyObjects(forms, i, base)
		if err != nil {
			return nil, err
		}
		one.arrays, one.objects = joinArrays(one.arrays, arrays), c.joinObjects(one.objects, objects)
	}
	return one, nil
}

// oneRegular is what exactly one of the forms' expressions has.
func (c *compiler) oneRegular(
	forms []*form, of func(*form) automaton.Expr, whole, domain automaton.Expr,
) automaton.Expr {
	once, twice := automaton.Fail, automaton.Fail
	for _, f := range forms {
		e := of(f)
		twice = c.orRegular(twice, c.andRegular(once, e, whole), whole)
		once = c.orRegular(once, e, whole)
	}
	if twice == automaton.Fail {
		return once
	}
	return c.andRegular(once, c.notRegular(twice, whole, domain), whole)
}

// plainObjects is the objects that the keywords of a schema allow which have no alternatives: with them it shows sooner
// that others hold for none.
func (c *compiler) plainObjects(n *schemaNode) ([]*object, error) {
	f := c.everything()
	for i, name := range n.v.names {
		switch name {
		case "type", "required", "properties", "minProperties", "maxProperties":
			g, err := keywords[name](c, n, name, n.v.list[i])
			if err != nil || g == nil {
				return f.objects, err
			}
			if f, err = c.and(f, g); err != nil {
				return nil, err
			}
		}
	}
	return f.objects, nil
}

// beside is the sets of a list that have objects of base.
func (c *compiler) beside(list, base []*object) (kept []*object, err error) {
	for _, x := range list {
		apart, err := c.apartFrom(base, x)
		if err != nil {
			return nil, err
		}
		if !apart {
			kept = append(kept, x)
		}
	}
	return kept, nil
}

// onlyObjects is the objects that form i allows and no other, as far as they are of base.
func (c *compiler) onlyObjects(forms []*form, i int, base []*object) ([]*object, error) {
	objects := forms[i].objects
	for j, other := range forms {
		if j == i {
			continue
		}
		for _, y := range other.objects {
			both, err := c.and(c.otherThanObjects(y), c.otherThanObjects(base...))
			if err != nil {
				return nil, err
			}
			apart := true
			for _, z := range both.objects {
				is, err := c.apartFrom(objects, z)
				if err != nil {
					return nil, err
				}
				apart = apart && is
			}
			if apart {
				continue
			}
			not, err := c.notObject(y)
			if err != nil {
				return nil, fmt.Errorf("schemas %d and %d may hold at once: %w", min(i, j), max(i, j), err)
			}
			f, err := c.and(c.otherThanObjects(objects...), c.otherThanObjects(not...))
			if err != nil {
				return nil, err
			}
			if objects, err = c.beside(f.objects, base); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

func (c *compiler) apartFrom(list []*object, y *object) (bool, error) {
	for _, x := range list {
		if apart, err := c.apartObjects(x, y); !apart || err != nil {
			return false, err
		}
	}
	return true, nil
}

// onlyArrays is the arrays that form i allows and no other.
func (c *compiler) onlyArrays(forms []*form, i int) ([]*array, error) {
	f := c.otherThanArrays(forms[i].arrays...)
	for j, other := range forms {
		if j == i {
			continue
		}
		for _, y := range other.arrays {
			apart := true
			for _, x := range f.arrays {
				both := c.andArray(x, y)
				if both == nil {
					continue
				}
				is, err := c.emptyArray(both)
				if err != nil {
					return nil, err
				}
				apart = apart && is
			}
			if apart {
				continue
			}
			not, err := c.notArray(y)
			if err != nil {
				return nil, fmt.Errorf("schemas %d and %d may hold at once: %w", min(i, j), max(i, j), err)
			}
			if f, err = c.and(f, c.otherThanArrays(not...)); err != nil {
				return nil, err
			}
		}
	}
	return f.arrays, nil
}

// dependenciesForm is dependentRequired, dependentSchemas, and dependencies, which is either: where a member is there,
// others are or a schema holds.
func (c *compiler) dependenciesForm(n *schemaNode, keyword string, v *value) (*form, error) {
	if v.kind != objectValue {
		return nil, fmt.Errorf("it is not an object")
	}
	f := c.everything()
	for i, name := range v.names {
		absent := c.anyObject()
		absent.props = []property{{name, never}}
		there := c.anyObject()
		there.required = []string{name}
		to := v.list[i]
		var held *form
		switch {
		case to.kind == arrayValue && keyword != "dependentSchemas", to.kind == stringValue && c.doc.old:
			if to.kind == stringValue {
				to = &value{kind: arrayValue, list: []*value{to}}
			}
			for _, other := range to.list {
				if !slices.Contains(there.required, other.text) {
					there.required = append(there.required, other.text)
				}
			}
			held = c.otherThanObjects(there)
		default:
			sub, err := c.formOf(c.sub(n, to, keyword, name))
			if err != nil {
				return nil, err
			}
			// Of what is no object the schema says nothing.
			if held, err = c.and(c.otherThanObjects(there), c.otherThanObjects(sub.objects...)); err != nil {
				return nil, err
			}
		}
		g := c.otherThanObjects(append([]*object{absent}, held.objects...)...)
		var err error
		if f, err = c.and(f, g); err != nil {
			return nil, err
		}
	}
	return f, nil
}
