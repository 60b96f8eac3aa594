package nested_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/nested"
)

// Loops three deep, each of which uses values of all around it.
func TestLoopsNest(t *testing.T) {
	b, err := gobackend.New("ops_sequential")
	if err != nil {
		t.Fatal(err)
	}
	type state struct{ I, Sum *Node }
	out, err := ExecOnce(nested.Wrap(b), func(n *Node) *Node {
		g := n.Graph()
		zero := func() *Node { return Scalar(g, dtypes.Int32, 0) }
		loop := func(sum *Node, body func(i, sum *Node) *Node) *Node {
			return control.While(state{zero(), sum}, func(s state) *Node { return LessThan(s.I, n) },
				func(s state) state { return state{AddScalar(s.I, 1), body(s.I, s.Sum)} }).Sum
		}
		return loop(zero(), func(i, sum *Node) *Node {
			return loop(sum, func(j, sum *Node) *Node {
				return loop(sum, func(k, sum *Node) *Node {
					return control.If(GreaterThan(j, k), func() *Node { return Add(sum, Mul(i, Add(j, k))) }, func() *Node { return Add(sum, n) })
				})
			})
		})
	}, int32(4))
	if err != nil {
		t.Fatal(err)
	}
	want := int32(0)
	for i := range int32(4) {
		for j := range int32(4) {
			for k := range int32(4) {
				if j > k {
					want += i * (j + k)
				} else {
					want += 4
				}
			}
		}
	}
	if got := out.Value(); got != want {
		t.Errorf("got %v, want %d", got, want)
	}
}
