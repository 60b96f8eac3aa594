package sampling

import (
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
)

// The kernel in C has the operands that the composite gives it, in the same order under the same names.
func TestOperandsOfTheKernel(t *testing.T) {
	x := Const(NewGraph(testenv.Go(t), "operands"), float32(0))
	all := operands{Params: Params{x, x, x, x, x}, Positions: x, Filters: &Filters{x, x, x, x}}
	names := tree.Names(all)
	for i, name := range names {
		names[i] = operandName(name[strings.LastIndex(name, ".")+1:])
	}
	if got := cpukernel.SampleOperands(); !slices.Equal(got, names) {
		t.Errorf("the kernel has the operands %v, want %v", got, names)
	}
}
