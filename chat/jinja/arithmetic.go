package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

func (u *unaryExpr) eval(r *run, s *scope) (any, error) {
	v, err := u.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	if u.op == "not" {
		return !truth(v), nil
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		if x, ok := v.(undefined); ok {
			return nil, x.err()
		}
		return nil, fmt.Errorf("bad operand type for unary %s: '%s'", u.op, typeName(v))
	case u.op == "+" && isInt:
		return i, nil
	case u.op == "+":
		return f, nil
	case isInt && i == math.MinInt:
		return nil, errTooLarge
	case isInt:
		return -i, nil
	}
	return -f, nil
}

var errTooLarge = errors.New("the number is too large")

func (b *binaryExpr) eval(r *run, s *scope) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	x, err := b.l.eval(r, s)
	if err != nil {
		return nil, err
	}
	y, err := b.r.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.arithmetic(b.op, x, y)
}

func (r *run) arithmetic(op string, x, y any) (any, error) {
	for _, v := range []any{x, y} {
		if u, ok := v.(undefined); ok {
			return nil, u.err()
		}
	}
	xi, xf, xInt, xNum := number(x)
	yi, yf, yInt, yNum := number(y)
	switch {
	case xInt && yInt:
		return integers(op, xi, yi)
	case xNum && yNum:
		return floats(op, xf, yf)
	}
	switch l := x.(type) {
	case string:
		rs, isString := y.(string)
		switch {
		case op == "+" && isString:
			if err := r.make(len(l) + len(rs)); err != nil {
				return nil, err
			}
			return l + rs, nil
		case op == "+":
			return nil, fmt.Errorf("can only concatenate str (not \"%s\") to str", typeName(y))
		case op == "*" && yInt:
			return r.repeat(l, yi)
		case op == "%":
			args, ok := y.(Tuple)
			if !ok {
				args = Tuple{y}
			}
			return r.percent(l, args, y)
		}
	case *List:
		if right, ok := y.(*List); ok && op == "+" {
			return r.list(append(slices.Clone(l.Items), right.Items...))
		}
		if op == "*" && yInt {
			items, err := r.repeatItems(l.Items, yi)
			return &List{items}, err
		}
	case Tuple:
		if right, ok := y.(Tuple); ok && op == "+" {
			return append(slices.Clone(l), right...), r.make((len(l) + len(right)) * itemBytes)
		}
		if op == "*" && yInt {
			items, err := r.repeatItems(l, yi)
			return Tuple(items), err
		}
	case int, bool:
		if op == "*" {
			switch y.(type) {
			case string, *List, Tuple:
				return r.arithmetic(op, y, x)
			}
		}
	}
	return nil, fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(x), typeName(y))
}

func (r *run) repeat(s string, n int) (any, error) {
	if n <= 0 || s == "" {
		return "", nil
	}
	if hi, lo := bits.Mul(uint(len(s)), uint(n)); hi != 0 || lo > math.MaxInt {
		return nil, r.make(-1)
	}
	if err := r.make(len(s) * n); err != nil {
		return nil, err
	}
	return strings.Repeat(s, n), nil
}

func (r *run) repeatItems(items []any, n int) ([]any, error) {
	if n <= 0 || len(items) == 0 {
		return []any{}, nil
	}
	if hi, lo := bits.Mul(uint(len(items)*itemBytes), uint(n)); hi != 0 || lo > math.MaxInt {
		return nil, r.make(-1)
	}
	if err := r.make(len(items) * itemBytes * n); err != nil {
		return nil, err
	}
	return slices.Repeat(items, n), nil
}

// integers is arithmetic of Python's ints, as far as 64 bits reach.
func integers(op string, x, y int) (any, error) {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return s, nil
		}
		return nil, errTooLarge
	case "-":
		if d := x - y; (d < x) == (y > 0) {
			return d, nil
		}
		return nil, errTooLarge
	case "*":
		if x == 0 || y == 0 {
			return 0, nil
		}
		if p := x * y; p/y == x && !(x == -1 && y == math.MinInt) && !(y == -1 && x == math.MinInt) {
			return p, nil
		}
		return nil, errTooLarge
	case "**":
		if y < 0 {
			return floats(op, float64(x), float64(y))
		}
		result := any(1)
		for ; y > 0; y-- {
			if x == 0 || x == 1 {
				return x, nil
			}
			if x == -1 {
				return 1 - 2*(y%2), nil
			}
			var err error
			if result, err = integers("*", result.(int), x); err != nil {
				return nil, err
			}
		}
		return result, nil
	}
	if y == 0 {
		return nil, errors.New("division by zero")
	}
	switch op {
	case "/":
		return float64(x) / float64(y), nil
	case "//":
		if x == math.MinInt && y == -1 {
			return nil, errTooLarge
		}
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return q, nil
	}
	if y == -1 {
		return 0, nil
	}
	m := x % y
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m, nil
}

func floats(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		if x == 0 && y < 0 {
			return nil, errors.New("0.0 cannot be raised to a negative power")
		}
		return math.Pow(x, y), nil
	}
	if y == 0 {
		return nil, errors.New("float division by zero")
	}
	switch op {
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m, nil
}
