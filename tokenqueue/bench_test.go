package tokenqueue_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/tokenqueue"
)

// BenchmarkShapes is what the queue costs a step, by what it holds: the tokens that slots drew last, or those of
// prompts too. Each round packs a step, queues a token for each slot again, and purges those of a slot that ends.
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
					q, _ = q.Enqueue(all, ModScalar(all, slots), all, Equal(all, all))
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
						l.Queue, packed = l.Queue.PackNext(limit)
						l.Queue, _ = l.Queue.Enqueue(slotOf, slotOf, slotOf, Equal(slotOf, slotOf))
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
