package value

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"
)

func Arithmetic(meter *Meter, op string, x, y any) (any, error) {
	for _, v := range []any{x, y} {
		if u, ok := v.(Undefined); ok {
			return nil, u.Err()
		}
	}
	_, _, xInt, xNum := Number(x)
	yi, _, yInt, yNum := Number(y)
	switch {
	case xInt && yInt:
		return integers(meter, op, ToBig(x), ToBig(y))
	case xNum && yNum:
		xf, err := ToFloat(x)
		if err != nil {
			return nil, err
		}
		yf, err := ToFloat(y)
		if err != nil {
			return nil, err
		}
		return floats(op, xf, yf)
	}
	switch l := x.(type) {
	case string:
		rs, isString := y.(string)
		switch {
		case op == "+" && isString:
			if err := meter.Reserve(len(l) + len(rs)); err != nil {
				return nil, err
			}
			return l + rs, nil
		case op == "+":
			return nil, fmt.Errorf("can only concatenate str (not \"%s\") to str", TypeName(y))
		case op == "*" && yInt:
			return Repeat(meter, l, yi)
		case op == "%":
			args, ok := y.(Tuple)
			if !ok {
				args = Tuple{y}
			}
			return Percent(meter, l, args, y)
		}
	case *List:
		if right, ok := y.(*List); ok && op == "+" {
			return meter.List(append(slices.Clone(l.Items), right.Items...))
		}
		if op == "*" && yInt {
			items, err := repeatItems(meter, l.Items, yi)
			return &List{items}, err
		}
	case Tuple:
		if right, ok := y.(Tuple); ok && op == "+" {
			return append(slices.Clone(l), right...), meter.Reserve((len(l) + len(right)) * ItemBytes)
		}
		if op == "*" && yInt {
			items, err := repeatItems(meter, l, yi)
			return Tuple(items), err
		}
	case int, bool, *big.Int:
		if op == "*" {
			switch y.(type) {
			case string, *List, Tuple:
				return Arithmetic(meter, op, y, x)
			}
		}
	}
	return nil, fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(x), TypeName(y))
}

func Repeat(meter *Meter, s string, n int) (any, error) {
	if n <= 0 || s == "" {
		return "", nil
	}
	if hi, lo := bits.Mul(uint(len(s)), uint(n)); hi != 0 || lo > math.MaxInt {
		return nil, meter.Reserve(-1)
	}
	if err := meter.Reserve(len(s) * n); err != nil {
		return nil, err
	}
	return strings.Repeat(s, n), nil
}

func repeatItems(meter *Meter, items []any, n int) ([]any, error) {
	if n <= 0 || len(items) == 0 {
		return []any{}, nil
	}
	if hi, lo := bits.Mul(uint(len(items)*ItemBytes), uint(n)); hi != 0 || lo > math.MaxInt {
		return nil, meter.Reserve(-1)
	}
	if err := meter.Reserve(len(items) * ItemBytes * n); err != nil {
		return nil, err
	}
	return slices.Repeat(items, n), nil
}
