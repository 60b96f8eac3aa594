package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

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
		return value.FromString(now.Format("02 Jan 2006")), nil
	})
	env.AddFilter("tojson", func(_ minijinja.FilterState, v value.Value, _ []value.Value,
		kwargs map[string]value.Value) (value.Value, error) {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if n, ok := kwargs["indent"].AsInt(); ok {
			e.SetIndent("", fmt.Sprintf("%*s", n, ""))
		}
		err := e.Encode(v)
		return value.FromString(string(bytes.TrimSpace(out.Bytes()))), err
	})
	t, err := env.TemplateFromString(source)
	if err != nil {
		return "", err
	}
	return t.RenderCtx(ctx, vars)
}
