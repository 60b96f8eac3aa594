package decoder

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/linear"
)

// latentHeads returns the queries, keys and values of a layer with latent attention. For all heads the key is the
// latent followed by the rotated part, and the value is the same.
func (b body) latentHeads(w Weights, number int, h *Node) (q, k, v *Node) {
	layer := b.cfg.Layers[number]
	m, t, turn := layer.Latent, h.Shape().Dimensions[0], b.turns[layer.Rope]
	o := linear.Options{Rows: b.rows}
	in := apply(w, "latent_in", layer.QKVBias, h, o)
	cut := func(from, n int) *Node { return SliceAxis(in, 1, AxisRange(from, from+n)) }
	first := m.QueryRank // the start of the latent
	if first > 0 {
		q = apply(w, string(arch.QueryUp), false,
			rmsNorm(cut(0, first), w.get(string(arch.QueryNorm)), m.Eps, b.rows), o)
	} else {
		first = b.cfg.NumHeads * m.QueryDim()
		q = cut(0, first)
	}
	q = Reshape(q, t, b.cfg.NumHeads, m.QueryDim())
	toLatent := linear.ApplyHeads(SliceAxis(q, 2, AxisRangeFromStart(m.KeyDim)), w.matrix(keysOfLatents), b.rows)
	latent := rmsNorm(cut(first, m.Rank), w.get(string(arch.LatentNorm)), m.Eps, b.rows)
	turned := func(x *Node) *Node {
		if m.Interleaved {
			x = halves(x)
		}
		return rotate(x, turn.cos, turn.sin)
	}
	q = Concatenate([]*Node{toLatent, turned(SliceAxis(q, 2, AxisRange(m.KeyDim)))}, 2)
	k = Concatenate([]*Node{InsertAxes(latent, 1), turned(InsertAxes(cut(first+m.Rank, m.RopeDim), 1))}, 2)
	return q, k, k
}

// ofLatents returns the values that heads read, [T, H*ValueDim], given the latents that they read, [T, H, Width].
func (b body) ofLatents(w Weights, m arch.Latent, a *Node) *Node {
	values := linear.ApplyHeads(SliceAxis(a, 2, AxisRangeFromStart(m.Rank)), w.matrix(valuesOfLatents), b.rows)
	return Reshape(values, a.Shape().Dimensions[0], b.cfg.NumHeads*m.ValueDim)
}

// halves moves the first of each pair of neighbours in [T, heads, D] before all second ones.
func halves(x *Node) *Node {
	all := AxisRange()
	return Concatenate([]*Node{Slice(x, all, all, AxisRange().Stride(2)), Slice(x, all, all,
		AxisRange(1).Stride(2))}, 2)
}

// The arrays of latent attention: the matrices of each head that map queries to latents, [Rank, KeyDim], and latents
// to values, [ValueDim, Rank]. Both are parts of one tensor of a checkpoint.
const (
	keysOfLatents   = string(arch.LatentUp) + ".keys.weight"
	valuesOfLatents = string(arch.LatentUp) + ".values.weight"
)

// perHead describes the place of each head's matrix in a tensor whose rows are grouped by head.
type perHead struct {
	rows        int // rows of a head in the tensor
	first, n    int // the rows of the head that are the matrix
	transposed  bool
	headsOnEach int // heads of the model on each device
}

// latentUp returns the arrays made from the tensor with Part LatentUp. They are floats regardless of how other
// matrices are held.
func (s Storage) latentUp(cfg models.Config, split Partition, t arch.Tensor) []Array {
	m, rank := cfg.Layers[t.Layer].Latent, t.Shape[1]
	spans, _ := split.of(cfg, t)
	of := perHead{rows: m.KeyDim + m.ValueDim, headsOnEach: split.Heads()}
	keys, values := of, of
	keys.n, keys.transposed = m.KeyDim, true
	values.first, values.n = m.KeyDim, m.ValueDim
	dtype := s.DType
	if s.Matrices != dtypes.InvalidDType {
		dtype = s.Matrices
	}
	array := func(name string, part perHead, out, in int) Array {
		a := Array{Name: fmt.Sprintf("%s%d.%s", layerPrefix, t.Layer, name), part: matrix, read: dtype,
			activations: s.DType, perHead: part,
			sources: []source{{name: t.Name, rows: t.Shape[0], width: rank, spans: spans}}}
		a.format = linear.NewFormat(s.Backend, linear.Matrix{Out: out, In: in, DType: dtype})
		a.Shape = shapes.Make(dtype, append([]int{part.headsOnEach}, a.format.Shape().Dimensions...)...)
		return a
	}
	return []Array{array(keysOfLatents, keys, rank, m.KeyDim), array(valuesOfLatents, values, m.ValueDim, rank)}
}

// fillHeads writes the matrices of the heads that devices have.
func (a Array) fillHeads(backend compute.Backend, flats []any, s source, devices [][]span,
	from *models.Checkpoint) error {
	size := a.format.Shape().Size()
	for i, flat := range flats {
		for _, part := range devices[i] {
			for row := 0; row < part.n; row += a.perHead.rows {
				rows, err := from.ReadRows(s.name, a.read,
					models.Span{From: part.from + row + a.perHead.first, N: a.perHead.n})
				if err != nil {
					return err
				}
				if err := s.check(rows, a.perHead.n*s.width); err != nil {
					return err
				}
				if a.perHead.transposed {
					if rows, err = transposed(rows, s.width); err != nil {
						return err
					}
				}
				at := (part.to + row) / a.perHead.rows * size
				one := reflect.ValueOf(flat).Slice(at, at+size).Interface()
				if err := a.format.Pack(backend, one, rows, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// transposed transposes a matrix with so many columns.
func transposed(rows any, width int) (any, error) {
	switch x := rows.(type) {
	case []float32:
		return transpose(x, width), nil
	case []bfloat16.BFloat16:
		return transpose(x, width), nil
	case []float16.Float16:
		return transpose(x, width), nil
	}
	return nil, fmt.Errorf("a matrix of %T can't be transposed", rows)
}

func transpose[T any](x []T, width int) []T {
	n := len(x) / width
	y := make([]T, len(x))
	for i := range n {
		for k := range width {
			y[k*n+i] = x[i*width+k]
		}
	}
	return y
}
