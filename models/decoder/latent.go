package decoder

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/linear"
)

// The arrays of latent attention: the matrices of each head that map queries to latents, [Rank, KeyDim], and latents
// to values, [ValueDim, Rank]. Both are parts of one tensor of a checkpoint.
const (
	keysOfLatents   = string(arch.LatentUp) + ".keys.weight"
	valuesOfLatents = string(arch.LatentUp) + ".values.weight"
)

// latentUp returns the arrays made from the tensor with Part LatentUp. They are floats regardless of how other
// matrices are held.
func (s Storage) latentUp(cfg models.Config, split Partition, t arch.Tensor) []Array {
	m, rank := cfg.Layers[t.Layer].Latent, t.Shape[1]
	spans, _ := split.spansOf(cfg, t)
	heads := perHead{rows: m.KeyDim + m.ValueDim, headsOnEach: split.Heads()}
	keys, values := heads, heads
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
				start := (part.to + row) / a.perHead.rows * size
				one := reflect.ValueOf(flat).Slice(start, start+size).Interface()
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
