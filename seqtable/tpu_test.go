package seqtable_test

import (
	"regexp"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// Taking pages for a step's tokens costs a TPU what docs/tpu.md compares with a whole step, and no scatter of the
// tables waits for another core.
func TestAllocateForTPU(t *testing.T) {
	testenv.Slow(t)
	const rows, tokens, perSeq, pages = 96, 1024, 128, 1832
	view := testenv.Topology(t, "v6e:1x1").Donating(nil).(*xla.View)
	g := NewGraph(view, "allocate")
	defer g.Finalize()
	ints := func(name string, dims ...int) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, dims...)) }
	type loop struct {
		Seqs  seqtable.Table
		Pages pagetable.Table
		Steps *Node
		Sum   *Node
	}
	l := loop{Steps: ints("steps"), Sum: ints("sum"),
		Seqs:  seqtable.New(g, rows, perSeq, 64),
		Pages: pagetable.NewKeeping(g, pages)}
	packed := tokenqueue.Packed{Tokens: ints("tokens", tokens), SlotIDs: ints("slots", tokens),
		PosIDs: ints("positions", tokens), NumTokens: ints("num")}
	end := control.While(l, func(l loop) *Node { return GreaterThan(l.Steps, ZerosLike(l.Steps)) },
		func(l loop) loop {
			p := packed
			p.PosIDs = Add(p.PosIDs, BroadcastToDims(l.Steps, tokens))
			var b tokenqueue.PageBatchInfo
			l.Seqs, l.Pages, b, _ = l.Seqs.Allocate(l.Pages, p, rows)
			for _, x := range tree.Leaves(b) {
				if x.DType() == dtypes.Int32 {
					l.Sum = Add(l.Sum, ReduceAllSum(x))
				}
			}
			l.Steps = SubScalar(l.Steps, 1)
			return l
		})
	if err := g.Compile(append(tree.Leaves(end.Seqs), end.Sum)...); err != nil {
		t.Fatal(err)
	}
	text, err := view.Executables()[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	const most = 180_000
	got := hlo.Read(text).Cycles()
	offloaded := regexp.MustCompile(`%scatter_offload_async_start[.\d]* = `).FindAllString(text, -1)
	if t.Logf("%d cycles", got); got > most || len(offloaded) > 0 {
		t.Errorf("the compiler expects %d cycles, want at most %d, and hands %d scatters to the SparseCore, want none",
			got, most, len(offloaded))
	}
}
