package parameter

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParseBiases(t *testing.T) {
	for raw, want := range map[string]string{
		`{"3": 1.5, "7": -100}`: "map[3:1.5 7:-100]", `"{\"3\": 1}"`: "map[3:1]", `{}`: "map[]", `{"3": null}`: "map[]",
		`{"3": 100.5}`: "has 100.5 for token 3, but must have numbers from -100 to 100",
		`{"-1": 1}`:    `has "-1", which is not a token id`, `{"a": 1}`: `has "a", which is not a token id`,
		`{"2147483648": 1}`: "which is not a token id", `[1]`: "must be a JSON object of numbers by token ids",
		`{"3": "1"}`: "must be a JSON object", `1`: "must be a JSON object", `{"3": 1e999}`: "must be a JSON object",
	} {
		got, err := ParseBiases([]byte(raw))
		if text := fmt.Sprint(got); err == nil && text != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", raw, got, err, want)
		}
	}
}

// FuzzParseBiases reads anything: what it takes has tokens and numbers in their range, and is read again as it is.
func FuzzParseBiases(f *testing.F) {
	for _, raw := range []string{`{"3": 1.5}`, `"{\"3\": 1}"`, `{"3": null}`, `{"-1": 1}`, `{"3": 1e999}`, `[1]`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ParseBiases(raw)
		if err != nil {
			return
		}
		for token, value := range b {
			if token < 0 || !(math.Abs(float64(value)) <= 100) {
				t.Fatalf("%q has %v for token %d", raw, value, token)
			}
		}
	})
}
