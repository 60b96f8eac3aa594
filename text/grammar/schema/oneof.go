package schema

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// exclusive reads oneOf.
type exclusive struct {
	parts   *jsontext.Parts
	goals   *goals
	forms   *forms
	sets    *regularSets
	keyword func(use) (*form, error) // the form of another keyword of the schema
}

// read returns what exactly one schema of oneOf allows.
func (c *exclusive) read(u use) (*form, error) {
	goals, err := c.goals.schemas(u.node, u.keyword, u.value)
	if err != nil {
		return nil, err
	}
	base, err := c.plainObjects(u.node)
	if err != nil {
		return nil, err
	}
	forms := make([]*form, len(goals))
	numbers, texts := make([]automaton.Expr, len(goals)), make([]automaton.Expr, len(goals))
	for i, g := range goals {
		if forms[i], err = c.forms.formOf(g); err != nil {
			return nil, err
		}
		numbers[i], texts[i] = forms[i].number, forms[i].text
	}
	count := func(accepts func(*form) bool) bool {
		n := 0
		for _, f := range forms {
			if accepts(f) {
				n++
			}
		}
		return n == 1
	}
	one := &form{
		null:   count(func(f *form) bool { return f.null }),
		yes:    count(func(f *form) bool { return f.yes }),
		no:     count(func(f *form) bool { return f.no }),
		number: c.sets.exactlyOne(numbers, c.parts.Number, c.sets.decimals.all),
		text:   c.sets.exactlyOne(texts, c.parts.Free, c.parts.Plain),
	}
	for i := range forms {
		arrays, err := c.ownArrays(forms, i)
		if err != nil {
			return nil, err
		}
		objects, err := c.ownObjects(forms, i, base)
		if err != nil {
			return nil, err
		}
		one.arrays, one.objects = joinArrays(one.arrays, arrays), c.forms.objects.join(one.objects, objects)
	}
	return one, nil
}

// plainObjects returns the objects that a schema allows by its keywords without alternatives. Alternatives of oneOf
// that have none of these objects can be dropped early.
func (c *exclusive) plainObjects(n *schemaNode) ([]*object, error) {
	f := everything(c.parts)
	for i, name := range n.v.names {
		switch name {
		case "type", "required", "properties", "minProperties", "maxProperties":
			g, err := c.keyword(use{n, name, n.v.list[i]})
			if err != nil || g == nil {
				return f.objects, err
			}
			if f, err = c.forms.and(f, g); err != nil {
				return nil, err
			}
		}
	}
	return f.objects, nil
}

// overlapping returns the sets of a list that have objects of base.
func (c *exclusive) overlapping(list, base []*object) (kept []*object, err error) {
	for _, x := range list {
		apart, err := c.disjoint(base, x)
		if err != nil {
			return nil, err
		}
		if !apart {
			kept = append(kept, x)
		}
	}
	return kept, nil
}

// ownObjects returns the objects of base that form i allows and no other form.
func (c *exclusive) ownObjects(forms []*form, i int, base []*object) ([]*object, error) {
	objects := forms[i].objects
	for j, other := range forms {
		if j == i {
			continue
		}
		for _, y := range other.objects {
			both, err := c.forms.and(onlyObjects(c.parts, y), onlyObjects(c.parts, base...))
			if err != nil {
				return nil, err
			}
			apart := true
			for _, z := range both.objects {
				isDisjoint, err := c.disjoint(objects, z)
				if err != nil {
					return nil, err
				}
				apart = apart && isDisjoint
			}
			if apart {
				continue
			}
			not, err := c.forms.objects.not(y)
			if err != nil {
				return nil, fmt.Errorf("schemas %d and %d may hold at once: %w", min(i, j), max(i, j), err)
			}
			f, err := c.forms.and(onlyObjects(c.parts, objects...), onlyObjects(c.parts, not...))
			if err != nil {
				return nil, err
			}
			if objects, err = c.overlapping(f.objects, base); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

// disjoint reports whether no object of y is known to be in a set of a list.
func (c *exclusive) disjoint(list []*object, y *object) (bool, error) {
	for _, x := range list {
		if apart, err := c.forms.objects.disjoint(x, y); !apart || err != nil {
			return false, err
		}
	}
	return true, nil
}

// ownArrays returns the arrays that form i allows and no other form.
func (c *exclusive) ownArrays(forms []*form, i int) ([]*array, error) {
	f := onlyArrays(c.parts, forms[i].arrays...)
	for j, other := range forms {
		if j == i {
			continue
		}
		for _, y := range other.arrays {
			apart := true
			for _, x := range f.arrays {
				both := c.forms.arrays.and(x, y)
				if both == nil {
					continue
				}
				isEmpty, err := c.forms.arrays.isEmpty(both)
				if err != nil {
					return nil, err
				}
				apart = apart && isEmpty
			}
			if apart {
				continue
			}
			not, err := c.forms.arrays.not(y)
			if err != nil {
				return nil, fmt.Errorf("schemas %d and %d may hold at once: %w", min(i, j), max(i, j), err)
			}
			if f, err = c.forms.and(f, onlyArrays(c.parts, not...)); err != nil {
				return nil, err
			}
		}
	}
	return f.arrays, nil
}
