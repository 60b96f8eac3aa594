package jinja

import (
	"fmt"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

// test is one of "x is name(args)".
type test struct {
	args int
	run  func(meter *value.Meter, v any, args []any) (bool, error)
}

func plain(f func(v any) bool) *test {
	return &test{0, func(_ *value.Meter, v any, _ []any) (bool, error) { return f(v), nil }}
}

func by(op string) *test {
	return &test{1, func(meter *value.Meter, v any, args []any) (bool, error) {
		return value.CompareBy(meter, op, v, args[0])
	}}
}

func remainder(divisor, want int) *test {
	return &test{0, func(meter *value.Meter, v any, _ []any) (bool, error) {
		m, err := value.Arithmetic(meter, "%", v, divisor)
		return err == nil && value.Equal(meter, m, want), err
	}}
}

func isType(names ...string) *test {
	return plain(func(v any) bool {
		for _, n := range names {
			if value.TypeName(v) == n {
				return true
			}
		}
		return false
	})
}

func runTest(meter *value.Meter, name string, v any, args []any) (bool, error) {
	t := tests[name]
	if t == nil {
		return false, fmt.Errorf("there is no test %q", name)
	}
	if len(args) != t.args {
		return false, fmt.Errorf("test %s takes %d arguments, not %d", name, t.args, len(args))
	}
	return t.run(meter, v, args)
}

var tests map[string]*test

func init() {
	defined := plain(func(v any) bool { _, isUndefined := v.(value.Undefined); return !isUndefined })
	tests = map[string]*test{
		"defined":   defined,
		"undefined": isType("Undefined"),
		"none":      isType("NoneType"),
		"boolean":   isType("bool"),
		"true":      plain(func(v any) bool { return v == true }),
		"false":     plain(func(v any) bool { return v == false }),
		"integer":   isType("int"),
		"float":     isType("float"),
		"number":    isType("int", "float", "bool"),
		"string":    isType("str"),
		"mapping":   isType("dict"),
		"sequence":  isType("str", "list", "tuple", "dict", value.RangeView, value.GroupView, "Undefined"),
		"iterable":  plain(func(v any) bool { _, err := value.Iterate(v); return err == nil }),
		"callable":  isType("function", "LoopContext"),
		"odd":       remainder(2, 1),
		"even":      remainder(2, 0),
		"divisibleby": {1, func(meter *value.Meter, v any, args []any) (bool, error) {
			m, err := value.Arithmetic(meter, "%", v, args[0])
			return err == nil && value.Equal(meter, m, 0), err
		}},
		"lower": {0, func(meter *value.Meter, v any, _ []any) (bool, error) {
			return value.AllCased(value.Str(meter, v), value.IsLower), nil
		}},
		"upper": {0, func(meter *value.Meter, v any, _ []any) (bool, error) {
			return value.AllCased(value.Str(meter, v), value.IsUpper), nil
		}},
		"sameas": {1, func(meter *value.Meter, v any, args []any) (bool, error) {
			return value.TypeName(v) == value.TypeName(args[0]) && value.Equal(meter, v, args[0]), nil
		}},
		"in":     by("in"),
		"filter": plain(func(v any) bool { s, ok := v.(string); return ok && filters[s] != nil }),
		"test":   plain(func(v any) bool { s, ok := v.(string); return ok && tests[s] != nil }),
	}
	for op, names := range map[string]string{"==": "eq equalto ==", "!=": "ne !=", "<": "lt lessthan <", "<=": "le <=",
		">": "gt greaterthan >", ">=": "ge >="} {
		for name := range strings.FieldsSeq(names) {
			tests[name] = by(op)
		}
	}
}
