package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/scan"
)

// pagesOf is how many pages hold lens tokens.
func pagesOf(lens *Node, pageSize int) *Node {
	return DivScalar(AddScalar(lens, float64(pageSize-1)), float64(pageSize))
}

func anyTrue(mask *Node) *Node {
	return GreaterThan(scan.Count(mask), integer(mask.Graph(), 0))
}

// takeMask is take for a mask: 1 where it is set.
func takeMask(mask, indices *Node) *Node { return take(ConvertDType(mask, dtypes.Int32), indices) }

// shifted adds turn * size to numbers of [0, size), and makes others outside.
func shifted(x *Node, size int, turn *Node, outside int) *Node {
	g := x.Graph()
	inside := LogicalAnd(GreaterOrEqual(x, integer(g, 0)), LessThan(x, integer(g, size)))
	return Where(inside, Add(x, Mul(turn, integer(g, size))), FillScalar(g, x.Shape(), float64(outside)))
}

// mixed is a permutation of the 32-bit numbers.
func mixed(x *Node) *Node { return Mul(x, AddScalar(MulScalar(x, 0x5a827998), 0x6ed9eba1)) }

// modulo is x modulo n, for x of 0 or more.
func modulo(x *Node, n int) *Node { return Sub(x, MulScalar(DivScalar(x, float64(n)), float64(n))) }

// choices picks one of two lists of nodes by a condition, bool[].
func choices(condition *Node, then, otherwise []*Node) []*Node {
	picked := make([]*Node, len(then))
	for i := range then {
		picked[i] = Where(condition, then[i], otherwise[i])
	}
	return picked
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, ZerosLike(indices)), -1))
}

func integer(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }

func zeros(g *Graph, dtype dtypes.DType, dims ...int) *Node {
	return Zeros(g, shapes.Make(dtype, dims...))
}
