package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

func filterAbs(_ *run, v any, p *params) (any, error) {
	if n := exact(v); n != nil {
		return whole(new(big.Int).Abs(n)), p.done()
	}
	f, err := toFloat(v)
	if err != nil {
		return nil, err
	}
	return math.Abs(f), p.done()
}

func filterFloat(_ *run, v any, p *params) (any, error) {
	otherwise := p.any("default", 0.0)
	if err := p.done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if f, ok := parseFloat(s); ok {
			return f, nil
		}
		return otherwise, nil
	}
	if _, _, _, ok := number(v); ok {
		return toFloat(v)
	}
	return otherwise, nil
}

func filterInt(_ *run, v any, p *params) (any, error) {
	otherwise, base := p.any("default", 0), p.int("base", 10)
	if err := p.done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if n, ok := parseInt(s, base); ok {
			return n, nil
		}
		if f, ok := parseFloat(s); ok {
			if n, err := truncated(f); err == nil {
				return n, nil
			}
		}
		return otherwise, nil
	}
	if n := exact(v); n != nil {
		return whole(n), nil
	}
	if f, ok := v.(float64); ok && !math.IsNaN(f) {
		return truncated(f)
	}
	return otherwise, nil
}

// filterRound is Python's round, which leaves integers integers, or its ceil and floor.
func filterRound(r *run, v any, p *params) (any, error) {
	precision, method := p.int("precision", 0), p.text("method", "common")
	if err := p.done(); err != nil {
		return nil, err
	}
	_, _, isInt, ok := number(v)
	if !ok {
		return nil, fmt.Errorf("'%s' is no number", typeName(v))
	}
	if precision < -400 || precision > 400 {
		return nil, errors.New("precision must be from -400 to 400")
	}
	switch method {
	case "common":
		if isInt {
			return roundInt(exact(v), precision), nil
		}
		return roundFloat(v.(float64), precision)
	case "ceil", "floor":
		return r.roundTo(v, precision, method)
	}
	return nil, errors.New("method must be common, ceil or floor")
}

// roundInt rounds to a power of ten, half to even.
func roundInt(n *big.Int, precision int) any {
	if precision >= 0 {
		return whole(n)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q, m := new(big.Int).DivMod(n, unit, new(big.Int))
	if c := m.Lsh(m, 1).Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return whole(q.Mul(q, unit))
}

// roundFloat rounds the exact value to a number of decimals, half to even.
func roundFloat(f float64, precision int) (any, error) {
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return f, nil
	case precision >= 0:
		return strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	units := roundRat(new(big.Rat).Quo(new(big.Rat).SetFloat64(math.Abs(f)), new(big.Rat).SetInt(unit)))
	rounded, _ := units.Mul(units, unit).Float64()
	if math.IsInf(rounded, 0) {
		return nil, errors.New("rounded value too large to represent")
	}
	return math.Copysign(rounded, f), nil
}

// roundRat is the nearest integer to x, which is not negative, half to even.
func roundRat(x *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	if c := m.Lsh(m, 1).Cmp(x.Denom()); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// roundTo is Jinja's way: the ceil or floor of v times a power of ten, divided by it again.
func (r *run) roundTo(v any, precision int, method string) (any, error) {
	unit, err := r.arithmetic("**", 10, precision)
	if err != nil {
		return nil, err
	}
	scaled, err := r.arithmetic("*", v, unit)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(float64); ok {
		of := math.Floor
		if method == "ceil" {
			of = math.Ceil
		}
		if scaled, err = truncated(of(f)); err != nil {
			return nil, err
		}
	}
	return r.arithmetic("/", scaled, unit)
}
