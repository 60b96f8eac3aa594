package jobstate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/vfs"
)

// Each way to write a value is the same setting, and other values, or keys in another order, are another one.
func TestSettingsAreValues(t *testing.T) {
	for _, c := range []struct {
		was, now string
		same     bool
	}{
		{`{"b": 1, "a": [2, {"d": 3, "c": 4}]}`, `{"b":1,"a":[2,{"d":3,"c":4}]}`, true},
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`, false},
		{`[{"b":1,"a":2}]`, `[{"a":2,"b":1}]`, false},
		{`"\u00e9\u0041\/<>&"`, `"éA/\u003c\u003e\u0026"`, true},
		{`{"\u00e9":1}`, `{"é":1}`, true},
		{`"é"`, `"e\u0301"`, false},
		{`[1.0, 10e-1, 100, 0.00, -0, 0.5, 5E-1]`, `[1, 1, 1e+2, 0, 0, 0.50, 0.5]`, true},
		{`18446744073709551615`, `18446744073709551614`, false},
		{`18446744073709551615`, `18446744073709551615.0`, true},
		{`1e400`, `1e401`, false},
		{`1e99999999999999999999`, `1e99999999999999999998`, false},
		{`1`, `-1`, false},
		{`1`, `10`, false},
		{`1`, `"1"`, false},
		{`"1e0"`, `"1"`, false},
		{`[1,2]`, `[[1],2]`, false},
		{`{"a":[]}`, `{"a":{}}`, false},
		{`null`, `false`, false},
		{`""`, `null`, false},
		{`"a\" \"b"`, `["a","b"]`, false},
	} {
		got := differ(t, json.RawMessage(c.was), json.RawMessage(c.now))
		if same := len(got) == 0; same != c.same {
			t.Errorf("%s and %s: same is %v: %s", c.was, c.now, same, got)
		}
	}
	if got := differ(t, "a\xff", "a\xff"); len(got) > 0 {
		t.Errorf("text that is not UTF-8: %s", got)
	}
}

// differ describes a job with a setting, writes and reads the description, and returns how a job with another value
// differs from it.
func differ(t interface{ Fatal(...any) }, was, now any) Differences {
	s, err := Open(vfs.NewMem(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Begin(&Description{Settings: Settings{"x": was}}); err != nil {
		t.Fatal(err)
	}
	return (&Description{Settings: Settings{"x": now}}).Differences(s.Job())
}

// For any value of a setting, a job with the same value is the same job, however both are written.
func TestSettingsOfAnyValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue(3).Draw(t, "value")
		was, now := v.write(t), v.write(t)
		if got := differ(t, json.RawMessage(was), json.RawMessage(now)); len(got) > 0 {
			t.Fatalf("%s and %s: %q", was, now, got)
		}
		other := value{list: []value{v}}
		if got := differ(t, json.RawMessage(was), json.RawMessage(other.write(t))); len(got) == 0 {
			t.Fatalf("%s is the same in a list", was)
		}
	})
}

// value is a JSON value, which can be written in several ways.
type value struct {
	text   *string
	number *int64 // in hundredths
	word   string
	list   []value
	keys   []string // of an object, whose values are in list
}

func jsonValue(depth int) *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		switch {
		case kind == 0:
			s := rapid.StringN(0, 6, -1).Draw(t, "text")
			return value{text: &s}
		case kind == 1:
			n := rapid.Int64().Draw(t, "number")
			return value{number: &n}
		case kind == 2 || depth == 0:
			return value{word: rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")}
		case kind == 3:
			return value{list: append([]value{}, rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "list")...)}
		}
		keys := rapid.SliceOfNDistinct(rapid.StringN(0, 4, -1), 0, 3, rapid.ID[string]).Draw(t, "keys")
		return value{keys: append([]string{}, keys...),
			list: rapid.SliceOfN(jsonValue(depth-1), len(keys), len(keys)).Draw(t, "values")}
	})
}

// write writes the value, with its keys in their order.
func (v value) write(t *rapid.T) string {
	blank := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank") }
	switch {
	case v.text != nil:
		return writeText(t, *v.text)
	case v.number != nil:
		return writeNumber(t, *v.number)
	case v.word != "":
		return v.word
	}
	var b strings.Builder
	open, end := "[", "]"
	if v.keys != nil {
		open, end = "{", "}"
	}
	b.WriteString(open + blank())
	for i, item := range v.list {
		if i > 0 {
			b.WriteString("," + blank())
		}
		if v.keys != nil {
			b.WriteString(writeText(t, v.keys[i]) + ":" + blank())
		}
		b.WriteString(item.write(t) + blank())
	}
	return b.String() + end
}

func writeText(t *rapid.T, s string) string {
	if !rapid.Bool().Draw(t, "escaped") {
		b, _ := json.Marshal(s)
		return string(b)
	}
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff || r == utf8.RuneError || r >= 0xd800 && r < 0xe000 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return `"` + b.String() + `"`
}

func writeNumber(t *rapid.T, hundredths int64) string {
	sign, digits := "", fmt.Sprintf("%03d", hundredths)
	if hundredths < 0 {
		sign, digits = "-", fmt.Sprintf("%03d", hundredths)[1:]
	}
	for len(digits) < 3 {
		digits = "0" + digits
	}
	point := len(digits) - 2
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		return fmt.Sprintf("%s%s.%s", sign, digits[:point], digits[point:])
	case 1:
		return fmt.Sprintf("%s%s.%s00E0", sign, digits[:point], digits[point:])
	}
	whole := strings.TrimLeft(digits, "0")
	if whole == "" {
		whole = "0"
	}
	return fmt.Sprintf("%s%se-2", sign, whole)
}
