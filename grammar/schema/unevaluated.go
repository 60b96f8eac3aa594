package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/grammar/automaton"
	"github.com/quire/quire/grammar/regex"
)

// mostWays bounds the ways in which a schema may evaluate members or items.
const mostWays = 64

// way is a condition under which a valid value has members or items that a schema has evaluated, and which these are.
// Ways may hold at once: then all that each of them has is evaluated.
type way struct {
	when  goal
	names automaton.Expr // of members: contents of strings
	first int            // items, Unlimited where all are
	some  []goal         // what items behind them have that are evaluated too
}

func (w *way) nothing() bool { return w.names == automaton.Fail && w.first == 0 && len(w.some) == 0 }

func (w *way) same(v way) bool {
	return w.names == v.names && w.first == v.first && slices.Equal(w.some, v.some)
}

// unevaluatedForm is unevaluatedProperties or unevaluatedItems: what neither the other keywords of its schema nor the
// schemas that these apply to the same value have looked at must be of it.
func (c *compiler) unevaluatedForm(n *schemaNode, name string, v *value) (*form, error) {
	rest := c.sub(n, v, name)
	if c.doc.old || rest == always && !c.Closed {
		return nil, nil
	}
	if rest == always {
		return c.restricted(name, way{when: always, names: automaton.Fail}, rest), nil
	}
	ways, err := c.waysOf(n, name, false)
	if err != nil {
		return nil, err
	}
	f := &form{}
	for _, w := range ways {
		when, err := c.formOf(w.when)
		if err != nil {
			return nil, err
		}
		held, err := c.and(when, c.restricted(name, w, rest))
		if err != nil {
			return nil, err
		}
		f = c.or(f, held)
	}
	return f, nil
}

// restricted is the values of which all that a way does not evaluate is of a goal.
func (c *compiler) restricted(keyword string, w way, rest goal) *form {
	if keyword == "unevaluatedItems" {
		a := anyArray()
		a.open = c.Closed
		if w.first != automaton.Unlimited {
			for range w.first {
				a.first = append(a.first, always)
			}
			a.rest = c.any(append([]goal{rest}, w.some...)...)
		}
		return c.otherThanArrays(a)
	}
	o := c.anyObject()
	o.regions = nil
	others := c.notRegular(w.names, c.parts.Free, c.parts.Plain)
	for _, r := range []region{{names: w.names, goal: always}, {others, rest, c.Closed}} {
		if r.names != automaton.Fail {
			o.regions = append(o.regions, r)
		}
	}
	return c.otherThanObjects(o)
}

// waysOf is the ways of the keywords of a schema that holds. One of them always does. The keyword that asks is not
// among them, unless itself says so.
func (c *compiler) waysOf(n *schemaNode, keyword string, itself bool) ([]way, error) {
	if n.waysBusy {
		return nil, errCircle
	}
	n.waysBusy = true
	defer func() { n.waysBusy = false }()
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

// ownWay is what keywords of a schema evaluate by themselves.
func (c *compiler) ownWay(n *schemaNode, keyword string, itself bool) way {
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

// evaluatedItems is what the keywords for items evaluate. Before draft 2020-12 items may be a list, and contains
// evaluates nothing.
func (c *compiler) evaluatedItems(n *schemaNode) (first int, some []goal) {
	if items := n.v.get("items"); items != nil {
		if items.kind != arrayValue || n.v.has("additionalItems") {
			return automaton.Unlimited, nil
		}
		first = len(items.list)
	}
	if items := n.v.get("prefixItems"); items != nil {
		first = len(items.list)
	}
	if contains := n.v.get("contains"); contains != nil && !c.doc.draft2019 {
		some = []goal{c.sub(n, contains, "contains")}
	}
	return first, some
}

// patterned adds the names that patternProperties evaluates.
func (c *compiler) patterned(n *schemaNode, keyword string, w *way) error {
	patterns := n.v.get("patternProperties")
	if patterns == nil || keyword != "unevaluatedProperties" {
		return nil
	}
	for _, pattern := range patterns.names {
		names, err := regex.Search(c.b, pattern, c.parts.Characters, c.parts.Plain)
		if err != nil {
			return fmt.Errorf("patternProperties: %w", err)
		}
		w.names = c.orRegular(w.names, names, c.parts.Free)
	}
	return nil
}

// applied is what a keyword evaluates that applies other schemas to the same value: of each list one way at least
// holds.
func (c *compiler) applied(n *schemaNode, keyword, name string, v *value) (choices [][]way, err error) {
	may := func(g goal, when ...goal) []way { // or nothing
		ways, e := c.waysOfGoal(g, keyword)
		if e != nil {
			err = e
		}
		for i := range ways {
			ways[i].when = c.all(append(when, ways[i].when)...)
		}
		return append(ways, way{when: always, names: automaton.Fail})
	}
	must := func(g goal) []way { ways := may(g); return ways[:len(ways)-1] }
	switch name {
	case "$ref", "$dynamicRef":
		g, err := c.referred(n, name, v)
		if err != nil {
			return nil, err
		}
		choices = append(choices, must(g))
	case "allOf":
		for i, sub := range v.list {
			choices = append(choices, must(c.sub(n, sub, name, fmt.Sprint(i))))
		}
	case "anyOf":
		for i, sub := range v.list {
			g := c.sub(n, sub, name, fmt.Sprint(i))
			choices = append(choices, may(g, g))
		}
	case "oneOf":
		var one []way
		for i, sub := range v.list {
			g := c.sub(n, sub, name, fmt.Sprint(i))
			ways := may(g, g)
			one = append(one, ways[:len(ways)-1]...)
		}
		choices = append(choices, one)
	case "if":
		g := c.sub(n, v, name)
		holds, err := c.together([]way{{when: g, names: automaton.Fail}}, must(g))
		if then := n.v.get("then"); then != nil && err == nil {
			holds, err = c.together(holds, must(c.sub(n, then, "then")))
		}
		if err != nil {
			return nil, err
		}
		otherwise := []way{{when: always, names: automaton.Fail}}
		if sub := n.v.get("else"); sub != nil {
			otherwise = may(c.sub(n, sub, "else"), c.not(g))
		}
		choices = append(choices, append(holds, otherwise...))
	case "dependentSchemas", "dependencies":
		for i, member := range v.names {
			if v.list[i].kind != arrayValue {
				choices = append(choices, may(c.sub(n, v.list[i], name, member), c.has(member)))
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

// waysOfGoal is the ways of a schema that holds.
func (c *compiler) waysOfGoal(g goal, keyword string) ([]way, error) {
	if c.goals[g].kind != goalSchema {
		return []way{{when: always, names: automaton.Fail}}, nil
	}
	return c.waysOf(c.goals[g].of, keyword, true)
}

// has is the goal of objects with a member.
func (c *compiler) has(member string) goal {
	text := func(s string) *value { return &value{kind: stringValue, text: s} }
	list := &value{kind: arrayValue, list: []*value{text(member)}}
	v := &value{kind: objectValue, names: []string{"type", "required"}, list: []*value{text("object"), list}}
	return c.schema(v, "", "", nil)
}

// together is what is evaluated by a way of one list and one of another.
func (c *compiler) together(x, y []way) ([]way, error) {
	var to []way
	for _, v := range x {
		for _, w := range y {
			both := way{when: c.all(v.when, w.when), names: c.orRegular(v.names, w.names, c.parts.Free),
				first: max(v.first, w.first), some: unique(slices.Concat(v.some, w.some))}
			if v.first == automaton.Unlimited || w.first == automaton.Unlimited {
				both.first, both.some = automaton.Unlimited, nil
			}
			if i := slices.IndexFunc(to, both.same); i >= 0 {
				to[i].when = c.any(to[i].when, both.when)
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
