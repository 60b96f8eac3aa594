package schema

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
)

// reader makes the form of a schema from its keywords.
type reader struct {
	doc          *document
	forms        *forms
	values       valueReader
	texts        textReader
	numbers      numberReader
	arrays       arrayReader
	objects      objectReader
	combinations combination
	oneOf        exclusive
	unevaluated  evaluation
}

func newReader(f *forms, n *numbers, closed bool) *reader {
	b, p, g, sets := f.b, f.parts, f.goals, f.sets
	r := &reader{doc: g.doc, forms: f,
		values:       valueReader{b, p, g, sets},
		texts:        textReader{b: b, parts: p, sets: sets, formats: map[string]automaton.Expr{}},
		numbers:      numberReader{p, n},
		arrays:       arrayReader{p, g, closed},
		objects:      objectReader{b, p, g, f, sets, closed},
		combinations: combination{g, f},
		unevaluated:  evaluation{b: b, parts: p, goals: g, forms: f, sets: sets, closed: closed},
	}
	r.oneOf = exclusive{p, g, f, sets, r.keyword}
	return r
}

// groups are keywords that are read together, when the first of them is.
var groups = map[string]string{
	"properties": "properties", "patternProperties": "properties", "additionalProperties": "properties",
	"items": "items", "prefixItems": "items", "additionalItems": "items",
	"minLength": "length", "maxLength": "length",
}

// schema is what a schema allows: the intersection of what its keywords allow, in their order.
func (r *reader) schema(n *schemaNode) (*form, error) {
	if n.v.kind != objectValue {
		return nil, &refusal{"#" + n.path, fmt.Errorf("a schema is neither an object nor true or false")}
	}
	f := everything(r.forms.parts)
	read := map[string]bool{}
	for i, name := range n.v.names {
		if r.doc.old && name != "$ref" && n.v.has("$ref") {
			continue // ignored next to $ref
		}
		if group := groups[name]; group != "" {
			if read[group] {
				continue
			}
			read[group] = true
		}
		g, err := r.keyword(use{n, name, n.v.list[i]})
		if err == nil && g != nil {
			f, err = r.forms.and(f, g)
		}
		if r, ok := err.(*refusal); ok {
			return nil, r
		} else if err != nil {
			return nil, n.refuse(name, err)
		}
	}
	return f, nil
}

// keyword is what a keyword allows, together with the keywords of its group. It is nil if the keyword allows all
// values, as annotations and unknown keywords do.
func (r *reader) keyword(u use) (*form, error) {
	switch u.keyword {
	case "type":
		return r.values.types(u)
	case "enum":
		return r.values.enum(u)
	case "const":
		return r.values.constant(u)
	case "minLength", "maxLength":
		return r.texts.length(u)
	case "pattern":
		return r.texts.pattern(u)
	case "format":
		return r.texts.format(u)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return r.numbers.bound(u)
	case "multipleOf":
		return r.numbers.multiple(u)
	case "items", "prefixItems", "additionalItems":
		return r.arrays.items(u)
	case "minItems", "maxItems":
		return r.arrays.bounds(u)
	case "uniqueItems":
		return r.arrays.unique(u)
	case "contains":
		return r.arrays.contains(u)
	case "properties", "patternProperties", "additionalProperties":
		return r.objects.properties(u)
	case "required":
		return r.objects.required(u)
	case "minProperties", "maxProperties":
		return r.objects.bounds(u)
	case "propertyNames":
		return r.objects.propertyNames(u)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return r.objects.dependencies(u)
	case "$ref", "$dynamicRef":
		return r.combinations.reference(u)
	case "allOf":
		return r.combinations.allOf(u)
	case "anyOf":
		return r.combinations.anyOf(u)
	case "not":
		return r.combinations.not(u)
	case "if":
		return r.combinations.conditional(u)
	case "oneOf":
		return r.oneOf.read(u)
	case "unevaluatedItems", "unevaluatedProperties":
		return r.unevaluated.read(u)
	case "$recursiveRef":
		return nil, fmt.Errorf("it is not supported")
	case "divisibleBy", "disallow": // in later drafts they are unknown, and so annotations
		if !r.doc.root.has("$schema") {
			return nil, fmt.Errorf("it is a keyword of draft 3: write multipleOf or not")
		}
	}
	return nil, nil
}
