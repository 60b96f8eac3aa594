package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/tree"
)

// MaxBiases is how many tokens of a row may have biases.
const MaxBiases = 1024

// Bias is the bias of a token; sampling.BarredEarly bars it at positions before Row.MinLen.
type Bias struct {
	Token int32
	Value float32
}

// biases are those of S slots.
type biases struct {
	Values *Node // f32[S, V]
	Has    *Node // i32[S]: 1 for those that have any
}

// biasesOf is what the host gives of the biases of A waiting entries.
type biasesOf[Floats, Ints any] struct {
	Has    Ints
	Tokens Ints   `tree:"apart"` // i32[A * MaxBiases], padded with -1
	Values Floats `tree:"apart"` // f32[A * MaxBiases]
}

func (gr *Graphs) newBiasState(g *Graph) biases {
	return biases{Values: zeros(g, dtypes.Float32, gr.Slots, gr.Vocabulary), Has: zeros(g, dtypes.Int32, gr.Slots)}
}

func (p Sizes) biasBytes() int64 { return 4 * int64(p.Slots) * int64(p.Vocabulary+1) }

func (p Sizes) newBiases() (in biasesOf[[]float32, []int32]) {
	n := p.WaitingLen()
	in.Has, in.Tokens, in.Values = make([]int32, n), make([]int32, n*MaxBiases), make([]float32, n*MaxBiases)
	for i := range in.Tokens {
		in.Tokens[i] = schedule.None
	}
	return in
}

// set fills in those of entry i.
func (in *biasesOf[Floats, Ints]) set(i int, list []Bias) {
	tokens, values := any(in.Tokens).([]int32), any(in.Values).([]float32)
	for k, b := range list {
		tokens[i*MaxBiases+k], values[i*MaxBiases+k] = b.Token, b.Value
	}
	any(in.Has).([]int32)[i] = number(len(list) > 0)
}

// admitBiases makes those of the slots that entries get, one at a time: few are admitted together.
func (gr *Graphs) admitBiases(b biases, in biasesOf[*Node, *Node], a admission) biases {
	g := b.Values.Graph()
	slots, vocabulary, entries := gr.Slots, gr.Vocabulary, a.Rows.Shape().Size()
	to := Where(a.Entries, a.Rows, FillScalar(g, a.Rows.Shape(), float64(slots)))
	b.Has = control.ScatterSet(b.Has, to, in.Has)
	which, count := scan.Positions(LogicalAnd(a.Entries, GreaterThan(in.Has, ZerosLike(in.Has))), entries)
	tokens, values := Reshape(in.Tokens, entries, MaxBiases), Reshape(in.Values, entries, MaxBiases)
	type filling struct{ Values, Done *Node }
	b.Values = control.While(filling{b.Values, integer(g, 0)},
		func(f filling) *Node { return LessThan(f.Done, count) },
		func(f filling) filling {
			entry := take(which, Reshape(f.Done, 1))
			token := Squeeze(take(tokens, entry), 0)
			nowhere := FillScalar(g, token.Shape(), float64(vocabulary))
			place := Where(GreaterOrEqual(token, ZerosLike(token)), token, nowhere)
			row := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Float32, vocabulary)), place,
				Squeeze(take(values, entry), 0))
			return filling{control.ScatterSet(f.Values, take(to, entry), InsertAxes(row, 0)), AddScalar(f.Done, 1)}
		}).Values
	return b
}

// biasesOf are the biases of rows.
func (gr *Graphs) biasesOf(st state, rows samplers) sampling.Biases {
	b := st.Extras.Biases
	return sampling.Biases{Values: take(b.Values, rows.Slots), Early: early(st, rows),
		Has: GreaterThan(take(b.Has, rows.Slots), ZerosLike(rows.Slots))}
}

// The filters of S slots.

func (gr *Graphs) newFilterState(g *Graph) sampling.Filters {
	each := func() *Node { return zeros(g, dtypes.Float32, gr.Slots) }
	return sampling.Filters{TopNSigma: each(), Typical: each(), XTCProbability: each(), XTCThreshold: each()}
}

func (p Sizes) filterBytes() int64 { return 4 * 4 * int64(p.Slots) }

func (gr *Graphs) admitFilters(f, in sampling.Filters, a admission) sampling.Filters {
	to := Where(a.Entries, a.Rows, FillScalar(a.Rows.Graph(), a.Rows.Shape(), float64(gr.Slots)))
	return tree.Zip(f, in, func(of, in *Node) *Node { return control.ScatterSet(of, to, in) })
}
