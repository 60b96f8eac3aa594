package feature

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
)

// noRepeatOf is what n rows may not repeat, declared once for the device and for the host.
type noRepeatOf[Ints any] struct {
	Size Ints // i32[n]: as in sampling.NoRepeat
	// Tokens are the tokens of prompt and completion by position: i32[S, History] on the device, i32[A * History] on
	// the host.
	Tokens Ints `tree:"apart"`
}

// noRepeatFeature forbids sequences of tokens that a row already has.
type noRepeatFeature struct {
	idle
	Sizes
}

func (f noRepeatFeature) bytes() int64 { return 4 * int64(f.Slots) * int64(1+f.History) }

func (f noRepeatFeature) begin(g *Graph, st *State) {
	st.NoRepeat = noRepeatOf[*Node]{zeros(g, dtypes.Int32, f.Slots), zeros(g, dtypes.Int32, f.Slots, f.History)}
}

func (f noRepeatFeature) ask(in *Asked) {
	n := f.WaitingLen()
	in.NoRepeat = noRepeatOf[[]int32]{make([]int32, n), make([]int32, n*f.History)}
}

func (f noRepeatFeature) set(in *Asked, i int, row Row, e schedule.Entry) {
	size := row.Sampling.NoRepeatNgramSize
	if size == 0 {
		return
	}
	in.NoRepeat.Size[i] = int32(size)
	tokens := in.NoRepeat.Tokens[i*f.History : (i+1)*f.History]
	copy(tokens[copy(tokens, e.Request.Tokens):], e.Drawn)
}

func (f noRepeatFeature) admit(st *State, in Input, a Admission) {
	to, requested := a.slots(f.Slots), in.Asked.NoRepeat
	st.NoRepeat.Size = control.ScatterSet(st.NoRepeat.Size, to, requested.Size)
	tokens := Reshape(requested.Tokens, requested.Size.Shape().Size(), f.History)
	st.NoRepeat.Tokens = control.ScatterSet(st.NoRepeat.Tokens, to, tokens)
}

func (f noRepeatFeature) process(st State, _ Table, rows Samplers, by *Processors) {
	size := take(st.NoRepeat.Size, rows.Slots)
	size = Where(GreaterOrEqual(rows.Slots, ZerosLike(size)), size, ZerosLike(size))
	by.NoRepeat = &sampling.NoRepeat{Size: size, Tokens: take(st.NoRepeat.Tokens, rows.Slots), Lens: rows.Positions}
}

// drew records the tokens that rows sampled. Rows without the feature may be longer than History.
func (f noRepeatFeature) drew(st *State, _ Input, rows Samplers, tokens *Node) {
	slots := rows.drew(tokens, ZerosLike(tokens), f.Slots)
	place := Add(MulScalar(slots, float64(f.History)), rows.Positions)
	nowhere := FillScalar(tokens.Graph(), tokens.Shape(), float64(f.Slots*f.History))
	place = Where(LessThan(rows.Positions, integer(tokens.Graph(), f.History)), place, nowhere)
	place = Where(LessThan(slots, integer(tokens.Graph(), f.Slots)), place, nowhere)
	flat := Reshape(st.NoRepeat.Tokens, f.Slots*f.History)
	st.NoRepeat.Tokens = Reshape(control.ScatterSet(flat, place, tokens), f.Slots, f.History)
}

func (f noRepeatFeature) noDrafts(st State) *Node {
	return GreaterThan(st.NoRepeat.Size, ZerosLike(st.NoRepeat.Size))
}
