package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// document is the text of a schema and what references in it can name.
type document struct {
	root      *value
	old       bool // draft 7 or older: keywords next to $ref are ignored, and ids are spelled differently
	draft2019 bool
	// The most digits that a number of the schema has before and after the point.
	whole, fraction int
	resources       map[string]resource // by URI, with and without anchors

	anchors map[string][]anchor // $dynamicAnchor, by the URI of their document
	several map[string]int      // by name: the number of such anchors
	scopes  map[string]*scope
}

// resource is a value that references can name by a URI.
type resource struct {
	v          *value
	path, base string // base is the base of the enclosing schema
	dynamic    bool   // named by a $dynamicAnchor
}

func newDocument(root *value) *document {
	d := &document{root: root, resources: map[string]resource{},
		anchors: map[string][]anchor{}, several: map[string]int{}, scopes: map[string]*scope{}}
	if s := root.get("$schema"); s != nil && s.kind == stringValue {
		for _, draft := range []string{"draft-04", "draft-06", "draft-07"} {
			d.old = d.old || strings.Contains(s.text, draft)
		}
		d.draft2019 = strings.Contains(s.text, "2019-09")
	}
	d.resources[""] = resource{v: root}
	d.scan(root, "", "")
	d.measure(root)
	return d
}

// measure records how many digits the numbers have.
func (d *document) measure(v *value) {
	if v.kind == numberValue {
		if n, err := parseDecimal(v.text); err == nil {
			d.whole, d.fraction = max(d.whole, len(n.whole)), max(d.fraction, len(n.fraction))
		}
	}
	for _, item := range v.list {
		d.measure(item)
	}
}

// The keywords whose values contain schemas.
var (
	schemaKeywords = []string{"additionalProperties", "additionalItems", "items", "contains", "not", "if", "then",
		"else", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
	listKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	mapKeywords  = []string{"properties", "patternProperties", "definitions", "$defs", "dependentSchemas",
		"dependencies"}
)

// scan records what references can name.
func (d *document) scan(v *value, path, base string) {
	if v.kind != objectValue {
		return
	}
	outer := base
	if id := d.id(v); id != "" {
		base = resolve(base, id)
		d.name(strings.TrimSuffix(base, "#"), resource{v: v, path: path, base: outer})
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if a := v.get(keyword); a != nil && a.kind == stringValue {
			r := resource{v: v, path: path, base: outer, dynamic: keyword == "$dynamicAnchor"}
			d.name(withoutFragment(base)+"#"+a.text, r)
			if r.dynamic {
				d.anchors[withoutFragment(base)] = append(d.anchors[withoutFragment(base)], anchor{a.text, r})
				d.several[a.text]++
			}
		}
	}
	for _, k := range schemaKeywords {
		if sub := v.get(k); sub != nil {
			d.scan(sub, path+"/"+k, base)
		}
	}
	for _, k := range listKeywords {
		if list := v.get(k); list != nil && list.kind == arrayValue {
			for i, sub := range list.list {
				d.scan(sub, path+"/"+k+"/"+strconv.Itoa(i), base)
			}
		}
	}
	for _, k := range mapKeywords {
		if m := v.get(k); m != nil && m.kind == objectValue {
			for i, sub := range m.list {
				d.scan(sub, path+"/"+k+"/"+escapePointer(m.names[i]), base)
			}
		}
	}
}

// tooOld returns the $schema of a document if its dialect is older than the supported ones.
func tooOld(root *value) (dialect string, isOld bool) {
	s := root.get("$schema")
	for _, draft := range []string{"draft-00", "draft-01", "draft-02", "draft-03"} {
		if s != nil && s.kind == stringValue && strings.Contains(s.text, draft) {
			return s.text, true
		}
	}
	return "", false
}

func (d *document) name(uri string, r resource) {
	if _, ok := d.resources[uri]; !ok {
		d.resources[uri] = r
	}
}

// id returns a schema's own URI, or "".
func (d *document) id(v *value) string {
	if d.old && v.has("$ref") {
		return ""
	}
	for _, keyword := range []string{"$id", "id"} {
		if id := v.get(keyword); id != nil && id.kind == stringValue && (keyword == "$id" || d.old) {
			return id.text
		}
	}
	return ""
}

func withoutFragment(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	return uri
}

// resolve makes a reference absolute.
func resolve(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil || base == "" {
		return ref
	}
	r, err := url.Parse(ref)
	if err != nil {
		return ref
	}
	return b.ResolveReference(r).String()
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// find returns what a reference names.
func (d *document) find(ref, base string) (resource, error) {
	uri := resolve(base, ref)
	if strings.HasPrefix(ref, "#") {
		uri = withoutFragment(base) + ref
	}
	if r, ok := d.resources[strings.TrimSuffix(uri, "#")]; ok {
		return r, nil
	}
	place, fragment, _ := strings.Cut(uri, "#")
	r, ok := d.resources[place]
	if !ok && place == withoutFragment(base) {
		r, ok = d.resources[""], true
	}
	if !ok {
		return r, fmt.Errorf("$ref %q is not in the schema; references to other documents are not supported", ref)
	}
	if unescaped, err := url.PathUnescape(fragment); err == nil {
		fragment = unescaped
	}
	if fragment != "" && fragment[0] != '/' {
		return r, fmt.Errorf("$ref %q names an anchor that does not exist", ref)
	}
	for _, part := range strings.Split(fragment, "/")[1:] {
		name := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if id := d.id(r.v); id != "" {
			r.base = resolve(r.base, id)
		}
		next := r.v.get(name)
		if i, err := strconv.Atoi(name); r.v.kind == arrayValue && err == nil && i >= 0 && i < len(r.v.list) {
			next = r.v.list[i]
		}
		if next == nil {
			return r, fmt.Errorf("$ref %q names nothing: there is no %q", ref, name)
		}
		r.v, r.path = next, r.path+"/"+part
	}
	return r, nil
}
