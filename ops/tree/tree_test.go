package tree_test

import (
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
)

type state struct {
	I      *Node
	Parts  []*Node
	Pair   [2]struct{ A, B *Node }
	Behind *struct{ C *Node }
	Label  string
	hidden *Node
}

// build makes a graph by f, for what f checks.
func build(t *testing.T, f func(x *Node)) {
	t.Helper()
	_, err := ExecOnce(testenv.Go(t), func(x *Node) *Node {
		f(x)
		return x
	}, int32(1))
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	build(t, func(x *Node) {
		p := state{I: x, Parts: []*Node{Neg(x), nil, Abs(x)}, Behind: &struct{ C *Node }{Sign(x)}, Label: "kept",
			hidden: x}
		p.Pair[1].B = Square(x)
		if got, want := tree.Names(p), []string{"I", "Parts.0", "Parts.2", "Pair.1.B", "Behind.C"}; !slices.Equal(got,
			want) {
			t.Errorf("Names = %v, want %v", got, want)
		}
		nodes := tree.Leaves(p)
		slices.Reverse(nodes)
		q := tree.Rebuild(p, nodes)
		if q.I != p.Behind.C || q.Parts[0] != p.Pair[1].B || q.Parts[1] != nil || q.Parts[2] != p.Parts[2] ||
			q.Pair[1].B != p.Parts[0] || q.Behind.C != p.I || q.Label != "kept" {
			t.Errorf("Rebuild gave %+v from %+v", q, p)
		}
		if p.I != x || p.Behind == q.Behind {
			t.Error("Rebuild changed its example")
		}
		if got := tree.Names(x); !slices.Equal(got, []string{"value"}) {
			t.Errorf("the name of a node alone is %v", got)
		}
	})
}

func TestRebuildRefusesOtherCounts(t *testing.T) {
	build(t, func(x *Node) {
		for _, nodes := range [][]*Node{nil, {x, x}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%d nodes for one leaf were taken", len(nodes))
					}
				}()
				tree.Rebuild(x, nodes)
			}()
		}
	})
}
