package promptset

import (
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// alias notes under which name of other engines a row gives a parameter.
type alias struct{ own, key string }

// ParameterName returns the key or column under which the row gives one of Quire's parameters. It may be the name
// that other engines have for it, so that messages about the value name what the user wrote.
func (r *Row) ParameterName(own string) string {
	for _, a := range r.aliases {
		if a.own == own {
			return a.key
		}
	}
	return own
}

// doubt is a value that has an effect beside some parameters only, and the error for it then.
type doubt struct {
	parameter *parameter.Parameter
	err       *RowError
}

// foreign is a value of a row under a name of other engines, or a parameter that Quire does not have.
type foreign struct {
	parameter *parameter.Parameter
	raw       json.RawMessage // not null
	all       float64         // of a column of floats: it holds all whole numbers below this one
}

// foreignNames returns what the table of parameters has to say of a column beyond reading it as one of Quire's own.
func foreignNames(column string) []*parameter.Parameter {
	var found []*parameter.Parameter
	for _, p := range parameter.Lookup(column) {
		if (!p.Own() || judgedAsJSON(p.Name)) && !p.Passes() {
			found = append(found, p)
		}
	}
	return found
}

// apply judges the values of a row, whose own parameters are set. given names its prompt columns.
func (r *Builder) apply(values []foreign, given []string) {
	if len(given) == 0 && r.Parent.ID != "" {
		given = []string{parentName} // what concerns a form of prompts does not concern it
	}
	values = slices.DeleteFunc(values, func(v foreign) bool {
		return !slices.ContainsFunc(given, v.parameter.Concerns)
	})
	// What becomes of the others depends on what the row gives under any name.
	values = slices.DeleteFunc(values, func(v foreign) bool {
		verdict, set := v.parameter.Judge(v.raw, r.Overrides.text)
		if verdict == parameter.Applied {
			r.blame(v.parameter.Name, openai.CodeInvalidValue, func() { r.alias(v, set) })
		}
		return verdict == parameter.Applied
	})
	for _, v := range values {
		p := v.parameter
		switch verdict, _ := p.Judge(v.raw, r.Overrides.text); verdict {
		case parameter.Refused:
			if p.Conditional() {
				alone := &Builder{Row: &Row{File: r.File, FileRow: r.FileRow, Line: r.Line}, inBody: r.inBody}
				alone.refuse(v)
				r.doubts = append(r.doubts, doubt{p, alone.Err.(*RowError)})
			} else {
				r.refuse(v)
			}
		case parameter.Contradicts:
			r.blame(p.Name, openai.CodeInvalidValue, func() {
				r.fail("%s is %s and %s is %s, which contradict each other; keep one",
					p.Name, v.raw, r.ParameterName(p.Sets), r.Overrides.text(p.Sets))
			})
		case parameter.NoEffect:
			if p.Sets == "temperature" && p.Excludes(v.raw) != "" {
				r.Overrides.Sampled = &p.Name
			}
		}
	}
}

// CheckBeside returns the error of a value of the row that has an effect beside set, its parameters with those of the
// job, and that is not supported.
func (r *Row) CheckBeside(set *parameter.Set) *RowError {
	for _, d := range r.doubts {
		if d.parameter.Matters(set) {
			return d.err
		}
	}
	return nil
}

// refuse notes a parameter with a value that is not supported.
func (r *Builder) refuse(v foreign) {
	p, note, leave, instead := v.parameter, "", "leave it out", v.parameter.Instead()
	if p.Note != "" {
		note = " (" + p.Note + ")"
	}
	switch inBody := r.inBody; {
	case inBody && instead != "":
		leave += " or give " + instead + ", which has no effect"
	case inBody:
	case instead != "":
		leave += ", give " + instead + ", which has no effect, or rename the column if it is not meant for the sampler"
	default:
		leave += " or rename the column if it is not meant for the sampler"
	}
	code := openai.CodeUnsupported
	if instead != "" {
		code = openai.CodeNotThisValue
	}
	r.blame(p.Name, code, func() {
		r.fail("parameter %s is not supported as %s%s; %s", p.Name, abbreviate(v.raw), note, leave)
	})
}

// alias sets one of Quire's own parameters to a value that the row gives under another name.
func (r *Builder) alias(v foreign, set json.RawMessage) {
	own, key := v.parameter.Sets, v.parameter.Name
	before := r.Overrides.text(own)
	o := r.Overrides
	sink := parameter.Sink(own)
	if n, ok := parseNumber(v.raw); ok && v.all > 0 && math.Abs(n.float()) >= v.all &&
		(sink.Type() == parameter.Integer || sink.Type() == parameter.Seed) {
		r.inexact(key, n)
		return
	}
	if !r.decodeParameter(&o, sink, key, set) {
		r.mistyped("%s is %s; it must be %s", key, kindJSON(v.raw), parameter.TypeOf(own))
		return
	}
	if before != "" && !reflect.DeepEqual(o, r.Overrides) {
		r.fail("%s is %s and %s is %s, and both set %s; keep one",
			key, abbreviate(v.raw), r.ParameterName(own), abbreviate([]byte(before)), own)
		return
	}
	if r.Overrides = o; before == "" {
		r.aliases = append(r.aliases, alias{own, key})
	}
}

// text returns a parameter's value as JSON, or "" where it is not given.
func (o *Overrides) text(own string) string {
	p := parameter.Sink(own)
	if p == nil || !o.Has(p) {
		return ""
	}
	v := o.Value(p)
	switch v := v.(type) {
	case parameter.ObjectJSON:
		return string(v)
	case parameter.ListJSON:
		return string(v)
	}
	b, _ := json.Marshal(v) // NaN, of a Parquet file, has none
	return string(b)
}

// decodeParameter sets the parameter p to a JSON value that the row gives under key; false means that its type is
// wrong.
func (r *Builder) decodeParameter(o *Overrides, p *parameter.Parameter, key string, raw json.RawMessage) bool {
	switch p.Type() {
	case parameter.TextList:
		list, ok := r.decodeTexts(key, raw)
		if ok {
			*o.Give(p).(*[]string) = list
		}
		return ok
	case parameter.BiasesOfTokens:
		biases, err := parameter.ParseBiases(raw)
		if err != nil {
			r.fail("%s %v", key, err)
		}
		if biases != nil {
			*o.Give(p).(*parameter.Biases) = biases
		}
		return true
	case parameter.IntegerList:
		return json.Unmarshal(raw, o.Give(p).(*[]int)) == nil
	case parameter.Structured:
		if !parameter.GivesStructure(key, raw) {
			return true
		}
		s, err := parameter.ParseStructure(key, raw)
		if err != nil {
			r.fail("%v", err)
		}
		*o.Give(p).(*parameter.Structure) = s
		return true
	case parameter.Boolean:
		var b *bool
		if json.Unmarshal(raw, &b) != nil {
			return false
		}
		if b != nil {
			*o.Give(p).(*bool) = *b
		}
		return true
	case parameter.Word:
		if raw[0] == '{' { // an object stands for its text
			*o.Give(p).(*string) = parameter.ParseJSON(raw)
			return true
		}
		return raw[0] == '"' && json.Unmarshal(raw, o.Give(p)) == nil
	case parameter.Object, parameter.List:
		return giveJSON(o, p, raw)
	}
	v, ok := parseNumber(raw)
	if ok {
		r.override(o, p, key, v)
	}
	return ok
}

// giveJSON sets an object or a list. An empty one is not given.
func giveJSON(o *Overrides, p *parameter.Parameter, raw json.RawMessage) bool {
	text, first := parameter.ParseJSON(raw), byte('[')
	if p.Type() == parameter.Object {
		first = '{'
	}
	switch {
	case text == "" && raw[0] != first && raw[0] != '"':
		return false
	case text == "":
		return true
	case text[0] != first || !json.Valid([]byte(text)):
		return false
	}
	switch at := o.Give(p).(type) {
	case *parameter.ObjectJSON:
		*at = parameter.ObjectJSON(text)
	case *parameter.ListJSON:
		*at = parameter.ListJSON(text)
	}
	return true
}

// decodeTexts reads text or a list of it.
func (r *Builder) decodeTexts(key string, raw json.RawMessage) (texts []string, ok bool) {
	if raw[0] == '"' {
		texts = make([]string, 1)
		return texts, json.Unmarshal(raw, &texts[0]) == nil
	}
	var items []*string
	if json.Unmarshal(raw, &items) != nil {
		return nil, false
	}
	texts = make([]string, len(items))
	for i, s := range items {
		if s == nil {
			r.fail("%s[%d] is null; give text", key, i)
			return texts, true
		}
		texts[i] = *s
	}
	return texts, true
}

// numeric is a number in the widest form of its kind.
type numeric struct {
	isFloat bool
	i       int64
	u       uint64 // the same as i; for unsigned values above its range, big is set
	big     bool
	f       float64
	all     float64 // a float holds all whole numbers below this one; 0 is 2^53
}

func (v numeric) String() string {
	switch {
	case v.isFloat && v.f == math.Trunc(v.f) && math.Abs(v.f) < 1<<100:
		return strconv.FormatFloat(v.f, 'f', 0, 64) // all digits of what may have been an integer
	case v.isFloat:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case v.big:
		return strconv.FormatUint(v.u, 10)
	}
	return strconv.FormatInt(v.i, 10)
}

// whole turns a float that is a whole number into that integer.
func (v numeric) whole() (numeric, bool) {
	if !v.isFloat {
		return v, true
	}
	if v.f != math.Trunc(v.f) || !(math.Abs(v.f) < cmp.Or(v.all, 1<<53)) {
		return v, false
	}
	return numeric{i: int64(v.f), u: uint64(int64(v.f))}, true
}

func (v numeric) float() float64 {
	switch {
	case v.isFloat:
		return v.f
	case v.big:
		return float64(v.u)
	}
	return float64(v.i)
}

func (r *Builder) inexact(key string, v numeric) {
	r.fail("%s is %v, which a floating-point column holds only about; give an integer", key, v)
}

// override sets the numeric parameter p, which the row gives under key.
func (r *Builder) override(o *Overrides, p *parameter.Parameter, key string, v numeric) {
	f := v.float()
	if p.Type() == parameter.Number {
		*o.Give(p).(*float64) = f
		return
	}
	w, ok := v.whole()
	if p.Type() == parameter.Seed && f == parameter.NoSeed {
		return
	}
	if p.Type() == parameter.Seed && (f < 0 || f >= 1<<64 && !w.big) {
		r.fail("%s is %v, but must be %s", key, v, parameter.SeedRange)
		return
	}
	if v = w; !ok {
		if f == math.Trunc(f) {
			r.inexact(key, v)
			return
		}
		r.fail("%s is %v; give a whole number", key, v)
		return
	}
	if p.Type() == parameter.Seed {
		*o.Give(p).(*uint64) = v.u
		return
	}
	i := int(v.i)
	if v.big || int64(i) != v.i {
		r.fail("%s is %v; it must fit a signed %d-bit integer", key, v, strconv.IntSize)
		return
	}
	*o.Give(p).(*int) = i
}
