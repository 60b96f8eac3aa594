package record

import (
	"encoding/json"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/schema"
)

// DecodeJSON sets the row's known fields from an object and returns which prompts it has.
func (r *Builder) DecodeJSON(object []jsonvalue.Member, m *Mapping) (given []string) {
	if m.Template != nil {
		given = append(given, "prompt")
		columns := map[string]json.RawMessage{}
		for _, name := range m.Template.Uses() {
			if raw := jsonvalue.Find(object, name); raw != nil {
				columns[name] = raw
			}
		}
		m.Render(r, columns)
	}
	for _, name := range schema.KnownNames {
		key := m.ColumnOf(name)
		raw := jsonvalue.Find(object, key)
		if key == "" || jsonvalue.IsNull(raw) || !schema.Concerns(name, m.Forms(given)) ||
			raw[0] == '[' && schema.IsResult(name, func(key string) bool {
				return jsonvalue.Find(object,
					key) != nil
			}) {
			continue
		}
		if slices.Contains(schema.PromptNames, name) {
			given = append(given, name)
		}
		r.Blame(key, openai.CodeInvalidValue, func() {
			if !r.DecodeKnown(name, raw) {
				r.LostID = r.LostID || name == schema.IDName
				r.Mistyped("%s is %s; it must be %s", key, jsonvalue.Describe(raw), schema.Wanted(name))
			}
		})
	}
	for _, name := range m.Reads.Seconds {
		r.DecodeSeconds(name, jsonvalue.Find(object, name))
	}
	var values []Foreign
	for _, o := range object {
		if jsonvalue.IsNull(o.Raw) {
			continue
		}
		for _, p := range m.ForeignNames(o.Key) {
			values = append(values, Foreign{Parameter: p, Raw: o.Raw})
		}
	}
	r.Apply(values, m.Forms(given))
	return given
}

// DecodeKnown sets one known field; false means that its type is wrong.
func (r *Builder) DecodeKnown(name string, raw json.RawMessage) bool {
	switch name {
	case "prompt":
		return json.Unmarshal(raw, &r.Prompt) == nil
	case "messages":
		return r.DecodeMessages(raw)
	case "prompt_token_ids":
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return false
		}
		for _, item := range items {
			v, ok := jsonvalue.ParseNumber(item)
			if v, ok = jsonvalue.Whole(v, ok); !ok || v.Big {
				r.Fail("%s[%d] is %s; give a token id", r.tokensName(), len(r.TokenIDs), item)
				return true
			}
			r.Token(v.Int)
		}
	case schema.IDName:
		return jsonvalue.ParseID(raw, &r.ID)
	case schema.ParentName:
		return jsonvalue.ParseID(raw, &r.Parent.ID)
	case "parent_generation", "parent_length":
		v, ok := jsonvalue.ParseNumber(raw)
		if ok {
			r.ParentNumber(name, v)
		}
		return ok
	default:
		return r.decodeParameter(&r.Overrides, parameter.Sink(name), name, raw)
	}
	return true
}

// DecodeSeconds sets the texts that make pairs with the prompt, from the column of a name: text, or a list of texts.
func (r *Builder) DecodeSeconds(name string, raw json.RawMessage) {
	if jsonvalue.IsNull(raw) {
		return
	}
	r.Blame(name, openai.CodeInvalidValue, func() {
		if r.Seconds != nil {
			r.Fail("%s is given together with another column of documents; keep one and leave the other null", name)
			return
		}
		var one string
		if json.Unmarshal(raw, &one) == nil {
			r.Seconds = []string{one}
			return
		}
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			r.Mistyped("%s is %s; it must be text or a list of texts", name, jsonvalue.Describe(raw))
			return
		}
		if r.Seconds = make([]string, len(items)); len(items) == 0 {
			r.Fail("%s is empty; give at least one text", name)
		}
		for i, item := range items {
			if jsonvalue.IsNull(item) || json.Unmarshal(item, &r.Seconds[i]) != nil {
				r.Mistyped("%s[%d] is %s; it must be text", name, i, jsonvalue.Describe(item))
			}
		}
	})
}
