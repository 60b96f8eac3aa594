package tokenqueue_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// BenchmarkShapes measures what the queue costs per step, by its contents: only the tokens that slots generated last,
// or also prompt tokens, which the engine keeps in [tokenqueue.Prompts]. Each round packs a step, queues a token for
// each slot again, and purges the tokens of a slot that ends.
func BenchmarkShapes(b *testing.B) {
	const slots, step, rounds = 64, 512, 200
	for _, prompts := range []int{0, 8192, 131072} {
		b.Run(fmt.Sprintf("queue of %d and %d", slots, prompts), func(b *testing.B) {
			exec := MustNewExec(testenv.XLA(b), func(slotOf *Node) *Node {
				g := slotOf.Graph()
				full := func(n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }
				q := tokenqueue.New(g, slots+prompts)
				if prompts > 0 {
					all := full(prompts)
					q = q.Enqueue(all, ModScalar(all, slots), all, Equal(all, all))
				}
				type loop struct {
					Queue tokenqueue.Queue
					Round *Node
					Sum   *Node
				}
				one := Scalar(g, dtypes.Int32, 1)
				end := control.While(loop{q, ZerosLike(one), ZerosLike(one)},
					func(l loop) *Node { return LessThan(l.Round, Scalar(g, dtypes.Int32, rounds)) },
					func(l loop) loop {
						var packed tokenqueue.Packed
						limit := slots
						if prompts > 0 {
							limit = step
						}
						l.Queue, packed = packOldest(l.Queue, limit)
						l.Queue = l.Queue.Enqueue(slotOf, slotOf, slotOf, Equal(slotOf, slotOf))
						l.Queue = l.Queue.PurgeSlots(Equal(slotOf, BroadcastToShape(l.Round, slotOf.Shape())))
						return loop{l.Queue, Add(l.Round, one), Add(l.Sum, ReduceAllSum(packed.Tokens))}
					})
				return end.Sum
			})
			ids := make([]int32, slots)
			for i := range ids {
				ids[i] = int32(i)
			}
			exec.MustExec(ids)
			for b.Loop() {
				exec.MustExec(ids)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rounds, "us/step")
		})
	}
}

// packOldest takes the first limit tokens of the queue, sorted by slot, then position.
func packOldest(q tokenqueue.Queue, limit int) (after tokenqueue.Queue, packed tokenqueue.Packed) {
	g, capacity := q.Tokens.Graph(), q.Capacity()
	index := func(n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }
	taken := MinScalar(q.NumQueued, limit)
	rest := Sub(q.NumQueued, taken)

	source := InsertAxes(MinScalar(Add(index(capacity), taken), capacity-1), -1)
	stays := LessThan(index(capacity), rest)
	shift := func(x *Node) *Node { return Where(stays, Gather(x, source), Scalar(g, dtypes.Int32, -1)) }
	after = tokenqueue.Queue{Tokens: shift(q.Tokens), SlotIDs: shift(q.SlotIDs), PosIDs: shift(q.PosIDs),
		NumQueued: rest}

	isTaken := LessThan(index(limit), taken)
	last := Scalar(g, dtypes.Int32, dtypes.Int32.HighestValue().(int32)) // padding sorts last
	front := func(x *Node) *Node { return Where(isTaken, SliceAxis(x, 0, AxisRangeFromStart(limit)), last) }
	less := NewClosure(g, func(g *Graph) []*Node {
		var p [6]*Node
		for i, name := range []string{"slotL", "slotR", "posL", "posR", "tokenL", "tokenR"} {
			p[i] = Parameter(g, name, shapes.Make(dtypes.Int32))
		}
		return []*Node{LogicalOr(LessThan(p[0], p[1]), LogicalAnd(Equal(p[0], p[1]), LessThan(p[2], p[3])))}
	})
	sorted := SortFunc(less, 0, true, front(q.SlotIDs), front(q.PosIDs), front(q.Tokens))
	return after, tokenqueue.Packed{SlotIDs: sorted[0], PosIDs: sorted[1], Tokens: sorted[2], NumTokens: taken}
}
