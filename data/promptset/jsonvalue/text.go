package jsonvalue

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// HasLoneSurrogate reports whether JSON text has a \u escape of half a character.
func HasLoneSurrogate(b []byte) bool {
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
		i++ // skip the escaped character
	}
	return false
}

func IsNull(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// Describe returns the type of a JSON value for an error message.
func Describe(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list " + Abbreviate(raw)
	case '"':
		return "text " + Abbreviate(raw)
	case 't', 'f':
		return "the boolean " + string(raw)
	case 'n':
		return "null"
	}
	return "the number " + Abbreviate(raw)
}

func Abbreviate(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "..."
}

// AppendText appends a JSON string, with U+FFFD for invalid UTF-8 and without the escapes meant for HTML.
func AppendText(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(strings.ToValidUTF8(s, "\uFFFD")); err != nil {
		panic(err) // every string has a JSON form
	}
	return append(b, bytes.TrimRight(out.Bytes(), "\n")...)
}

// AppendFloat appends a number; infinities and NaN, which JSON does not have, become null.
func AppendFloat(b []byte, f float64, bits int) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// Compact removes the white space of a valid JSON value.
func Compact(raw json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// IsEmpty reports whether a member has no value: it is null, an object of nulls, or a list of such.
func IsEmpty(raw json.RawMessage) bool {
	var items []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case IsNull(raw):
		return true
	case raw[0] == '[':
		return json.Unmarshal(raw, &items) == nil && !slices.ContainsFunc(items, func(item json.RawMessage) bool {
			return !IsEmpty(item)
		})
	case raw[0] == '{' && json.Unmarshal(raw, &object) == nil:
		for _, v := range object {
			if !IsNull(v) {
				return false
			}
		}
		return true
	}
	return false
}
