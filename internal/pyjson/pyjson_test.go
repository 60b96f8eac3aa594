package pyjson

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestStandard(t *testing.T) {
	for in, want := range map[string]string{
		"\xef\xbb\xbf{}":                        "{}",
		`{"a": NaN, "b": [0.0, Infinity]}`:      `{"a": {"__float__": "NaN"}, "b": [0.0, {"__float__": "Infinity"}]}`,
		`[-Infinity,1]`:                         `[{"__float__": "-Infinity"},1]`,
		`{"NaN": "Infinity \" NaN", "x": "\\"}`: `{"NaN": "Infinity \" NaN", "x": "\\"}`,
		`{"a": "NaN`:                            `{"a": "NaN`,
		`"NaN\`:                                 `"NaN\`,
		`{"a": 1}`:                              `{"a": 1}`,
		`{"a": {"__float__": "Infinity"}, "b":1}`: `{"a": {"__float__": "Infinity"}, "b":1}`,
	} {
		if got := string(Standard([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestStandardLeavesJSON shows that JSON comes out as it went in.
func TestStandardLeavesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune{'N', 'a', 'I', '"', '\\', '{', 'n'})).Draw(t, "text")
		text += "NaN Infinity"
		data, err := json.Marshal(map[string]any{text: []any{text, 1.5, nil}})
		if err != nil {
			t.Fatal(err)
		}
		if got := Standard(data); string(got) != string(data) {
			t.Errorf("%s became %s", data, got)
		}
	})
}
