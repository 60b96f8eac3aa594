package schema

import (
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
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

// array is a set of arrays.
type array struct {
	first    []goal // of the first items
	rest     goal   // of the items after them
	min, max int
	some     []someItems
	distinct bool // no two items are equal
	lists    bool // a keyword lists the first items: if arrays are closed there are no others
	open     bool // a keyword applies to the other items: they are allowed even if arrays are closed
}

// someItems bounds the number of items of a goal, counted from an index on.
type someItems struct {
	goal     goal
	from     int
	min, max int
}

// object is a set of objects: the allowed values of each member, and the required members.
type object struct {
	props    []property // the listed names, in their order
	index    map[string]int
	required []string
	regions  []region // the other names
	some     []region // for each, at least one member has a name of the region and a value of its goal
	min, max int
	lists    bool // a keyword lists the allowed names: if objects are closed there are no others
}

type property struct {
	name string
	goal goal
}

// region is a set of names, by their contents as strings, and the goal of their values. Each name is in exactly one
// region of an object. Regions do not apply to the names that are listed as properties.
type region struct {
	names automaton.Expr // Parts.Free for all names
	goal  goal
	open  bool // a keyword applies to these names: they are allowed even if objects are closed
}

func anyArray() *array { return &array{rest: always, max: automaton.Unlimited} }

func anyObject(p *jsontext.Parts) *object {
	return &object{regions: []region{{names: p.Free, goal: always}}, max: automaton.Unlimited}
}

func everything(p *jsontext.Parts) *form {
	return &form{true, true, true, p.Number, p.Free, []*array{anyArray()}, []*object{anyObject(p)}}
}

// onlyArrays allows some arrays, and all values of other types.
func onlyArrays(p *jsontext.Parts, a ...*array) *form {
	f := everything(p)
	f.arrays = a
	return f
}

// onlyObjects allows some objects, and all values of other types.
func onlyObjects(p *jsontext.Parts, o ...*object) *form {
	f := everything(p)
	f.objects = o
	return f
}

// onlyNumbers allows some numbers, and all values of other types.
func onlyNumbers(p *jsontext.Parts, e automaton.Expr) *form {
	f := everything(p)
	f.number = e
	return f
}

// onlyTexts allows some strings, and all values of other types.
func onlyTexts(p *jsontext.Parts, e automaton.Expr) *form {
	f := everything(p)
	f.text = e
	return f
}

// words returns null, true and false as far as a form allows them.
func (f *form) words(p *jsontext.Parts) (words []string) {
	for _, w := range []struct {
		allowed bool
		text    string
	}{{f.null, p.Null}, {f.yes, p.True}, {f.no, p.False}} {
		if w.allowed {
			words = append(words, w.text)
		}
	}
	return words
}

func (a *array) isAny() bool {
	return a.rest == always && a.min == 0 && a.max == automaton.Unlimited && len(a.some) == 0 && !a.distinct &&
		!a.lists && !a.open &&
		!slices.ContainsFunc(a.first, func(g goal) bool { return g != always })
}

func (a *array) item(i int) goal {
	if i < len(a.first) {
		return a.first[i]
	}
	return a.rest
}

func (o *object) find(name string) int {
	if len(o.props) < 8 {
		return slices.IndexFunc(o.props, func(p property) bool { return p.name == name })
	}
	if o.index == nil {
		o.index = make(map[string]int, len(o.props))
		for i, p := range o.props {
			o.index[p.name] = i
		}
	}
	if i, ok := o.index[name]; ok {
		return i
	}
	return -1
}

// lower returns the smaller of two bounds, which may be Unlimited.
func lower(x, y int) int {
	if x == automaton.Unlimited || y != automaton.Unlimited && y < x {
		return y
	}
	return x
}
