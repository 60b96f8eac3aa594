package config

import (
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// Rows of a step cost more beside quantized blocks than beside floats, so fewer drafts are worth theirs.
func TestDraftsCostMoreBesideBlocks(t *testing.T) {
	for form, want := range map[string]int{"auto": costOfFloats, "int8": costOfFloats, "q8_0": costOfBlocks} {
		c := Config{Model: testenv.Model(t, "mixtral"), Backend: testenv.XLA(t), Weights: form, MaxSeqs: 4,
			Speculate: SpeculateAuto}
		settled, err := Settle(c)
		if err != nil {
			t.Fatal(err)
		}
		if settled.Sizes.Drafts.CostRows != want {
			t.Errorf("%s: a step may have %d rows more, want %d", form, settled.Sizes.Drafts.CostRows, want)
		}
	}
}
