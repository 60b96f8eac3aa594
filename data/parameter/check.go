package parameter

import (
	"math"
	"strings"
)

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
