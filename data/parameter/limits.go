package parameter

import (
	"math"
	"strings"
)

// limits is the range of a number. The zero value has no limits.
type limits struct {
	min, max float64
	above    bool   // min itself is not allowed
	text     string // for messages; {} stands for the name
}

// Range returns the range of one of Quire's own parameters, "any" if all values of its type are allowed.
func (p *Parameter) Range() string {
	text := strings.ReplaceAll(strings.TrimPrefix(p.limits.text, "in "), "{}", p.Name)
	switch {
	case text != "":
		return text
	case p.Type() == Seed:
		return SeedRange
	case p.Type() == TextList:
		return "not empty, UTF-8"
	}
	return "any"
}

func (l limits) allow(v any) bool {
	var x float64
	switch v := v.(type) {
	case int:
		x = float64(v)
	case float64:
		x = v
	}
	// Written so that NaN fails.
	return l == limits{} || x >= l.min && x <= l.max && !(l.above && x == l.min)
}

// Check normalizes s and returns an error for the first value that is out of its range. name returns what the user
// calls a parameter.
func (s *Set) Check(name func(own string) string) error {
	for p := range Own() {
		if p.settle != nil {
			p.settle(s)
		}
	}
	return s.check(name)
}

func (s *Set) check(name func(own string) string) error {
	for p := range Own() {
		v := p.slot.get(s)
		if err := wellFormed(v); err != nil {
			return &FormError{name(p.Name), err}
		}
		allowed := ""
		if p.allowed != nil {
			allowed = p.allowed(s)
		} else if !p.limits.allow(v) {
			allowed = p.limits.text
		}
		if allowed != "" {
			as := name(p.Name)
			return &RangeError{Field: as, Value: v, Allowed: strings.ReplaceAll(allowed, "{}", as)}
		}
	}
	return nil
}

// Validate returns a [*RangeError] for the first field that is out of range, or nil.
func (s Sampling) Validate() error {
	all := Defaults()
	all.Sampling, all.MaxTokens = s, math.MaxInt32
	all.RepetitionPenalty, all.TypicalP, all.DRYBase = s.Repetition(), s.typicalP(), s.DRYPower()
	return all.check(func(own string) string { return own })
}
