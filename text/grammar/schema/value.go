// Package schema compiles JSON schemas to expressions of package automaton. It rejects what it can't compile exactly,
// with an error that names the keyword and its place.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
)

type valueKind uint8

const (
	nullValue valueKind = iota
	boolValue
	numberValue
	stringValue
	arrayValue
	objectValue
)

// value is a JSON value. The members of objects keep their order.
type value struct {
	kind  valueKind
	yes   bool
	text  string // of a number or string
	names []string
	list  []*value
}

const maxDepth = 500 // of nested arrays and objects

// parseValue parses a JSON text.
func parseValue(text []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more text after the schema")
	}
	return v, nil
}

func readValue(d *json.Decoder, depth int) (*value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return &value{}, nil
	case bool:
		return &value{kind: boolValue, yes: t}, nil
	case json.Number:
		return &value{kind: numberValue, text: t.String()}, nil
	case string:
		return &value{kind: stringValue, text: t}, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("arrays and objects nest deeper than %d", maxDepth)
	}
	v := &value{kind: arrayValue}
	if t == json.Delim('{') {
		v.kind = objectValue
	}
	for d.More() {
		if v.kind == objectValue {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v.names = append(v.names, name.(string))
		}
		item, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.list = append(v.list, item)
	}
	_, err = d.Token()
	if v.kind == objectValue {
		v.keepLast()
	}
	return v, err
}

// keepLast removes members that are repeated later: the last one of a name counts.
func (v *value) keepLast() {
	index := map[string]int{}
	n := 0
	for i, name := range v.names {
		if j, ok := index[name]; ok {
			v.list[j] = v.list[i]
			continue
		}
		index[name] = n
		v.names[n], v.list[n] = name, v.list[i]
		n++
	}
	v.names, v.list = v.names[:n], v.list[:n]
}

// get returns a member of an object, nil if there is none.
func (v *value) get(name string) *value {
	if v.kind == objectValue {
		for i, n := range v.names {
			if n == name {
				return v.list[i]
			}
		}
	}
	return nil
}

func (v *value) has(name string) bool { return v.get(name) != nil }

// decimal is a number as sign and digits before and after the point. It has no leading zero, except for a single 0, and
// no trailing zeros after the point.
type decimal struct {
	negative        bool
	whole, fraction string
}

const maxDigits = 400

// parseDecimal reads a JSON number.
func parseDecimal(text string) (decimal, error) {
	var d decimal
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := rest, "0"
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponent = rest[:i], rest[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok || len(mantissa) > maxDigits || !shift.IsInt64() || shift.Int64() > maxDigits || shift.Int64() < -maxDigits {
		return d, fmt.Errorf("the number %.40s has more than %d digits", text, maxDigits)
	}
	for n := shift.Int64(); n != 0; {
		switch {
		case n > 0:
			if fraction == "" {
				fraction = "0"
			}
			whole, fraction = whole+fraction[:1], fraction[1:]
			n--
		default:
			if whole == "" {
				whole = "0"
			}
			fraction = whole[len(whole)-1:] + fraction
			whole = whole[:len(whole)-1]
			n++
		}
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" {
		whole = "0"
	}
	return decimal{negative && (whole != "0" || fraction != ""), whole, fraction}, nil
}

func (d decimal) zero() bool { return d.whole == "0" && d.fraction == "" }

// String is the shortest spelling without an exponent.
func (d decimal) String() string {
	s := d.whole
	if d.negative {
		s = "-" + s
	}
	if d.fraction != "" {
		s += "." + d.fraction
	}
	return s
}
