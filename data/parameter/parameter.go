// Package parameter is the single table of the parameter names of the APIs of OpenAI, vLLM, llama.cpp and
// transformers: which of them Quire applies, which values have no effect, and what it must reject. It also has the
// members of messages.
package parameter

import (
	"slices"
	"strings"
)

// SeedRange is the range of a seed, for error messages.
const SeedRange = "0 to 18446744073709551615, or -1 for none"

// NoSeed is what other engines use for "no seed". A row with it gets the job's seed, and a job with it the default
// seed, so that its output can be reproduced.
const NoSeed = -1

// Engine is a set of APIs that have a parameter.
type Engine int

// The APIs that the table covers.
const (
	OpenAI Engine = 1 << iota
	VLLM
	LlamaCpp
	Transformers
)

// Sets of APIs.
const (
	servers = OpenAI | VLLM | LlamaCpp
	all     = servers | Transformers
)

// Parameter is one name of the table.
type Parameter struct {
	Name string
	From Engine // the APIs that have it; 0 if only Quire has it
	// Sets is Quire's own parameter that this name sets: the name itself for one of Quire's own, "" if Quire has
	// none.
	Sets string
	Note string // what it is, what to use instead, or why any value is accepted; for messages and the documentation

	// Only for Quire's own parameters:

	Flag        string // flag of "sample run", and key of config files; "" if only rows have it
	Short       string // one-letter flag
	Placeholder string // placeholder for the flag's value in the help
	Device      string // dtype and shape of a row's value in the device's arrays, "" if only the host needs it
	// InEveryJob reports whether job.json has the parameter even at its default. Newer parameters are there only if
	// they are given, so that existing jobs keep their identity.
	InEveryJob bool
	place      int    // index in own
	slot       slot   // the value's place in a Set, and the default
	limits     limits // range of a number
	// for values without limits: what the value must be, given the others; "" if it is valid
	allowed func(s *Set) string
	settle  func(s *Set) // normalizes other notations of a value

	maps     mapping   // what JSON values are for Sets
	passes   bool      // any value is accepted, because it cannot change a completion
	neutral  []string  // JSON values without effect
	strict   bool      // empty text, lists and objects have an effect
	when     condition // when the name is a parameter, and when its values have an effect
	dataList bool      // a list is the user's data, because the parameter is never a list
}

// mapping maps JSON values of a parameter to values of Sets.
type mapping struct {
	values map[string]string // to the value that a JSON value sets, if that differs
	clash  map[string]string // to the value that contradicts a JSON value
}

// condition depends on the other parameters of a row. The zero value is always met.
type condition struct {
	rows  string // the name is a parameter only in rows with this prompt column
	equal string // a value has no effect if it equals this parameter of the row
	// matters reports whether a value has an effect, given these parameters of the row; nil: it always has.
	matters func(s *Set) bool
}

// Own reports whether p is one of Quire's own parameters.
func (p *Parameter) Own() bool { return p.Sets == p.Name }

// Passes reports whether a column of this name belongs to the user whatever its values, because they cannot change a
// completion.
func (p *Parameter) Passes() bool { return p.passes }

// Concerns reports whether the name is a parameter in a row with the given prompt column.
func (p *Parameter) Concerns(promptColumn string) bool {
	return p.when.rows == "" || p.when.rows == promptColumn
}

// Conditional reports whether the effect of a value depends on other parameters; see [Parameter.Matters].
func (p *Parameter) Conditional() bool { return p.when.matters != nil }

// Matters reports whether a value that is not neutral has an effect, given these parameters of the row.
func (p *Parameter) Matters(s *Set) bool { return p.when.matters == nil || p.when.matters(s) }

// Verdict is how a parameter of a row is treated.
type Verdict int

// The verdicts.
const (
	NoEffect    Verdict = iota // the value asks for what Quire does anyway
	Applied                    // it sets one of Quire's own parameters
	Refused                    // it asks for what Quire does not do
	Contradicts                // it asks for a different value of Quire's own parameter from the row's
)

// Judge returns how a JSON value is treated. If it is applied, set is the JSON value for Quire's own parameter. given
// returns the row's JSON value of one of Quire's own parameters, or "".
func (p *Parameter) Judge(value []byte, given func(own string) string) (verdict Verdict, set []byte) {
	v, ok := decode(value)
	_, isList := v.([]any)
	switch {
	case p.passes || ok && v == nil:
		return NoEffect, nil
	case !ok:
		return Refused, nil
	case p.Sets != "" && p.maps.values == nil && !p.Neutral(value) && !(isList && p.dataList):
		return Applied, value
	}
	for from, to := range p.maps.values {
		if matches(v, from) {
			return Applied, []byte(to)
		}
	}
	for from, contradicted := range p.maps.clash {
		if matches(v, from) && given(p.Sets) == contradicted {
			return Contradicts, nil
		}
	}
	switch {
	case isList && p.dataList, !p.strict && empty(v), p.Neutral(value),
		p.when.equal != "" && matches(v, given(p.when.equal)):
		return NoEffect, nil
	}
	return Refused, nil
}

// Excludes returns the JSON value of Sets that contradicts a value without effect, or "": do_sample true excludes
// temperature 0.
func (p *Parameter) Excludes(value []byte) string {
	v, ok := decode(value)
	for from, contradicted := range p.maps.clash {
		if ok && matches(v, from) {
			return contradicted
		}
	}
	return ""
}

// Neutral reports whether value is one of the JSON values that the table lists as without effect.
func (p *Parameter) Neutral(value []byte) bool {
	v, ok := decode(value)
	return ok && slices.ContainsFunc(p.neutral, func(n string) bool { return matches(v, n) })
}

// Instead returns a JSON value without effect, to use in place of a rejected one, or "".
func (p *Parameter) Instead() string {
	if len(p.neutral) == 0 {
		return ""
	}
	return p.neutral[0]
}

// Type returns the type of the values of one of Quire's own parameters, 0 for other parameters.
func (p *Parameter) Type() Type {
	if p.slot == nil {
		return 0
	}
	return p.slot.kind()
}

// At returns a pointer to the value of one of Quire's own parameters: *int, *float64, *uint64, *bool, *string,
// *[]string, *[]int, *ObjectJSON, *ListJSON, *Biases or *Structure.
func (p *Parameter) At(s *Set) any { return p.slot.pointer(s) }

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

// limits is the range of a number. The zero value has no limits.
type limits struct {
	min, max float64
	above    bool   // min itself is not allowed
	text     string // for messages; {} stands for the name
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
