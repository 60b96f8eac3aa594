package promptset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// member is one key of a JSON object with its value as written.
type member struct {
	key string
	raw json.RawMessage
}

// members splits a line into its keys and values. The error says what is wrong with the line and what to do.
func members(line []byte) ([]member, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not valid UTF-8; re-encode it as UTF-8")
	}
	if loneSurrogate(line) {
		return nil, errors.New(`the line has an unpaired \uD800-\uDFFF escape, which is no character; remove it`)
	}
	bad := func(err error) error {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("JSON syntax error near byte %d: %v; write one JSON object a line", syntax.Offset, err)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errors.New("JSON syntax error: the line ends inside the object; write one JSON object a line")
		}
		return fmt.Errorf("JSON syntax error: %v; write one JSON object a line", err)
	}
	// Checked as a whole first: a decoder accepts some text after an error in it.
	if !json.Valid(line) {
		var v any
		return nil, bad(json.Unmarshal(line, &v))
	}
	if line[0] != '{' {
		return nil, errors.New("the line is not a JSON object; write {\"prompt\": ...}")
	}
	return membersOf(line)
}

// membersOf splits a valid JSON object into its keys and values.
func membersOf(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: t.(string)}
		if err := d.Decode(&m.raw); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o member) bool { return o.key == m.key }) {
			return nil, fmt.Errorf("the key %q is there twice; keep one", m.key)
		}
		out = append(out, m)
	}
	return out, nil
}

// idIn returns the id that an object has under a key, if it can be read although the object is damaged: it stands
// before the damage, and once. Otherwise it is empty.
func idIn(object []byte, key string) (id string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	for found := false; d.More(); {
		t, err := d.Token()
		name, isKey := t.(string)
		var raw json.RawMessage
		if err != nil || !isKey || d.Decode(&raw) != nil {
			break
		}
		if name != key {
			continue
		}
		if found || isNullJSON(raw) || !utf8.Valid(raw) || loneSurrogate(raw) || !decodeID(raw, &id) {
			return ""
		}
		found = true
	}
	return id
}

// loneSurrogate says whether JSON text has a \u escape of half a character.
func loneSurrogate(b []byte) bool {
	if !bytes.Contains(b, []byte(`\u`)) {
		return false
	}
	escape := func(i int) (rune, bool) {
		if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if r, ok := escape(i); ok && r >= 0xD800 && r < 0xE000 {
			if low, ok := escape(i + 6); !ok || r >= 0xDC00 || low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 11
			continue
		}
		i++ // the escaped character
	}
	return false
}

// valueOf returns the value of a key, nil where it is not there.
func valueOf(object []member, key string) json.RawMessage {
	if i := slices.IndexFunc(object, func(m member) bool { return m.key == key }); i >= 0 {
		return object[i].raw
	}
	return nil
}

func isNullJSON(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// decodeJSON sets the row's known fields from an object and returns which prompts are given.
func (r *Builder) decodeJSON(object []member, m *Mapping) (given []string) {
	if m.Template != nil {
		given = append(given, "prompt")
		columns := map[string]json.RawMessage{}
		for _, name := range m.Template.Uses() {
			if raw := valueOf(object, name); raw != nil {
				columns[name] = raw
			}
		}
		m.render(r, columns)
	}
	for _, name := range knownNames {
		key := m.columnOf(name)
		raw := valueOf(object, key)
		if key == "" || isNullJSON(raw) || !concerns(name, m.forms(given)) ||
			raw[0] == '[' && isResult(name, func(key string) bool { return valueOf(object, key) != nil }) {
			continue
		}
		if slices.Contains(promptNames, name) {
			given = append(given, name)
		}
		r.blame(key, openai.CodeInvalidValue, func() {
			if !r.decodeKnown(name, raw) {
				r.LostID = r.LostID || name == idName
				r.mistyped("%s is %s; it must be %s", key, kindJSON(raw), wanted(name))
			}
		})
	}
	var values []foreign
	for _, o := range object {
		if isNullJSON(o.raw) {
			continue
		}
		for _, p := range foreignNames(o.key) {
			values = append(values, foreign{parameter: p, raw: o.raw})
		}
	}
	r.apply(values, m.forms(given))
	return given
}

// mistyped notes a value of another type than it must be.
func (r *Builder) mistyped(format string, args ...any) {
	r.blame("", openai.CodeInvalidType, func() { r.fail(format, args...) })
}

// decodeKnown sets one known field; false means that its type is wrong.
func (r *Builder) decodeKnown(name string, raw json.RawMessage) bool {
	switch name {
	case "prompt":
		return json.Unmarshal(raw, &r.Prompt) == nil
	case "messages":
		return r.decodeMessages(raw)
	case "prompt_token_ids":
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return false
		}
		for _, item := range items {
			v, ok := parseNumber(item)
			if v, ok = whole(v, ok); !ok || v.big {
				r.fail("prompt_token_ids[%d] is %s; give a token id", len(r.TokenIDs), item)
				return true
			}
			r.token(v.i)
		}
	case idName:
		return decodeID(raw, &r.ID)
	case parentName:
		return decodeID(raw, &r.Parent.ID)
	case "parent_generation", "parent_length":
		v, ok := parseNumber(raw)
		if ok {
			r.parentNumber(name, v)
		}
		return ok
	default:
		return r.decodeParameter(&r.Overrides, parameter.Sink(name), name, raw)
	}
	return true
}

// decodeID reads the name of a row.
func decodeID(raw json.RawMessage, id *string) bool {
	if raw[0] == '"' {
		return json.Unmarshal(raw, id) == nil
	}
	v, ok := parseNumber(raw)
	if v, ok = whole(v, ok); ok {
		*id = v.String()
	}
	return ok
}

func whole(v numeric, ok bool) (numeric, bool) {
	if !ok {
		return v, false
	}
	return v.whole()
}

// parseNumber reads a JSON number.
func parseNumber(raw json.RawMessage) (numeric, bool) {
	s := string(raw)
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return numeric{}, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return numeric{i: i, u: uint64(i)}, true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return numeric{i: math.MaxInt64, u: u, big: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return numeric{isFloat: true, f: f}, err == nil
}

// kindJSON names the type of a JSON value for an error message.
func kindJSON(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list " + abbreviate(raw)
	case '"':
		return "text " + abbreviate(raw)
	case 't', 'f':
		return "the boolean " + string(raw)
	case 'n':
		return "null"
	}
	return "the number " + abbreviate(raw)
}

func abbreviate(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "..."
}
