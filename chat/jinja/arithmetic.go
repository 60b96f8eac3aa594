package jinja

import (
	"fmt"
	"math"
	"math/big"
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
	_, f, isInt, ok := number(v)
	switch {
	case !ok:
		if x, ok := v.(undefined); ok {
			return nil, x.err()
		}
		return nil, fmt.Errorf("bad operand type for unary %s: '%s'", u.op, typeName(v))
	case isInt && u.op == "+":
		return whole(exact(v)), nil
	case isInt:
		return whole(new(big.Int).Neg(exact(v))), nil
	case u.op == "+":
		return f, nil
	}
	return -f, nil
}

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
	_, _, xInt, xNum := number(x)
	yi, _, yInt, yNum := number(y)
	switch {
	case xInt && yInt:
		return r.integers(op, exact(x), exact(y))
	case xNum && yNum:
		xf, err := toFloat(x)
		if err != nil {
			return nil, err
		}
		yf, err := toFloat(y)
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
	case int, bool, *big.Int:
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
