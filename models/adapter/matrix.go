package adapter

import (
	"unsafe"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/safetensors"
)

// module is the tensors of one module of the base.
type module struct {
	a, b      *safetensors.Tensor
	magnitude *safetensors.Tensor // of DoRA: the length of each row; nil for none
	embeds    bool                // a and b are those of embeddings, turned around
}

// matrix is what an adapter adds to a tensor of its base.
type matrix struct {
	module
	rank, in int
	scale    float32
	out      int // rows of the tensor
	// place returns the row of b that belongs to a row of the tensor, which may be a part of the adapted module, or lie
	// in another order; nil if all are in their places.
	place func(row int) int
}

// encodings are the dtypes of tensors.
var encodings = map[string]gguf.Type{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}

// Element is a number as devices hold it.
type Element interface {
	float32 | bfloat16.BFloat16 | float16.Float16
}

// Grid gives which element of To each number of A or B becomes. Its index is rank*Rank + place*Place; a place is an
// input of A or an output of B.
type Grid[E Element] struct {
	To          []E
	Rank, Place int
}

// half is A or B as the file has it.
type half struct {
	*safetensors.Tensor
	rows, width int
	byPlace     bool              // rows are places, else ranks
	place       func(row int) int // see matrix
}

func (m matrix) down() half {
	if m.embeds {
		return half{m.b, m.in, m.rank, true, nil}
	}
	return half{m.a, m.rank, m.in, false, nil}
}

func (m matrix) up() half {
	if m.embeds {
		return half{m.a, m.rank, m.out, false, nil}
	}
	return half{m.b, m.out, m.rank, true, m.place}
}

// tileNumbers is how many numbers are read before they are written: few enough to stay in the cache.
const tileNumbers = 4096

// write writes the numbers of a half, times scale.
func write[E Element](to Grid[E], from half, scale float32) {
	n := reader[E]{typ: encodings[from.DType], scale: scale}
	_, size := n.typ.Block()
	down, right := to.Rank, to.Place // the steps to the next row and the next column of the half
	if from.byPlace {
		down, right = right, down
	}
	at := func(row, column int) []byte {
		if from.place != nil {
			row = from.place(row)
		}
		return from.Data[(row*from.width+column)*size:]
	}
	columns := min(from.width, tileNumbers)
	if right == 1 {
		for row := range from.rows {
			for column := 0; column < from.width; column += columns {
				n.read(to.To[row*down+column:][:min(columns, from.width-column)], at(row, column))
			}
		}
		return
	}
	var room [tileNumbers]E
	for row := 0; row < from.rows; row += tileNumbers / columns {
		rows := min(tileNumbers/columns, from.rows-row)
		for column := 0; column < from.width; column += columns {
			columns := min(columns, from.width-column)
			tile := room[:rows*columns]
			if from.place == nil && columns == from.width {
				n.read(tile, at(row, 0))
			} else {
				for i := range rows {
					n.read(tile[i*columns:][:columns], at(row+i, column))
				}
			}
			turn(to.To[row*down+column*right:], tile, columns, down, right)
		}
	}
}

// turn writes a tile column by column.
func turn[E Element](to, tile []E, columns, down, right int) {
	rows := len(tile) / columns
	for k := range columns {
		from := tile[k:]
		if to := to[k*right:]; down == 1 {
			for i := range to[:rows] {
				to[i] = from[i*columns]
			}
		} else {
			for i := range rows {
				to[i*down] = from[i*columns]
			}
		}
	}
}

// reader reads numbers of a file, times scale.
type reader[E Element] struct {
	typ    gguf.Type
	scale  float32
	floats []float32
}

// read fills to with the first numbers of data.
func (r *reader[E]) read(to []E, data []byte) {
	_, size := r.typ.Block()
	data = data[:len(to)*size]
	if r.scale == 1 && r.typ == typeOf(to) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), len(data)), data)
		return
	}
	if cap(r.floats) < len(to) {
		r.floats = make([]float32, len(to))
	}
	floats := r.floats[:len(to)]
	// The error is impossible: find checked the sizes.
	if err := gguf.Dequantize(r.typ, floats, data); err != nil {
		panic(err)
	}
	if r.scale != 1 {
		for i := range floats {
			floats[i] *= r.scale
		}
	}
	switch to := any(to).(type) {
	case []bfloat16.BFloat16:
		models.ToBFloat16(to, floats)
	case []float16.Float16:
		models.ToFloat16(to, floats)
	case []float32:
		copy(to, floats)
	}
}

// typeOf is how a file has numbers of a type.
func typeOf[E Element](of []E) gguf.Type {
	switch any(of).(type) {
	case []bfloat16.BFloat16:
		return gguf.BF16
	case []float16.Float16:
		return gguf.F16
	}
	return gguf.F32
}

// numbers are the first n elements of a tensor, which has one of the encodings.
func numbers(t *safetensors.Tensor, n int) []float32 {
	out := make([]float32, n)
	write(Grid[float32]{out, n, 1}, half{t, 1, n, false, nil}, 1)
	return out
}
