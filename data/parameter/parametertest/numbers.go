// Package parametertest states how values of numeric parameters must be treated, for tests of all the ways to give
// them. It takes names, types and ranges from the table of parameters, so that a new parameter is tested as soon as
// it is added.
package parametertest

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/data/parameter"
)

// Numbers iterates over Quire's own numeric parameters.
func Numbers() iter.Seq[*parameter.Parameter] {
	return func(yield func(*parameter.Parameter) bool) {
		for p := range parameter.Own() {
			switch p.Type() {
			case parameter.Integer, parameter.Number, parameter.Seed:
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Outcome is how a value must be treated.
type Outcome int

// The outcomes.
const (
	Absent   Outcome = iota // as if it were not given
	Taken                   // the parameter has the value
	Mistyped                // an error: it is not a number, or not of the parameter's type
	OutOfRange
)

// Want returns how a JSON value of a parameter must be treated, and the value if it is taken or out of its range.
func Want(p *parameter.Parameter, text string) (Outcome, any) {
	text = strings.TrimSpace(text)
	if text == "null" {
		return Absent, nil
	}
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return Mistyped, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Mistyped, nil
	}
	return want(p, f, text, 1<<53)
}

// WantFloat is Want for a number of a binary file, in a type that holds all integers below a given number.
func WantFloat(p *parameter.Parameter, f, below float64) (Outcome, any) { return want(p, f, "", below) }

// want takes text as an integer if it is one, and else f if it is below a given number.
func want(p *parameter.Parameter, f float64, text string, below float64) (Outcome, any) {
	if p.Type() == parameter.Number {
		return allowed(p, f)
	}
	if p.Type() == parameter.Seed && f == parameter.NoSeed {
		return Absent, nil
	}
	if p.Type() == parameter.Seed {
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return allowed(p, u)
		}
	} else if i, err := strconv.Atoi(text); err == nil {
		return allowed(p, i)
	}
	if f != math.Trunc(f) || !(math.Abs(f) < below) || p.Type() == parameter.Seed && f < 0 {
		return Mistyped, nil
	}
	if p.Type() == parameter.Seed {
		return allowed(p, uint64(f))
	}
	return allowed(p, int(f))
}

func allowed(p *parameter.Parameter, v any) (Outcome, any) {
	if !Allows(p, v) {
		return OutOfRange, v
	}
	return Taken, v
}

// Allows reports whether a parameter may have a value, an int, uint64 or float64, with the defaults of the others.
func Allows(p *parameter.Parameter, v any) bool {
	set := parameter.Defaults()
	switch target := p.At(&set).(type) {
	case *int:
		*target = v.(int)
	case *uint64:
		*target = v.(uint64)
	case *float64:
		*target = v.(float64)
	}
	return set.Check(func(own string) string { return own }) == nil
}

// Probes returns JSON values of a parameter: values on both sides of each end of its range, and odd ones.
func Probes(p *parameter.Parameter) []string {
	list := []string{"null", `""`, `"1"`, `"NaN"`, "true", "[1]", "[]", `{"a":1}`, "0", "-0", "-0.0", "1", "-1", "2.0", "1e1",
		"0.5", "-0.5", "1e-400", "1e308", "-1e308", "1e400", "-1e400", "9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "18446744073709551615", "18446744073709551616", "9007199254740993.0", "5e-324",
		"100000000000000000000000000000"}
	for _, edge := range edges(p) {
		switch v := edge.(type) {
		case int:
			list = append(list, strconv.Itoa(v))
		case float64:
			list = append(list, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// edges returns the last values that a parameter may have, and the first that it may not, on both sides of its
// default.
func edges(p *parameter.Parameter) []any {
	set := parameter.Defaults()
	var found []any
	switch target := p.At(&set).(type) {
	case *int:
		for _, far := range []int{math.MinInt, math.MaxInt} {
			in, out := bisect(*target, far, func(v int) bool { return Allows(p, v) })
			found = append(found, in, out)
		}
	case *float64:
		for _, far := range []float64{-math.MaxFloat64, math.MaxFloat64} {
			in, out := bisect(order(*target), order(far), func(v int) bool { return Allows(p, float(v)) })
			found = append(found, float(in), float(out))
		}
	}
	return found
}

// bisect returns neighbours such that good holds only for the first. It must hold for in. If it also holds for out,
// the range has no end.
func bisect(in, out int, good func(int) bool) (last, first int) {
	if !good(in) || good(out) {
		return in, out
	}
	for {
		middle := in/2 + out/2 + (in%2+out%2)/2
		switch {
		case middle == in || middle == out:
			return in, out
		case good(middle):
			in = middle
		default:
			out = middle
		}
	}
}

// order numbers float64s in ascending order, and float is its inverse.
func order(f float64) int {
	bits := int(math.Float64bits(f))
	if bits < 0 {
		return math.MinInt - bits
	}
	return bits
}

func float(n int) float64 {
	if n < 0 {
		n = math.MinInt - n
	}
	return math.Float64frombits(uint64(n))
}
