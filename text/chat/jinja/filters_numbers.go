package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/quire/quire/text/chat/jinja/value"
)

func filterAbs(_ *value.Meter, v any, p *value.Params) (any, error) {
	if n := value.ToBig(v); n != nil {
		return value.FromBig(new(big.Int).Abs(n)), p.Done()
	}
	f, err := value.ToFloat(v)
	if err != nil {
		return nil, err
	}
	return math.Abs(f), p.Done()
}

func filterFloat(_ *value.Meter, v any, p *value.Params) (any, error) {
	otherwise := p.Any("default", 0.0)
	if err := p.Done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if f, ok := value.ParseFloat(s); ok {
			return f, nil
		}
		return otherwise, nil
	}
	if _, _, _, ok := value.Number(v); ok {
		return value.ToFloat(v)
	}
	return otherwise, nil
}

func filterInt(_ *value.Meter, v any, p *value.Params) (any, error) {
	otherwise, base := p.Any("default", 0), p.Int("base", 10)
	if err := p.Done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if n, ok := value.ParseInt(s, base); ok {
			return n, nil
		}
		if f, ok := value.ParseFloat(s); ok {
			if n, err := value.Truncate(f); err == nil {
				return n, nil
			}
		}
		return otherwise, nil
	}
	if n := value.ToBig(v); n != nil {
		return value.FromBig(n), nil
	}
	if f, ok := value.Float(v); ok && !math.IsNaN(f) {
		return value.Truncate(f)
	}
	return otherwise, nil
}

// filterRound is Python's round, which keeps integers, or its ceil and floor.
func filterRound(meter *value.Meter, v any, p *value.Params) (any, error) {
	precision, method := p.Int("precision", 0), p.Text("method", "common")
	if err := p.Done(); err != nil {
		return nil, err
	}
	_, _, isInt, ok := value.Number(v)
	if !ok {
		return nil, fmt.Errorf("'%s' is no number", value.TypeName(v))
	}
	if precision < -400 || precision > 400 {
		return nil, errors.New("precision must be from -400 to 400")
	}
	switch method {
	case "common":
		if isInt {
			return roundInt(value.ToBig(v), precision), nil
		}
		f, _ := value.Float(v)
		return roundFloat(f, precision)
	case "ceil", "floor":
		return roundTo(meter, v, precision, method)
	}
	return nil, errors.New("method must be common, ceil or floor")
}

// roundInt rounds to a power of ten, half to even.
func roundInt(n *big.Int, precision int) any {
	if precision >= 0 {
		return value.FromBig(n)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q, m := new(big.Int).DivMod(n, unit, new(big.Int))
	if c := m.Lsh(m, 1).Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return value.FromBig(q.Mul(q, unit))
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

// roundTo rounds as Jinja does: it divides the ceil or floor of v times a power of ten by this power.
func roundTo(meter *value.Meter, v any, precision int, method string) (any, error) {
	unit, err := value.Arithmetic(meter, "**", 10, precision)
	if err != nil {
		return nil, err
	}
	scaled, err := value.Arithmetic(meter, "*", v, unit)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(float64); ok {
		rounding := math.Floor
		if method == "ceil" {
			rounding = math.Ceil
		}
		if scaled, err = value.Truncate(rounding(f)); err != nil {
			return nil, err
		}
	}
	return value.Arithmetic(meter, "/", scaled, unit)
}
