package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/scan"
)

// MaxBiases is how many tokens of a row may have biases.
const MaxBiases = 1024

// Bias is the bias of a token. sampling.BarredEarly forbids it at positions before [Table].MinLens.
type Bias struct {
	Token int32
	Value float32
}

// biases are the biases of S slots.
type biases struct {
	Values *Node // f32[S, V]
	Has    *Node // i32[S]: 1 for slots that have any
}

// biasesOf is what the host gives of the biases of A waiting entries.
type biasesOf[Floats, Ints any] struct {
	Has    Ints
	Tokens Ints   `tree:"apart"` // i32[A * MaxBiases], padded with -1
	Values Floats `tree:"apart"` // f32[A * MaxBiases]
}

// biasFeature are biases of tokens.
type biasFeature struct {
	idle
	Sizes
}

func (f biasFeature) begin(g *Graph, st *State) {
	st.Biases = biases{Values: zeros(g, dtypes.Float32, f.Slots, f.Vocabulary), Has: zeros(g, dtypes.Int32, f.Slots)}
}

func (f biasFeature) bytes() int64 { return 4 * int64(f.Slots) * int64(f.Vocabulary+1) }

func (f biasFeature) ask(all *Asked) {
	in, n := &all.Biases, f.WaitingLen()
	in.Has, in.Tokens, in.Values = make([]int32, n), make([]int32, n*MaxBiases), make([]float32, n*MaxBiases)
	for i := range in.Tokens {
		in.Tokens[i] = schedule.None
	}
}

func (f biasFeature) set(all *Asked, i int, row Row, _ schedule.Entry) {
	in := &all.Biases
	for k, b := range row.Biases {
		in.Tokens[i*MaxBiases+k], in.Values[i*MaxBiases+k] = b.Token, b.Value
	}
	in.Has[i] = number(len(row.Biases) > 0)
}

// admit sets the biases of the slots that entries get, one entry at a time, because few are admitted together.
func (f biasFeature) admit(st *State, given Input, a Admission) {
	b, in := &st.Biases, given.Asked.Biases
	g := b.Values.Graph()
	vocabulary, entries := f.Vocabulary, a.Rows.Shape().Size()
	to := a.slots(f.Slots)
	b.Has = control.ScatterSet(b.Has, to, in.Has)
	which, count := scan.Positions(LogicalAnd(a.Entries, GreaterThan(in.Has, ZerosLike(in.Has))), entries)
	tokens, values := Reshape(in.Tokens, entries, MaxBiases), Reshape(in.Values, entries, MaxBiases)
	type filling struct{ Values, Done *Node }
	b.Values = control.While(filling{b.Values, integer(g, 0)},
		func(now filling) *Node { return LessThan(now.Done, count) },
		func(now filling) filling {
			entry := take(which, Reshape(now.Done, 1))
			token := Squeeze(take(tokens, entry), 0)
			nowhere := FillScalar(g, token.Shape(), float64(vocabulary))
			place := Where(GreaterOrEqual(token, ZerosLike(token)), token, nowhere)
			row := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Float32, vocabulary)), place,
				Squeeze(take(values, entry), 0))
			return filling{control.ScatterSet(now.Values, take(to, entry), InsertAxes(row, 0)), AddScalar(now.Done, 1)}
		}).Values
}

func (f biasFeature) process(st State, t Table, rows Samplers, by *Processors) {
	b := st.Biases
	by.Biases = &sampling.Biases{Values: take(b.Values, rows.Slots), Early: t.Early(rows),
		Has: GreaterThan(take(b.Has, rows.Slots), ZerosLike(rows.Slots))}
}

func number(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}
