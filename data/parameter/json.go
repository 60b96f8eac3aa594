package parameter

import (
	"bytes"
	"encoding/json"
	"slices"
)

func decode(value []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	return v, d.Decode(&v) == nil
}

// matches compares a decoded JSON value with a JSON text. Null members of objects are ignored, because every struct of
// a Parquet column has all members.
func matches(v any, text string) bool {
	want, ok := decode([]byte(text))
	return ok && same(v, want)
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range a {
			if v != nil && !same(v, b[k]) {
				return false
			}
		}
		for k, v := range b {
			if v != nil && a[k] == nil {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// empty reports whether a decoded JSON value is empty text, an object whose members are all null, or a list of only
// such objects and nulls. A Parquet column cannot distinguish these.
func empty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool {
			_, text := e.(string)
			return e != nil && (text || !empty(e))
		})
	case map[string]any:
		for _, m := range v {
			if m != nil {
				return false
			}
		}
		return true
	}
	return false
}
