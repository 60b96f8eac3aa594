// Package jsonvalue parses JSON without losing how it is written: objects are members in their order, with the text
// of their values, and numbers keep all of their digits.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"
)

// MembersOf returns the members of an object.
func MembersOf(raw json.RawMessage) ([]Member, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("no object")
	}
	return Members(raw)
}

// Member is a key of a JSON object and its value, verbatim.
type Member struct {
	Key string
	Raw json.RawMessage
}

// ParseRow splits a line into its keys and values. The error states what is wrong with the line and what to do.
func ParseRow(line []byte) ([]Member, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not valid UTF-8; re-encode it as UTF-8")
	}
	if HasLoneSurrogate(line) {
		return nil, errors.New(`the line has an unpaired \uD800-\uDFFF escape, which is not a character; remove it`)
	}
	bad := func(err error) error {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			for _, name := range []string{"NaN", "Infinity"} { // Python's json.dumps writes them
				if at := syntax.Offset - 1; at >= 0 && bytes.HasPrefix(line[at:], []byte(name)) {
					return fmt.Errorf("JSON syntax error near byte %d: JSON has no %s; write null", syntax.Offset, name)
				}
			}
			return fmt.Errorf("JSON syntax error near byte %d: %v; write one JSON object a line", syntax.Offset, err)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errors.New("JSON syntax error: the line ends inside the object; write one JSON object a line")
		}
		return fmt.Errorf("JSON syntax error: %v; write one JSON object a line", err)
	}
	// Check the whole line first, because a decoder accepts some text after an error in it.
	if !json.Valid(line) {
		var v any
		return nil, bad(json.Unmarshal(line, &v))
	}
	if line[0] != '{' {
		return nil, errors.New("the line is not a JSON object; write {\"prompt\": ...}")
	}
	return Members(line)
}

// Members splits a valid JSON object into its keys and values.
func Members(object json.RawMessage) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []Member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Key: t.(string)}
		if err := d.Decode(&m.Raw); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o Member) bool { return o.Key == m.Key }) {
			return nil, fmt.Errorf("the key %q is there twice; keep one", m.Key)
		}
		out = append(out, m)
	}
	return out, nil
}

// FindID returns the id that an object has under a key, even if the object is damaged after it. It is empty if the
// key does not come before the damage, or occurs twice.
func FindID(object []byte, key string) (id string) {
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
		if found || IsNull(raw) || !utf8.Valid(raw) || HasLoneSurrogate(raw) || !ParseID(raw, &id) {
			return ""
		}
		found = true
	}
	return id
}

// Find returns the value of a key, nil if there is none.
func Find(object []Member, key string) json.RawMessage {
	if i := slices.IndexFunc(object, func(m Member) bool { return m.Key == key }); i >= 0 {
		return object[i].Raw
	}
	return nil
}

var integer = regexp.MustCompile("^-?[0-9]+$")

// ParseID parses a row's id.
func ParseID(raw json.RawMessage, id *string) bool {
	if raw[0] == '"' {
		return json.Unmarshal(raw, id) == nil
	}
	v, ok := ParseNumber(raw)
	switch w, whole := Whole(v, ok); {
	case whole:
		*id = w.String()
	case integer.Match(raw): // of more than 64 bits
		*id = string(raw)
	default:
		return false
	}
	return true
}

// Join returns the object with these members.
func Join(object []Member) json.RawMessage {
	b := json.RawMessage("{")
	for i, m := range object {
		if i > 0 {
			b = append(b, ',')
		}
		raw := m.Raw
		if IsNull(raw) {
			raw = json.RawMessage("null")
		}
		b = append(append(AppendText(b, m.Key), ':'), raw...)
	}
	return append(b, '}')
}

// AppendKey appends the key of a member to a partial object, after a comma unless it is the first.
func AppendKey(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(AppendText(b, name), ':')
}
