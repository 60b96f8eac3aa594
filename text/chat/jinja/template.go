// Package jinja renders Jinja templates as Python's sandboxed jinja2 does with the settings of transformers' chat
// templates.
//
// Templates are untrusted input: they cannot load anything, cannot change their arguments, and run within limits of
// steps, time and memory. Parsing rejects the parts of the language that this package lacks.
package jinja

import (
	"maps"
	"slices"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

// Template is a parsed template, safe for concurrent use.
type Template struct {
	body        []stmt
	used, bound map[string]bool // the names whose values are taken, and the names that something is assigned to
	values      map[string]bool // the names that are used in other ways than to call them
}

// Parse reads a template. Its error is a *SyntaxError.
func Parse(source string) (*Template, error) {
	t, err := parse(source)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// blockNames are defined within loops and macros.
var blockNames = []string{"loop", "caller", "varargs", "kwargs"}

// Uses returns the sorted names whose values the template takes. Wants returns the names among them that have to be
// given: the template does not assign them, and Jinja does not define them.
func (t *Template) Uses() []string { return slices.Sorted(maps.Keys(t.used)) }

func (t *Template) Wants() []string {
	own := builtins(nil)
	return slices.DeleteFunc(t.Uses(), func(name string) bool {
		return t.bound[name] || own[name] != nil && !t.values[name] || slices.Contains(blockNames, name)
	})
}

// Render returns the text of the template with the given variables. Their values may be nil, bool, int, float64,
// string, *List, Tuple, *Dict and *Func.
func (t *Template) Render(vars map[string]any, limits Limits) (text string, err error) {
	return t.render(vars, limits, false)
}

// RenderStrictly is Render, but it is an error to print None or an undefined value, or to make it part of a text. A
// name that Jinja defines is undefined if the template takes its value.
func (t *Template) RenderStrictly(vars map[string]any, limits Limits) (text string, err error) {
	return t.render(vars, limits, true)
}

func (t *Template) render(vars map[string]any, limits Limits, strict bool) (text string, err error) {
	r := &run{Meter: limits.meter(), most: limits.Output, out: new(strings.Builder)}
	r.Strict = strict
	defer func() {
		if p := recover(); p != nil {
			stop := value.Exceeded(p)
			if stop == nil {
				panic(p)
			}
			text, err = "", withLine(r.line, stop)
		}
	}()
	globals := &scope{vars: builtins(r.Meter)}
	if strict {
		maps.DeleteFunc(globals.vars, func(name string, _ any) bool { return t.values[name] })
	}
	top := &scope{parent: globals, vars: make(map[string]any, len(vars))}
	for name, v := range vars {
		top.vars[name] = v
	}
	if err := r.body(t.body, &scope{parent: top}); err != nil {
		return "", err
	}
	return r.out.String(), nil
}
