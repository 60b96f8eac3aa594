package record

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/schema"
)

// Foreign is a value of a row under a name that other engines use, or a parameter that Quire does not have.
type Foreign struct {
	Parameter *parameter.Parameter
	Raw       json.RawMessage // not null
	Exact     float64         // for a column of floats: it represents all integers below this one
}

// Apply judges the values of a row, whose own parameters are set. given lists its prompt columns.
func (r *Builder) Apply(values []Foreign, given []string) {
	if len(given) == 0 && r.Parent.ID != "" {
		given = []string{schema.ParentName} // parameters that concern a form of prompts do not apply
	}
	values = slices.DeleteFunc(values, func(v Foreign) bool {
		return !slices.ContainsFunc(given, v.Parameter.Concerns)
	})
	// The treatment of other values depends on what the row gives under any name.
	values = slices.DeleteFunc(values, func(v Foreign) bool {
		verdict, set := v.Parameter.Judge(v.Raw, r.Overrides.Text)
		if verdict == parameter.Applied {
			r.Blame(v.Parameter.Name, openai.CodeInvalidValue, func() { r.alias(v, set) })
		}
		return verdict == parameter.Applied
	})
	for _, v := range values {
		p := v.Parameter
		switch verdict, _ := p.Judge(v.Raw, r.Overrides.Text); verdict {
		case parameter.Refused:
			if p.Conditional() {
				alone := &Builder{Row: &Row{File: r.File, FileRow: r.FileRow, Line: r.Line}, InBody: r.InBody}
				alone.refuse(v)
				r.doubts = append(r.doubts, doubt{p, alone.Err.(*RowError)})
			} else {
				r.refuse(v)
			}
		case parameter.Contradicts:
			r.Blame(p.Name, openai.CodeInvalidValue, func() {
				r.Fail("%s is %s and %s is %s, which contradict each other; keep one",
					p.Name, v.Raw, r.ParameterName(p.Sets), r.Overrides.Text(p.Sets))
			})
		case parameter.NoEffect:
			if p.Sets == "temperature" && p.Excludes(v.Raw) != "" {
				r.Overrides.Sampled = &p.Name
			}
		}
	}
}

// refuse records a parameter with an unsupported value.
func (r *Builder) refuse(v Foreign) {
	p, note, leave, instead := v.Parameter, "", "leave it out", v.Parameter.Instead()
	if p.Note != "" {
		note = " (" + p.Note + ")"
	}
	switch inBody := r.InBody; {
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
	r.Blame(p.Name, code, func() {
		r.Fail("parameter %s is not supported as %s%s; %s", p.Name, jsonvalue.Abbreviate(v.Raw), note, leave)
	})
}

// alias sets one of Quire's own parameters to a value that the row gives under another name.
func (r *Builder) alias(v Foreign, set json.RawMessage) {
	own, key := v.Parameter.Sets, v.Parameter.Name
	before := r.Overrides.Text(own)
	o := r.Overrides
	sink := parameter.Sink(own)
	if n, ok := jsonvalue.ParseNumber(v.Raw); ok && v.Exact > 0 && math.Abs(n.Float64()) >= v.Exact &&
		(sink.Type() == parameter.Integer || sink.Type() == parameter.Seed) {
		r.inexact(key, n)
		return
	}
	if !r.decodeParameter(&o, sink, key, set) {
		r.Mistyped("%s is %s; it must be %s", key, jsonvalue.Describe(v.Raw), parameter.TypeOf(own))
		return
	}
	if before != "" && !reflect.DeepEqual(o, r.Overrides) {
		r.Fail("%s is %s and %s is %s, and both set %s; keep one",
			key, jsonvalue.Abbreviate(v.Raw), r.ParameterName(own), jsonvalue.Abbreviate([]byte(before)), own)
		return
	}
	if r.Overrides = o; before == "" {
		r.aliases = append(r.aliases, alias{own, key})
	}
}

// Text returns a parameter's value as JSON, or "" if it is not given.
func (o *Overrides) Text(own string) string {
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
	b, _ := json.Marshal(v) // fails for NaN, from a Parquet file
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
			r.Fail("%s %v", key, err)
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
			r.Fail("%v", err)
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
		if raw[0] == '{' { // an object in place of its text
			*o.Give(p).(*string) = parameter.ParseJSON(raw)
			return true
		}
		return raw[0] == '"' && json.Unmarshal(raw, o.Give(p)) == nil
	case parameter.Object, parameter.List:
		return GiveJSON(o, p, raw)
	}
	v, ok := jsonvalue.ParseNumber(raw)
	if ok {
		r.Override(o, p, key, v)
	}
	return ok
}

// GiveJSON sets an object or a list. An empty one is not given.
func GiveJSON(o *Overrides, p *parameter.Parameter, raw json.RawMessage) bool {
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
	switch target := o.Give(p).(type) {
	case *parameter.ObjectJSON:
		*target = parameter.ObjectJSON(text)
	case *parameter.ListJSON:
		*target = parameter.ListJSON(text)
	}
	return true
}

// decodeTexts parses text or a list of texts.
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
			r.Fail("%s[%d] is null; give text", key, i)
			return texts, true
		}
		texts[i] = *s
	}
	return texts, true
}

func (r *Builder) inexact(key string, v jsonvalue.Number) {
	r.Fail("%s is %v, which a floating-point column holds only about; give an integer", key, v)
}

// Override sets the numeric parameter p, which the row gives under key.
func (r *Builder) Override(o *Overrides, p *parameter.Parameter, key string, v jsonvalue.Number) {
	f := v.Float64()
	if p.Type() == parameter.Number {
		*o.Give(p).(*float64) = f
		return
	}
	w, ok := v.Whole()
	if p.Type() == parameter.Seed && f == parameter.NoSeed {
		return
	}
	if p.Type() == parameter.Seed && (f < 0 || f >= 1<<64 && !w.Big) {
		r.Fail("%s is %v, but must be %s", key, v, parameter.SeedRange)
		return
	}
	if v = w; !ok {
		if f == math.Trunc(f) {
			r.inexact(key, v)
			return
		}
		r.Fail("%s is %v; give a whole number", key, v)
		return
	}
	if p.Type() == parameter.Seed {
		*o.Give(p).(*uint64) = v.Uint
		return
	}
	i := int(v.Int)
	if v.Big || int64(i) != v.Int {
		r.Fail("%s is %v; it must fit a signed %d-bit integer", key, v, strconv.IntSize)
		return
	}
	*o.Give(p).(*int) = i
}
