package parametertest

import (
	"math"
	"slices"
	"testing"

	"github.com/quire/quire/data/parameter"
)

// The ends of ranges are found.
func TestProbes(t *testing.T) {
	find := func(name string) *parameter.Parameter {
		for p := range Numbers() {
			if p.Name == name {
				return p
			}
		}
		t.Fatalf("%s is no numeric parameter", name)
		return nil
	}
	for name, ends := range map[string][]string{
		"n":                 {"0", "1", "1048576", "1048577"},
		"min_tokens":        {"0", "-1", "256", "257"},
		"top_p":             {"0", "5e-324", "1", "1.0000000000000002"},
		"temperature":       {"-5e-324", "3.4028234663852886e+38", "3.402823466385289e+38"},
		"frequency_penalty": {"-2", "-2.0000000000000004", "2", "2.0000000000000004"},
	} {
		probes := Probes(find(name))
		for _, end := range ends {
			if !slices.Contains(probes, end) {
				t.Errorf("%s: %v lacks %s", name, probes, end)
			}
		}
	}
	for _, c := range []struct {
		name, text string
		want       Outcome
		value      any
	}{
		{"top_p", "null", Absent, nil}, {"top_p", "1", Taken, 1.0}, {"top_p", "1e400", Mistyped, nil},
		{"top_p", "1.5", OutOfRange, 1.5}, {"top_k", "2.0", Taken, 2}, {"top_k", "2.5", Mistyped, nil},
		{"top_k", `"2"`, Mistyped, nil}, {"top_k", "9007199254740993.0", Mistyped, nil},
		{"seed", "18446744073709551615", Taken, uint64(math.MaxUint64)}, {"seed", "-1", Absent, nil},
		{"seed", "-2", Mistyped, nil},
		{"seed", "18446744073709551616", Mistyped, nil},
	} {
		if got, value := Want(find(c.name), c.text); got != c.want || value != c.value {
			t.Errorf("%s %s: %v %v", c.name, c.text, got, value)
		}
	}
}
