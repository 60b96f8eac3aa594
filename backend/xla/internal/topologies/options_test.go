package topologies

import (
	"fmt"
	"testing"
)

// A program that scatters into a large array has no options, wherever in it that is.
func TestOptionsOfProgram(t *testing.T) {
	scatterInto := func(shape string) string {
		return fmt.Sprintf(`%%7 = "stablehlo.scatter"(%%1, %%2, %%3) ({
			^update(%%a: tensor<f32>, %%b: tensor<f32>) :
				%%5 = "stablehlo.add"(%%a, %%b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
				"stablehlo.return"(%%5) : (tensor<f32>) -> ()
		}) {
			indices_are_sorted = false
		} : (tensor<%sxf32>, tensor<16x1xi32>, tensor<16x128xf32>) -> tensor<%[1]sxf32>
		`, shape)
	}
	all := []Option{{"a", "true"}}
	for text, want := range map[string]int{
		"": 1, scatterInto("96"): 1, scatterInto("96x128"): 1, scatterInto("4096x256"): 0,
		scatterInto("96x128") + scatterInto("25165824x2x128") + scatterInto("96"): 0,
	} {
		if got := OfProgram(all, []byte(text)); len(got) != want {
			t.Errorf("%d options, want %d, for\n%s", len(got), want, text)
		}
	}
}
