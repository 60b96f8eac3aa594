package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// renderGonja gives gonja transformers' settings and functions.
func renderGonja(_ context.Context, source string, vars map[string]any) (string, error) {
	loader, err := loaders.NewShiftedLoader("/t", bytes.NewReader([]byte(source)), loaders.MustNewMemoryLoader(nil))
	if err != nil {
		return "", err
	}
	c := config.New()
	c.TrimBlocks, c.LeftStripBlocks = true, true
	t, err := exec.NewTemplate("/t", c, loader, &exec.Environment{Context: builtins.GlobalFunctions,
		Filters: builtins.Filters, Tests: builtins.Tests, ControlStructures: builtins.ControlStructures,
		Methods: builtins.Methods})
	if err != nil {
		return "", err
	}
	vars["raise_exception"] = func(_ *exec.Evaluator, args *exec.VarArgs) (string, error) {
		return "", fmt.Errorf("%w: %v", raised, args.First())
	}
	vars["strftime_now"] = strftime
	return t.ExecuteToString(exec.NewContext(vars))
}
