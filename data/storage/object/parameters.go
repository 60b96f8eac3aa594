package object

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Parameters are the query parameters of a bucket's URL. A store's package reads each that it supports, and then
// calls Err.
type Parameters struct {
	values url.Values
	known  []string
	err    error
}

// ParseParameters parses a query.
func ParseParameters(query string) (*Parameters, error) {
	values, err := url.ParseQuery(query)
	return &Parameters{values: values}, err
}

// String returns a parameter, "" if it is not given.
func (p *Parameters) String(name string) string {
	p.known = append(p.known, name)
	return p.values.Get(name)
}

// Bool returns a parameter that is true or false, false if it is not given.
func (p *Parameters) Bool(name string) bool {
	text := p.String(name)
	value, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.fail("the URL's parameter %s is %q, but must be true or false", name, text)
	}
	return value
}

// Count returns a parameter that is a number from 0, 0 if it is not given.
func (p *Parameters) Count(name string) uint {
	text := p.String(name)
	value, err := strconv.ParseUint(text, 10, 31)
	if text != "" && err != nil {
		p.fail("the URL's parameter %s is %q, but must be a number from 0", name, text)
	}
	return uint(value)
}

// Choice returns a parameter that is one of several words, regardless of case; "" if it is not given.
func (p *Parameters) Choice(name string, choices ...string) string {
	text := p.String(name)
	for _, c := range choices {
		if strings.EqualFold(c, text) {
			return c
		}
	}
	if text != "" {
		p.fail("the URL's parameter %s is %q, but must be one of %s", name, text, strings.Join(choices, ", "))
	}
	return ""
}

// Err returns the error of the first parameter that has a wrong value, is given twice, or was not read.
func (p *Parameters) Err() error {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(p.known, name) {
			slices.Sort(p.known)
			p.fail("unknown query parameter %q; known are %s", name, strings.Join(slices.Compact(p.known), ", "))
		}
		if len(p.values[name]) > 1 {
			p.fail("the URL's parameter %s is given twice; give it once", name)
		}
	}
	return p.err
}

func (p *Parameters) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &Error{Code: Unusable, Err: fmt.Errorf(format, args...)}
	}
}
