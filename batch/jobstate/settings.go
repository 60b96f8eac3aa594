package jobstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Settings are the settings of a job by name: any values that JSON can hold.
//
// Objects read from job.json are [json.RawMessage]: the order of their keys may decide completions, as the order of
// the properties of a JSON schema does, so it is kept and compared. The notation of a value is not compared: escapes,
// blanks, and forms of the same number do not make a difference.
type Settings map[string]any

// UnmarshalJSON parses settings in the form of job.json.
func (s *Settings) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*s = Settings{}
	for name, value := range raw {
		v, err := settingOf(value)
		if err != nil {
			return err
		}
		(*s)[name] = v
	}
	return nil
}

// settingOf parses a value. Objects stay text.
func settingOf(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '{':
		return slices.Clone(raw), nil
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
		list := make([]any, len(items))
		for i, item := range items {
			v, err := settingOf(item)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // seeds need all 64 bits
	var v any
	return v, d.Decode(&v)
}

// differing returns the names of the settings that differ from was, sorted.
func (s Settings) differing(was Settings) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if _, there := was[name]; !there || canonical(s.text(name)) != canonical(was.text(name)) {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, there := s[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// text returns a setting as JSON; "" if it does not exist.
func (s Settings) text(name string) string {
	v, there := s[name]
	if !there {
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// canonical returns JSON in a canonical form: two texts have the same form if they have the same values, with the
// keys of objects in the same order. Text that is not JSON stays as it is.
func canonical(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	for {
		token, err := d.Token()
		switch {
		case err == io.EOF:
			return b.String()
		case err != nil:
			return text
		}
		switch token := token.(type) {
		case string:
			fmt.Fprintf(&b, "%q ", token)
		case json.Number:
			b.WriteString(canonicalNumber(string(token)) + " ")
		default: // a delimiter, a boolean or null
			fmt.Fprintf(&b, "%v ", token)
		}
	}
}

// canonicalNumber writes a number as an integer that does not end with 0 and an exponent of ten: 1.0, 10e-1 and 1 are
// all 1e0. A number keeps all its digits.
func canonicalNumber(text string) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	e, err := strconv.ParseInt("0"+exponent, 10, 64)
	if sign := strings.TrimLeft(exponent, "+"); sign != "" {
		e, err = strconv.ParseInt(sign, 10, 32)
	}
	if err != nil { // the exponent is out of range, so the text is compared as it is
		return text
	}
	trimmed := strings.TrimRight(digits, "0")
	e += int64(len(digits) - len(trimmed) - len(fraction))
	sign := ""
	if text[0] == '-' {
		sign = "-"
	}
	return fmt.Sprintf("%s%se%d", sign, trimmed, e)
}
