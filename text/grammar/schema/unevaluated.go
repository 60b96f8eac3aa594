package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/regex"
)

// mostWays bounds the ways in which a schema may evaluate members or items.
const mostWays = 64

// evaluation reads the keywords for what other keywords have not evaluated.
type evaluation struct {
	b      *automaton.Builder
	parts  *jsontext.Parts
	goals  *goals
	forms  *forms
	sets   *regularSets
	closed bool
	busy   map[*schemaNode]bool // schemas whose ways are being found
}

// way is a condition under which a schema evaluates some members or items of a valid value. If several ways apply, the
// members or items of all of them are evaluated.
type way struct {
	when  goal
	names automaton.Expr // of members: contents of strings
	first int            // the number of evaluated items, Unlimited for all
	some  []goal         // the goals of items after them that are evaluated, too
}

func (w *way) nothing() bool { return w.names == automaton.Fail && w.first == 0 && len(w.some) == 0 }

func (w *way) same(v way) bool {
	return w.names == v.names && w.first == v.first && slices.Equal(w.some, v.some)
}

// read reads unevaluatedProperties or unevaluatedItems: a schema for what neither the other keywords of its schema nor
// the schemas that they apply to the same value have evaluated.
func (c *evaluation) read(u use) (*form, error) {
	rest := c.goals.sub(u.node, u.value, u.keyword)
	if c.goals.doc.old || rest == always && !c.closed {
		return nil, nil
	}
	if rest == always {
		return c.restricted(u.keyword, way{when: always, names: automaton.Fail}, rest), nil
	}
	ways, err := c.waysOf(u.node, u.keyword, false)
	if err != nil {
		return nil, err
	}
	f := &form{}
	for _, w := range ways {
		when, err := c.forms.formOf(w.when)
		if err != nil {
			return nil, err
		}
		held, err := c.forms.and(when, c.restricted(u.keyword, w, rest))
		if err != nil {
			return nil, err
		}
		f = c.forms.or(f, held)
	}
	return f, nil
}

// restricted is the values whose members or items that a way does not evaluate have a goal.
func (c *evaluation) restricted(keyword string, w way, rest goal) *form {
	if keyword == "unevaluatedItems" {
		a := anyArray()
		a.open = c.closed
		if w.first != automaton.Unlimited {
			for range w.first {
				a.first = append(a.first, always)
			}
			a.rest = c.goals.any(append([]goal{rest}, w.some...)...)
		}
		return onlyArrays(c.parts, a)
	}
	o := anyObject(c.parts)
	o.regions = nil
	others := c.sets.complement(w.names, c.parts.Free, c.parts.Plain)
	for _, r := range []region{{names: w.names, goal: always}, {others, rest, c.closed}} {
		if r.names != automaton.Fail {
			o.regions = append(o.regions, r)
		}
	}
	return onlyObjects(c.parts, o)
}

// waysOf returns the ways of the keywords of a schema that applies. At least one of them always applies. The keyword
// that asks is included only if itself is set.
func (c *evaluation) waysOf(n *schemaNode, keyword string, itself bool) ([]way, error) {
	if c.busy[n] {
		return nil, errCircle
	}
	if c.busy == nil {
		c.busy = map[*schemaNode]bool{}
	}
	c.busy[n] = true
	defer delete(c.busy, n)
	own := c.ownWay(n, keyword, itself)
	if own.names == c.parts.Free || own.first == automaton.Unlimited {
		return []way{own}, nil
	}
	if err := c.patterned(n, keyword, &own); err != nil {
		return nil, err
	}
	ways := []way{own}
	for i, name := range n.v.names {
		choices, err := c.applied(n, keyword, name, n.v.list[i])
		if err != nil {
			return nil, err
		}
		for _, choice := range choices {
			if ways, err = c.together(ways, choice); err != nil {
				return nil, err
			}
		}
	}
	return ways, nil
}

// ownWay is what the keywords of a schema evaluate by themselves.
func (c *evaluation) ownWay(n *schemaNode, keyword string, itself bool) way {
	w := way{when: always, names: automaton.Fail}
	switch {
	case keyword == "unevaluatedProperties" && (n.v.has("additionalProperties") || itself && n.v.has(keyword)):
		w.names = c.parts.Free
	case keyword == "unevaluatedProperties":
		if props := n.v.get("properties"); props != nil {
			var names []string
			for _, name := range props.names {
				names = append(names, c.parts.Spelled(name))
			}
			w.names = c.b.Choice(names...)
		}
	case itself && n.v.has(keyword):
		w.first = automaton.Unlimited
	default:
		w.first, w.some = c.evaluatedItems(n)
	}
	return w
}

// evaluatedItems returns what the keywords for items evaluate. Before draft 2020-12 items may be a list, and contains
// does not evaluate.
func (c *evaluation) evaluatedItems(n *schemaNode) (first int, some []goal) {
	if items := n.v.get("items"); items != nil {
		if items.kind != arrayValue || n.v.has("additionalItems") {
			return automaton.Unlimited, nil
		}
		first = len(items.list)
	}
	if items := n.v.get("prefixItems"); items != nil {
		first = len(items.list)
	}
	if contains := n.v.get("contains"); contains != nil && !c.goals.doc.draft2019 {
		some = []goal{c.goals.sub(n, contains, "contains")}
	}
	return first, some
}

// patterned adds the names that patternProperties evaluates.
func (c *evaluation) patterned(n *schemaNode, keyword string, w *way) error {
	patterns := n.v.get("patternProperties")
	if patterns == nil || keyword != "unevaluatedProperties" {
		return nil
	}
	for _, pattern := range patterns.names {
		names, err := regex.Search(c.b, pattern, c.parts.Characters, c.parts.Plain)
		if err != nil {
			return fmt.Errorf("patternProperties: %w", err)
		}
		w.names = c.sets.unite(w.names, names, c.parts.Free)
	}
	return nil
}

// applied returns what a keyword evaluates that applies other schemas to the same value. At least one way of each list
// applies.
func (c *evaluation) applied(n *schemaNode, keyword, name string, v *value) (choices [][]way, err error) {
	may := func(g goal, when ...goal) []way { // or nothing
		ways, e := c.waysOfGoal(g, keyword)
		if e != nil {
			err = e
		}
		for i := range ways {
			ways[i].when = c.goals.all(append(when, ways[i].when)...)
		}
		return append(ways, way{when: always, names: automaton.Fail})
	}
	must := func(g goal) []way { ways := may(g); return ways[:len(ways)-1] }
	switch name {
	case "$ref", "$dynamicRef":
		g, err := c.goals.referred(n, name, v)
		if err != nil {
			return nil, err
		}
		choices = append(choices, must(g))
	case "allOf":
		for i, sub := range v.list {
			choices = append(choices, must(c.goals.sub(n, sub, name, fmt.Sprint(i))))
		}
	case "anyOf":
		for i, sub := range v.list {
			g := c.goals.sub(n, sub, name, fmt.Sprint(i))
			choices = append(choices, may(g, g))
		}
	case "oneOf":
		var one []way
		for i, sub := range v.list {
			g := c.goals.sub(n, sub, name, fmt.Sprint(i))
			ways := may(g, g)
			one = append(one, ways[:len(ways)-1]...)
		}
		choices = append(choices, one)
	case "if":
		g := c.goals.sub(n, v, name)
		holds, err := c.together([]way{{when: g, names: automaton.Fail}}, must(g))
		if then := n.v.get("then"); then != nil && err == nil {
			holds, err = c.together(holds, must(c.goals.sub(n, then, "then")))
		}
		if err != nil {
			return nil, err
		}
		otherwise := []way{{when: always, names: automaton.Fail}}
		if sub := n.v.get("else"); sub != nil {
			otherwise = may(c.goals.sub(n, sub, "else"), c.goals.not(g))
		}
		choices = append(choices, append(holds, otherwise...))
	case "dependentSchemas", "dependencies":
		for i, member := range v.names {
			if v.list[i].kind != arrayValue {
				choices = append(choices, may(c.goals.sub(n, v.list[i], name, member), c.goals.withMember(member)))
			}
		}
	}
	for _, ways := range choices {
		for i := range ways {
			if ways[i].nothing() { // which needs no condition
				ways[i].when = always
			}
		}
	}
	return choices, err
}

// waysOfGoal returns the ways of a schema that applies.
func (c *evaluation) waysOfGoal(g goal, keyword string) ([]way, error) {
	if c.goals.list[g].kind != goalSchema {
		return []way{{when: always, names: automaton.Fail}}, nil
	}
	return c.waysOf(c.goals.list[g].node, keyword, true)
}

// together combines each way of one list with each of another.
func (c *evaluation) together(x, y []way) ([]way, error) {
	var to []way
	for _, v := range x {
		for _, w := range y {
			both := way{when: c.goals.all(v.when, w.when), names: c.sets.unite(v.names, w.names, c.parts.Free),
				first: max(v.first, w.first), some: unique(slices.Concat(v.some, w.some))}
			if v.first == automaton.Unlimited || w.first == automaton.Unlimited {
				both.first, both.some = automaton.Unlimited, nil
			}
			if i := slices.IndexFunc(to, both.same); i >= 0 {
				to[i].when = c.goals.any(to[i].when, both.when)
			} else if both.when != never {
				to = append(to, both)
			}
		}
	}
	if len(to) > mostWays {
		return nil, fmt.Errorf("members or items may be evaluated in more than %d ways", mostWays)
	}
	return to, nil
}
