// Package parameter is the single table of the parameter names of the APIs of OpenAI, vLLM, llama.cpp and
// transformers: which of them Quire applies, which values have no effect, and what it must reject. It also has the
// members of messages.
package parameter

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// SeedRange is the range of a seed, for error messages.
const SeedRange = "0 to 18446744073709551615, or -1 for none"

// NoSeed is what other engines use for "no seed". A row with it gets the job's seed, and a job with it the default
// seed, so that its output can be reproduced.
const NoSeed = -1

// Type is the type of the values of one of Quire's own parameters.
type Type int

// The types of Quire's own parameters.
const (
	Integer Type = iota + 1
	Number
	Seed // an unsigned 64-bit integer
	Boolean
	TextList // a list of texts; one text is a list of one
	IntegerList
	Structured     // an object that ParseStructure parses
	Word           // one of a few texts
	Object         // a JSON object, or text that contains one
	List           // a JSON list, or text that contains one
	BiasesOfTokens // an object of numbers by token ids
)

// String returns the type as error messages name it.
func (t Type) String() string {
	switch t {
	case Number:
		return "a number"
	case Boolean:
		return "boolean"
	case TextList:
		return "text or list of text"
	case BiasesOfTokens:
		return "a JSON object of numbers by token ids"
	case IntegerList:
		return "a list of integers"
	case Structured:
		return "a JSON object"
	case Word:
		return "text"
	case Object:
		return "a JSON object"
	case List:
		return "a JSON list"
	}
	return "an integer"
}

// Engine is a set of APIs that have a parameter.
type Engine int

// The APIs that the table covers.
const (
	OpenAI Engine = 1 << iota
	VLLM
	LlamaCpp
	Transformers
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

	values map[string]string // maps a JSON value to the value of Sets, if that differs
	clash  map[string]string // the value of Sets that contradicts a JSON value

	passes   bool     // any value is accepted, because it cannot change a completion
	neutral  []string // JSON values without effect
	strict   bool     // empty text, lists and objects have an effect
	equal    string   // a value has no effect if it equals this parameter of the row
	rows     string   // the name is a parameter only in rows with this prompt column
	dataList bool     // a list is the user's data, because the parameter is never a list
	// matters reports whether a value has an effect, given these parameters of the row; nil: it always has.
	matters func(s *Set) bool
}

// Own reports whether p is one of Quire's own parameters.
func (p *Parameter) Own() bool { return p.Sets == p.Name }

// Passes reports whether a column of this name belongs to the user whatever its values, because they cannot change a
// completion.
func (p *Parameter) Passes() bool { return p.passes }

// Concerns reports whether the name is a parameter in a row with the given prompt column.
func (p *Parameter) Concerns(promptColumn string) bool { return p.rows == "" || p.rows == promptColumn }

// Conditional reports whether the effect of a value depends on other parameters; see [Parameter.Matters].
func (p *Parameter) Conditional() bool { return p.matters != nil }

// Matters reports whether a value that is not neutral has an effect, given these parameters of the row.
func (p *Parameter) Matters(s *Set) bool { return p.matters == nil || p.matters(s) }

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
	case p.Sets != "" && p.values == nil && !p.Neutral(value) && !(isList && p.dataList):
		return Applied, value
	}
	for from, to := range p.values {
		if is(v, from) {
			return Applied, []byte(to)
		}
	}
	for from, of := range p.clash {
		if is(v, from) && given(p.Sets) == of {
			return Contradicts, nil
		}
	}
	switch {
	case isList && p.dataList, !p.strict && empty(v), p.Neutral(value), p.equal != "" && is(v, given(p.equal)):
		return NoEffect, nil
	}
	return Refused, nil
}

// Excludes returns the JSON value of Sets that contradicts a value without effect, or "": do_sample true excludes
// temperature 0.
func (p *Parameter) Excludes(value []byte) string {
	v, ok := decode(value)
	for from, of := range p.clash {
		if ok && is(v, from) {
			return of
		}
	}
	return ""
}

// Neutral reports whether value is one of the JSON values that the table lists as without effect.
func (p *Parameter) Neutral(value []byte) bool {
	v, ok := decode(value)
	return ok && slices.ContainsFunc(p.neutral, func(n string) bool { return is(v, n) })
}

// Instead returns a JSON value without effect, to use in place of a rejected one, or "".
func (p *Parameter) Instead() string {
	if len(p.neutral) == 0 {
		return ""
	}
	return p.neutral[0]
}

func decode(value []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	return v, d.Decode(&v) == nil
}

// is compares a decoded JSON value with a JSON text. Null members of objects are ignored, because every struct of a
// Parquet column has all members.
func is(v any, text string) bool {
	want, ok := decode([]byte(text))
	return ok && same(v, want)
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range a {
			if v != nil && !same(v, b[k]) {
				return false
			}
		}
		for k, v := range b {
			if v != nil && a[k] == nil {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// empty reports whether a decoded JSON value is empty text, an object whose members are all null, or a list of only
// such objects and nulls. A Parquet column cannot distinguish these.
func empty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool {
			_, text := e.(string)
			return e != nil && (text || !empty(e))
		})
	case map[string]any:
		for _, m := range v {
			if m != nil {
				return false
			}
		}
		return true
	}
	return false
}

var byName = func() map[string][]*Parameter {
	all := map[string][]*Parameter{}
	for i := range table {
		p := &table[i]
		all[p.Name] = append(all[p.Name], p)
		if dashed := strings.ReplaceAll(p.Name, "_", "-"); dashed != p.Name { // as in flags
			alias := *p
			alias.Name = dashed
			all[dashed] = append(all[dashed], &alias)
		}
	}
	return all
}()

// Lookup returns the table's entries for a name, with dashes or underscores. There are none for a user's column, and
// several if the meaning of the name depends on the prompt column.
func Lookup(name string) []*Parameter { return byName[name] }

// All iterates over the whole table.
func All() iter.Seq[*Parameter] {
	return func(yield func(*Parameter) bool) {
		for i := range table {
			if !yield(&table[i]) {
				return
			}
		}
	}
}

// OwnNames lists Quire's own parameters.
func OwnNames() (names []string) {
	for p := range Own() {
		names = append(names, p.Name)
	}
	return names
}

// Sink returns the parameter of Quire's own that a name sets to its values, or nil.
func Sink(name string) *Parameter {
	for _, p := range byName[name] {
		if p.Own() {
			return p
		}
		if p.Sets != "" && p.values == nil {
			return Sink(p.Sets)
		}
	}
	return nil
}

// TypeOf returns the type of the values of a name that sets one of Quire's own parameters to them, or 0.
func TypeOf(name string) Type {
	if p := Sink(name); p != nil {
		return p.Type()
	}
	return 0
}
