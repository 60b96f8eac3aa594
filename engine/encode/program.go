package encode

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/pooling"
)

const programName = "encode"

// compile builds and compiles the program. Panics of graph building become errors here.
func (s *settled) compile() (x compute.Executable, err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = fmt.Errorf("building program %s: %w", programName, cause)
		}
	}()
	g := NewGraph(s.Backend, programName)
	input := Parameter(g, "input", shapes.Make(dtypes.Int32, s.inputs().size()))
	var nodes []*Node
	for _, a := range s.held.Arrays {
		nodes = append(nodes, Parameter(g, "w_"+strings.ReplaceAll(a.Name, ".", "_"), a.Shape))
	}
	if err := g.Compile(s.vectors(input, decoder.NewWeights(s.held.Arrays, nodes))); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", programName, err)
	}
	return g.Executable(), nil
}

// vectors returns the vectors f32[R, size] of the rows of a step, or f32[T, size] of its tokens.
func (s *settled) vectors(input *Node, w decoder.Weights) *Node {
	model := s.model.Config
	from := 0
	a := cutArrays(s.inputs(), func(size int) *Node {
		if size == 0 {
			return nil
		}
		from += size
		return SliceAxis(input, 0, AxisRange(from-size, from))
	})
	tokens, count := Reshape(SliceAxis(a.counts, 0, AxisRange(0, 1))), Reshape(SliceAxis(a.counts, 0, AxisRange(1, 2)))
	rows := attention.Rows{Firsts: a.firsts, Lens: a.lens, Count: count, TokenRows: a.tokenRows, Positions: a.positions}
	bias := decoder.ScoreBias(model, w, s.MaxModelLen)
	type heads struct{ k, v *Node }
	shared := map[int]heads{} // of layers, for those without keys and values of their own
	attend := func(layer decoder.Layer, state []*Node, q, k, v *Node) (*Node, []*Node) {
		from := model.Layers[layer.Number].KVFrom
		if k != nil {
			shared[layer.Number] = heads{k, v}
		}
		kv := shared[from]
		return rows.Attend(q, kv.k, kv.v, decoder.AttentionOptions(model, layer, false), bias), state
	}
	at := Max(a.positions, ZerosLike(a.positions)) // of padding
	x := decoder.EmbedAt(model, w, a.ids, a.learned, a.kinds, tokens)
	if model.ShortRope() > 0 {
		length := Gather(a.lens, InsertAxes(Max(a.tokenRows, ZerosLike(a.tokenRows)), -1))
		short := LessOrEqual(length, Scalar(input.Graph(), dtypes.Int32, float64(model.ShortRope())))
		x.Short = ConvertDType(short, dtypes.Int32)
	}
	hidden, _ := decoder.Hidden(model, w, x, at, tokens, nil, attend, nil)
	if s.ofTokens() {
		return decoder.Dense(model, w, ConvertDType(hidden, dtypes.Float32))
	}
	return decoder.Dense(model, w, pooling.Rows(hidden, a.firsts, a.lens, count, s.Pooling))
}
