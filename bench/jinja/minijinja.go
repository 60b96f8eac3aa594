package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/syntax"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// fuel bounds what minijinja runs: one for each statement and expression. A conversation of 1,000 messages takes under
// a million.
const fuel = uint64(5_000_000)

// renderMinijinja gives minijinja what its API lets one add: transformers' settings, functions and tojson.
func renderMinijinja(ctx context.Context, source string, vars map[string]any) (string, error) {
	env := minijinja.NewEnvironment()
	env.SetAutoEscapeFunc(func(string) minijinja.AutoEscape { return minijinja.AutoEscapeNone })
	env.SetWhitespace(syntax.WhitespaceConfig{TrimBlocks: true, LstripBlocks: true})
	limit := fuel
	env.SetFuel(&limit)
	env.AddFunction("raise_exception", func(_ *minijinja.State, args []value.Value,
		_ map[string]value.Value) (value.Value, error) {
		return value.Undefined(), fmt.Errorf("%w: %v", raised, args)
	})
	env.AddFunction("strftime_now", func(_ *minijinja.State, args []value.Value,
		_ map[string]value.Value) (value.Value, error) {
		return value.FromString(strftime(args[0].String())), nil
	})
	env.AddFilter("tojson", func(_ minijinja.FilterState, v value.Value, _ []value.Value,
		kwargs map[string]value.Value) (value.Value, error) {
		indent, indented := kwargs["indent"].AsInt()
		if !indented {
			indent = -1
		}
		text, err := dumps(v.Raw(), int(indent), "\n")
		return value.FromString(text), err
	})
	t, err := env.TemplateFromString(source)
	if err != nil {
		return "", err
	}
	return t.RenderCtx(ctx, vars)
}

// dumps is Python's json.dumps with ensure_ascii off; indent is -1 for none. The order of keys is lost in minijinja.
func dumps(v any, indent int, line string) (string, error) {
	open, end, comma := "", "", ", "
	if inner := line + strings.Repeat(" ", max(indent, 0)); indent >= 0 {
		open, end, comma = inner, line, ","+inner
		line = inner
	}
	var items []string
	brackets := "[]"
	switch v := v.(type) {
	case []value.Value:
		for _, item := range v {
			text, err := dumps(item.Raw(), indent, line)
			if err != nil {
				return "", err
			}
			items = append(items, text)
		}
	case map[string]value.Value:
		brackets = "{}"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, err := dumps(v[key].Raw(), indent, line)
			if err != nil {
				return "", err
			}
			items = append(items, fmt.Sprintf("%s: %s", quoted(key), text))
		}
	case string:
		return quoted(v), nil
	default:
		text, err := json.Marshal(v)
		return string(text), err
	}
	if len(items) == 0 {
		return brackets, nil
	}
	return brackets[:1] + open + strings.Join(items, comma) + end + brackets[1:], nil
}

func quoted(s string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(out.String())
}
