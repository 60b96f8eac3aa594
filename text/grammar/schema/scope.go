package schema

import "strconv"

// scope is what dynamic references mean in a schema: for each $dynamicAnchor the outermost of the documents that led to
// the schema and have it. Only anchors that several documents have are in a scope. Equal scopes are one; nil is the
// scope without anchors.
type scope struct {
	number  int
	anchors []anchor
}

// anchor is a $dynamicAnchor.
type anchor struct {
	name     string
	resource resource
}

// scoped is a schema in a scope.
type scoped struct {
	v     *value
	scope *scope
}

// outermost returns what an anchor names in a scope, or otherwise if it is not in the scope.
func (s *scope) outermost(name string, otherwise resource) resource {
	if s != nil {
		for _, a := range s.anchors {
			if a.name == name {
				return a.resource
			}
		}
	}
	return otherwise
}

// enter returns the scope within the document of a URI.
func (d *document) enter(s *scope, uri string) *scope {
	for i, a := range d.anchors[withoutFragment(uri)] {
		if d.several[a.name] < 2 || s.outermost(a.name, resource{}).v != nil {
			continue
		}
		key := strconv.Itoa(i) + " " + withoutFragment(uri)
		to := &scope{}
		if s != nil {
			key = strconv.Itoa(s.number) + " " + key
			to.anchors = append(to.anchors, s.anchors...)
		}
		if d.scopes[key] == nil {
			to.number, to.anchors = len(d.scopes), append(to.anchors, a)
			d.scopes[key] = to
		}
		s = d.scopes[key]
	}
	return s
}
