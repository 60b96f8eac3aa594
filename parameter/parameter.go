// Package parameter is the one table of the names under which requests to language models give their parameters, in
// the APIs of OpenAI, vLLM, llama.cpp and transformers: which of them Quire applies, which values have no effect, and
// what it must refuse. It has the members of messages, too.
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

// NoSeed is the seed with which other engines say that none is given. A row with it has the job's seed, and a job with
// it the default, so that it can be drawn again.
const NoSeed = -1

// Type is the type of the values of one of Quire's own parameters.
type Type int

// The types of Quire's own parameters.
const (
	Integer Type = iota + 1
	Number
	Seed // an integer of 64 bits without a sign
	Boolean
	TextList // a list of text; one text is a list of it
	IntegerList
	Structured     // an object of those that ParseStructure reads
	Word           // text, one of a few
	Object         // a JSON object, or text with one
	List           // a JSON list, or text with one
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

// The APIs whose names the table has.
const (
	OpenAI Engine = 1 << iota
	VLLM
	LlamaCpp
	Transformers
)

// Parameter is one name of the table.
type Parameter struct {
	Name string
	From Engine // the APIs that have it; 0 for a name of Quire alone
	// Sets is Quire's own parameter that this name sets: the name itself for Quire's own, "" where Quire has none.
	Sets string
	Note string // what it is, what to give in its place, or why any value passes; for messages and the documentation

	// Of Quire's own parameters alone:

	Flag        string // of "sample run", and key of config files; "" where rows alone have it
	Short       string // the flag in one letter
	Placeholder string // what stands for the flag's value in the help
	Device      string // dtype and shape of a row's value in the device's arrays, "" where the host alone needs it
	// InEveryJob says that job.json has the parameter at its default, too. Later ones are there only where they are
	// given, so that jobs of before stay the same.
	InEveryJob bool
	place      int                 // among them
	slot       slot                // its value in a Set, and its default
	limits     limits              // of a number
	allowed    func(s *Set) string // in place of limits: what it must be beside the others, "" where it is that
	settle     func(s *Set)        // turns other ways to say a value into one

	values map[string]string // what a JSON value sets Sets to, where that is not the value itself
	clash  map[string]string // which value of Sets contradicts a JSON value

	passes   bool     // any value passes, as it cannot change a completion
	neutral  []string // JSON values without effect
	strict   bool     // empty text, lists and objects have an effect
	equal    string   // a value has no effect where it equals this parameter of the row
	rows     string   // the name is a parameter only in rows that have this prompt column
	dataList bool     // a list is the user's data: the parameter has none
	// matters reports whether a value has an effect beside these parameters of a row; nil: it always has.
	matters func(s *Set) bool
}

// Own says whether p is one of Quire's own parameters.
func (p *Parameter) Own() bool { return p.Sets == p.Name }

// Passes says whether a column of this name is the user's own, whatever its values, as they cannot change a completion.
func (p *Parameter) Passes() bool { return p.passes }

// Concerns says whether the name is a parameter in a row with the given prompt column.
func (p *Parameter) Concerns(promptColumn string) bool { return p.rows == "" || p.rows == promptColumn }

// Conditional reports whether it depends on other parameters whether a value has an effect; see [Parameter.Matters].
func (p *Parameter) Conditional() bool { return p.matters != nil }

// Matters reports whether a value that is not neutral has an effect beside these parameters of a row.
func (p *Parameter) Matters(s *Set) bool { return p.matters == nil || p.matters(s) }

// Verdict is what becomes of a parameter of a row.
type Verdict int

// The verdicts.
const (
	NoEffect    Verdict = iota // the value asks for what Quire does anyway
	Applied                    // it sets one of Quire's own parameters
	Refused                    // it asks for what Quire does not do
	Contradicts                // it asks for another value of Quire's own parameter than the row gives
)

// Judge says what becomes of a JSON value. Where it is applied, set is the JSON value that Quire's own parameter
// gets. given returns the JSON value of one of Quire's own parameters that the row has, or "".
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

// Excludes returns the JSON value of Sets that a value without effect contradicts, or "": do_sample true excludes
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

// Neutral says whether value is one of the JSON values that the table lists as without effect.
func (p *Parameter) Neutral(value []byte) bool {
	v, ok := decode(value)
	return ok && slices.ContainsFunc(p.neutral, func(n string) bool { return is(v, n) })
}

// Instead returns a JSON value that has no effect, to give in place of one that is refused, or "".
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

// is compares a decoded JSON value with another one. Null members of objects do not count: in a Parquet file every
// struct of a column has all members.
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

// empty says whether a decoded JSON value is empty text, an object whose members are all null, or a list of nothing but
// such objects and nulls. A Parquet column can't tell these apart.
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
		if dashed := strings.ReplaceAll(p.Name, "_", "-"); dashed != p.Name { // as flags have it
			alias := *p
			alias.Name = dashed
			all[dashed] = append(all[dashed], &alias)
		}
	}
	return all
}()

// Lookup returns what the table has of a name, with dashes or underscores: nothing for a column of the user's own, and
// several entries where the name means different things beside different prompt columns.
func Lookup(name string) []*Parameter { return byName[name] }

// All gives the whole table.
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
