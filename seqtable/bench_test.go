package seqtable_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// BenchmarkVerbs times each verb as the engine runs it, inside a loop on the device: one iteration is one call of the
// verb, in place, without the cost of calling a program. State before each: every slot but one used, with half of its
// pages.
func BenchmarkVerbs(b *testing.B) {
	backend := testenv.XLA(b)
	for _, z := range []sizes{
		{slots: 64, pagesPerSeq: 32, pageSize: 16, pages: 4096, queue: 4096, tokens: 64, maxSeqs: 64, clones: 4},
		{slots: 64, pagesPerSeq: 32, pageSize: 16, pages: 4096, queue: 4096, tokens: 512, maxSeqs: 64, clones: 4},
		{slots: 256, pagesPerSeq: 512, pageSize: 16, pages: 100_000, queue: 16384, tokens: 1024, maxSeqs: 256,
			clones: 4},
	} {
		name := fmt.Sprintf("S%d_PP%d_P%d_T%d", z.slots, z.pagesPerSeq, z.pages, z.tokens)
		m := z.model()
		for s := range z.slots - 1 {
			m.seqs.Rows[s] = seqtable.Row{Used: true, Source: -1, Len: z.pagesPerSeq/2*z.pageSize - 1}
			for range z.pagesPerSeq / 2 {
				m.seqs.Rows[s].Pages = append(m.seqs.Rows[s].Pages, m.pages.Take(1)...)
			}
		}
		start := tensors.FromValue(m.vector())

		for _, verb := range []struct {
			name string
			run  func(s state, i *Node) (state, []*Node)
		}{
			{"Enqueue", func(s state, i *Node) (state, []*Node) {
				slots := Rem(iota32(i.Graph(), z.tokens), Scalar(i.Graph(), dtypes.Int32, z.slots-1))
				s.Queue = s.Queue.Enqueue(slots, slots, BroadcastToDims(i, z.tokens),
					LessThan(slots, OnesLike(slots)))
				return s, nil
			}},
			{"PurgeNothing", func(s state, i *Node) (state, []*Node) {
				s.Queue = s.Queue.PurgeSlots(LessThan(s.Seqs.SeqLens, BroadcastToDims(MinScalar(i, 0), z.slots)))
				return s, nil
			}},
			{"Purge", func(s state, i *Node) (state, []*Node) {
				s.Queue = filled(s.Queue, z.slots).PurgeSlots(Equal(iota32(i.Graph(), z.slots),
					BroadcastToDims(Rem(i, Scalar(i.Graph(), dtypes.Int32, z.slots)), z.slots)))
				return s, nil
			}},
			{"Allocate", func(s state, i *Node) (state, []*Node) {
				// Every sequence goes on by T/S tokens, up to its end.
				g := i.Graph()
				perSeq := max(1, z.tokens/z.slots)
				index := iota32(g, z.tokens)
				packed := tokenqueue.Packed{
					Tokens:    index,
					SlotIDs:   MinScalar(DivScalar(index, perSeq), z.slots-2),
					NumTokens: Scalar(g, dtypes.Int32, (z.slots-1)*perSeq),
				}
				packed.PosIDs = AddScalar(Add(Rem(index, Scalar(g, dtypes.Int32, perSeq)),
					BroadcastToDims(MinScalar(MulScalar(i, perSeq), z.pagesPerSeq/2*z.pageSize-perSeq), z.tokens)),
					z.pagesPerSeq/2*z.pageSize-1)
				seqs, pages, batch, status := s.Seqs.Allocate(s.Pages, packed, z.maxSeqs)
				s.Seqs, s.Pages = seqs, pages
				return s, append(tree.Leaves(batch), status.Vector())
			}},
			{"Clone", func(s state, i *Node) (state, []*Node) {
				g := i.Graph()
				src := BroadcastToDims(MinScalar(i, 0), z.clones)
				dst := Where(Equal(iota32(g, z.clones), ZerosLike(src)), Scalar(g, dtypes.Int32, z.slots-1),
					MulScalar(OnesLike(src), -1))
				seqs, pages, from, to, status := s.Seqs.Clone(s.Pages, src, dst,
					MulScalar(OnesLike(src), z.pageSize*(z.pagesPerSeq/2)-1))
				s.Seqs, s.Pages = seqs, pages
				s.Seqs.Used = LessThan(iota32(g, z.slots), Scalar(g, dtypes.Int32, z.slots-1)) // Free for the next.
				return s, []*Node{from, to, status.Vector()}
			}},
			{"ReleaseNothing", func(s state, i *Node) (state, []*Node) {
				seqs, pages, _ := s.Seqs.Release(s.Pages,
					LessThan(s.Seqs.SeqLens, BroadcastToDims(MinScalar(i, 0), z.slots)), nil)
				s.Seqs, s.Pages = seqs, pages
				return s, nil
			}},
			{"ReleaseAll", func(s state, i *Node) (state, []*Node) {
				seqs0 := s.Seqs
				_, pages, status := s.Seqs.Release(s.Pages,
					GreaterOrEqual(s.Seqs.SeqLens, BroadcastToDims(MinScalar(i, 0), z.slots)), nil)
				s.Pages = pages
				// To the same again; what it released before is then a double free, at the same cost.
				s.Seqs = seqs0
				s.Seqs.PageIndices = Reverse(seqs0.PageIndices, 0) // Or much would be done once, before the loop.
				s.Pages.RefCounts = AddScalar(s.Pages.RefCounts, 1)
				return s, []*Node{status.Vector()}
			}},
			{"Check", func(s state, i *Node) (state, []*Node) {
				s.Seqs.PageIndices = Reverse(s.Seqs.PageIndices, 0) // Or it would be checked once, before the loop.
				counts := s.Seqs.Check(seqtable.CheckInput{Pages: s.Pages, Queue: s.Queue})
				return s, []*Node{counts}
			}},
		} {
			b.Run(name+"/"+verb.name, func(b *testing.B) {
				type loop struct {
					I, Sum *Node
					State  state
				}
				exec, err := NewExec(backend, func(vector, n *Node) *Node {
					end := control.While(loop{I: ScalarZero(n.Graph(), dtypes.Int32),
						Sum: ScalarZero(n.Graph(), dtypes.Int32), State: z.unflatten(vector)},
						func(l loop) *Node { return LessThan(l.I, n) },
						func(l loop) loop {
							next, results := verb.run(l.State, l.I)
							sum := l.Sum // Of all that the verb returns, or the compiler would leave it out.
							for _, r := range results {
								sum = Add(sum, ReduceAllSum(r))
							}
							return loop{I: AddScalar(l.I, 1), Sum: sum, State: next}
						})
					return flatten(tree.Leaves(end))
				})
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				run := func(n int) {
					out, err := exec.Exec(start, int32(n))
					if err != nil {
						b.Fatal(err)
					}
					tensors.MustCopyFlatData[int32](out[0])
				}
				run(1)
				compiled := time.Since(began)
				b.ResetTimer()
				run(b.N)
				b.ReportMetric(compiled.Seconds(), "compile-s")
			})
		}
	}
}

func iota32(g *Graph, n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }

// filled is the queue with a token of every slot in turn.
func filled(q tokenqueue.Queue, slots int) tokenqueue.Queue {
	g := q.Tokens.Graph()
	all := Rem(iota32(g, q.Capacity()), Scalar(g, dtypes.Int32, slots))
	return tokenqueue.Queue{Tokens: all, SlotIDs: all, PosIDs: all, NumQueued: Scalar(g, dtypes.Int32, q.Capacity())}
}
