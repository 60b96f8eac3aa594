package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// HiddenStates describes the column hidden.
type HiddenStates struct {
	// Layers are as engine.HiddenStates has them; none stands for the last.
	Layers []int `json:",omitempty"`
	// Tokens is HiddenLast, or HiddenAll; "" is the first.
	Tokens string `json:",omitempty"`
	// DType is f32, bf16 or f16; "" is the first.
	DType string `json:",omitempty"`
}

// Values of [HiddenStates.Tokens].
const (
	HiddenLast = "last"
	HiddenAll  = "all"
)

// check checks what describes hidden states, which needs their column.
func (h *HiddenStates) check(columns []string) error {
	if !slices.Contains(columns, completion.HiddenColumn) {
		for _, given := range []struct {
			field, value string
		}{{"hidden-layers", strings.Trim(fmt.Sprint(h.Layers), "[]")}, {"hidden-tokens", h.Tokens},
			{"hidden-dtype", h.DType}} {
			if given.value != "" {
				return Invalid(given.field, "is %s, and the output has no hidden states: give `columns` %s, or leave "+
					"it out", given.value, completion.HiddenColumn)
			}
		}
		return nil
	}
	return FirstError(
		func() error { return oneOf("hidden-tokens", cmp.Or(h.Tokens, HiddenLast), HiddenLast, HiddenAll) },
		func() error { return oneOf("hidden-dtype", cmp.Or(h.DType, "f32"), "f32", "bf16", "f16") })
}

// engine is as an engine has them, for completions of up to maxTokens tokens.
func (h *HiddenStates) engine(maxTokens int) engine.HiddenStates {
	dtype, _ := parseDType("hidden-dtype", cmp.Or(h.DType, "f32")) // check reports what is wrong
	return engine.HiddenStates{Layers: h.Layers, DType: dtype, All: h.Tokens == HiddenAll, MaxTokens: maxTokens}
}
