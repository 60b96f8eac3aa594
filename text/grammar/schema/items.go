package schema

import (
	"fmt"
	"strconv"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// arrayReader reads the keywords of arrays.
type arrayReader struct {
	parts  *jsontext.Parts
	goals  *goals
	closed bool
}

// items reads items, prefixItems and additionalItems of one schema. If items is a list it means what prefixItems means
// in later drafts, and additionalItems what items means.
func (c *arrayReader) items(u use) (*form, error) {
	a := anyArray()
	items, rest := u.node.v.get("prefixItems"), u.node.v.get("items")
	first, after := "prefixItems", "items"
	if c.goals.doc.old {
		items = nil
	}
	if rest != nil && rest.kind == arrayValue {
		items, rest = rest, u.node.v.get("additionalItems")
		first, after = "items", "additionalItems"
	}
	if items != nil {
		list, err := c.goals.schemas(u.node, first, items)
		if err != nil {
			return nil, u.node.refuse(first, err)
		}
		a.first = list
	}
	if rest != nil {
		a.rest, a.open = c.goals.sub(u.node, rest, after), c.closed
	}
	a.lists = c.closed && items != nil
	return onlyArrays(c.parts, a), nil
}

func (c *arrayReader) unique(u use) (*form, error) {
	if u.value.kind != boolValue {
		return nil, fmt.Errorf("it is neither true nor false")
	}
	a := anyArray()
	a.distinct = u.value.yes
	return onlyArrays(c.parts, a), nil
}

// contains reads contains, minContains and maxContains of one schema.
func (c *arrayReader) contains(u use) (*form, error) {
	s := someItems{goal: c.goals.sub(u.node, u.value, u.keyword), min: 1, max: automaton.Unlimited}
	for i, to := range []*int{&s.min, &s.max} {
		keyword := []string{"minContains", "maxContains"}[i]
		if v := u.node.v.get(keyword); v != nil && !c.goals.doc.old {
			n, err := count(v)
			if err != nil {
				return nil, u.node.refuse(keyword, err)
			}
			*to = n
		}
	}
	if s.min == 0 && s.max == automaton.Unlimited {
		return nil, nil
	}
	a := anyArray()
	a.some = []someItems{s}
	return onlyArrays(c.parts, a), nil
}

// bounds reads minItems or maxItems.
func (c *arrayReader) bounds(u use) (*form, error) {
	n, err := count(u.value)
	if err != nil {
		return nil, err
	}
	a := anyArray()
	if u.keyword == "minItems" {
		a.min = n
	} else {
		a.max = n
	}
	return onlyArrays(c.parts, a), nil
}

// count reads a number of items, characters or properties.
func count(v *value) (int, error) {
	d, err := parseDecimal(v.text)
	if v.kind != numberValue || err != nil || d.negative || d.fraction != "" {
		return 0, fmt.Errorf("it is not a number of 0 or more")
	}
	n, err := strconv.Atoi(d.whole)
	if err != nil || n > 1<<30 {
		return 1 << 30, nil
	}
	return n, nil
}
