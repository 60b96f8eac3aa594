package stopping_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/stopping"
)

// BenchmarkWalk is a step of 64 rows with tokens of 6 bytes, without stops and with a stop string each.
func BenchmarkWalk(b *testing.B) {
	const slots, vocabulary, length, rounds = 64, 50000, 6, 20000
	for name, state := range map[string]float64{"no stops": stopping.None, "stop strings": 0} {
		b.Run(name, func(b *testing.B) {
			exec, err := NewExec(testenv.XLA(b), func(table, bytes, starts *Node) *Node {
				g := table.Graph()
				t := stopping.Tables{Next: table, Bytes: bytes, Starts: starts}
				states := FillScalar(g, shapes.Make(dtypes.Int32, slots, stopping.Lanes), state)
				states = Where(Equal(Iota(g, states.Shape(), 1), Scalar(g, dtypes.Int32, stopping.OfTokens)),
					FillScalar(g, states.Shape(), stopping.None), states)
				type loop struct{ I, States, Found *Node }
				l := loop{Scalar(g, dtypes.Int32, 0), states, Scalar(g, dtypes.Int32, 0)}
				l = control.While(l, func(l loop) *Node { return LessThan(l.I, Scalar(g, dtypes.Int32, rounds)) },
					func(l loop) loop {
						tokens := AddScalar(Iota(g, shapes.Make(dtypes.Int32, slots), 0), 7)
						after, found := stopping.Walk(t, l.States, Add(tokens, BroadcastToDims(l.I, slots)))
						hits := ReduceAllSum(ConvertDType(found, dtypes.Int32))
						return loop{AddScalar(l.I, 1), after, Add(l.Found, hits)}
					})
				return Add(l.Found, ReduceAllSum(l.States))
			})
			if err != nil {
				b.Fatal(err)
			}
			defer exec.Finalize()
			bytes, starts := make([]int32, vocabulary*length), make([]int32, vocabulary+1)
			for i := range bytes {
				bytes[i] = int32(i % stopping.Width)
			}
			for i := range starts {
				starts[i] = int32(i * length)
			}
			table := make([][]int32, 2048)
			for i := range table {
				table[i] = make([]int32, stopping.Width)
			}
			for b.Loop() {
				if _, err := exec.Exec(table, bytes, starts); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", name, err))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rounds, "µs/step")
		})
	}
}
