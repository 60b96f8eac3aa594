package jsonvalue

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
)

func Whole(v Number, ok bool) (Number, bool) {
	if !ok {
		return v, false
	}
	return v.Whole()
}

// ParseNumber parses a JSON number.
func ParseNumber(raw json.RawMessage) (Number, bool) {
	s := string(raw)
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return Number{}, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Number{Int: i, Uint: uint64(i)}, true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Number{Int: math.MaxInt64, Uint: u, Big: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return Number{IsFloat: true, Float: f}, err == nil
}

// Number is a number in the widest form of its kind.
type Number struct {
	IsFloat bool
	Int     int64
	Uint    uint64 // equal to Int; set even if the value exceeds Int's range, and then Big is set
	Big     bool
	Float   float64
	Exact   float64 // a float represents all integers below this one; 0 stands for 2^53
}

func (v Number) String() string {
	switch {
	case v.IsFloat && v.Float == math.Trunc(v.Float) && math.Abs(v.Float) < 1<<100:
		return strconv.FormatFloat(v.Float, 'f', 0, 64) // all digits, because it may have been an integer
	case v.IsFloat:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case v.Big:
		return strconv.FormatUint(v.Uint, 10)
	}
	return strconv.FormatInt(v.Int, 10)
}

// Whole converts a float without a fraction to an integer.
func (v Number) Whole() (Number, bool) {
	if !v.IsFloat {
		return v, true
	}
	if v.Float != math.Trunc(v.Float) || !(math.Abs(v.Float) < cmp.Or(v.Exact, 1<<53)) {
		return v, false
	}
	return Number{Int: int64(v.Float), Uint: uint64(int64(v.Float))}, true
}

func (v Number) Float64() float64 {
	switch {
	case v.IsFloat:
		return v.Float
	case v.Big:
		return float64(v.Uint)
	}
	return float64(v.Int)
}
