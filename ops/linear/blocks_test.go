package linear_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// inBlocks is the layer with a random matrix in blocks of a format.
func (l layer) inBlocks(f blocks.Format, seed uint64) layer {
	l = l.filled(seed)
	random := rand.New(rand.NewPCG(seed, 3))
	r := blocks.NewRows(f, l.out, l.in)
	for i := range r.Quants {
		r.Quants[i] = uint8(random.IntN(1 << f.Bits))
	}
	for i := range r.Quants {
		if f.E4M3 { // below 32; small ones only where float16 has them
			least := 4
			if l.dtype == dtypes.Float32 {
				least = 0
			}
			r.Quants[i] = r.Quants[i]&0x87 | uint8(least+random.IntN(12-least))<<3
		}
	}
	for i := range r.GroupScales {
		x := float32(random.NormFloat64() / 8)
		if f.Bits == 8 && !f.E4M3 {
			x /= 16
		}
		switch f.Group {
		case blocks.F16:
			x = blocks.Half(blocks.ToHalf(x))
		case blocks.BF16:
			x = math.Float32frombits(math.Float32bits(x) &^ 0xffff)
		}
		r.GroupScales[i] = x
	}
	for i := range r.Zeros {
		r.Zeros[i] = uint8(random.IntN(1 << f.Bits))
	}
	for i := range r.Scales {
		switch {
		case f.Super:
			r.Scales[i] = uint16(random.IntN(64))
			if f.Table == blocks.Curve { // whose numbers are large
				r.Scales[i] /= 16
			}
			continue
		case f.Exponent:
			r.Scales[i] = uint16(120 + random.IntN(8))
			continue
		}
		r.Scales[i] = blocks.ToHalf(float32(random.NormFloat64() / 32))
	}
	for i := range r.Minima {
		if f.Super {
			r.Minima[i] = uint16(random.IntN(64))
			continue
		}
		r.Minima[i] = blocks.ToHalf(float32(random.NormFloat64()))
	}
	for i := range r.ScaleFactors {
		r.ScaleFactors[i] = blocks.ToHalf(float32(random.NormFloat64() / 256))
		if f.Min {
			r.MinimumFactors[i] = blocks.ToHalf(float32(random.NormFloat64() / 64))
		}
	}
	l.blocks, l.w = r, r.Floats()
	return l
}

// blocksWeight is weight of a matrix in blocks.
func (l layer) blocksWeight(t testing.TB, backend compute.Backend, g *Graph, format linear.Format) (linear.Weight,
	[]compute.Buffer) {
	t.Helper()
	var buffers []compute.Buffer
	i := 0
	return linear.NewWeight(format, func(suffix string) *Node {
		shape := format.Planes()[i].Shape
		data := reflect.MakeSlice(reflect.SliceOf(shape.DType.GoType()), shape.Size(), shape.Size()).Interface()
		part := l.out / 3
		for _, rows := range [][2]int{{0, part}, {part, l.out}} {
			err := format.PackBlocks(backend, i, data, l.blocks.Slice(rows[0], rows[1]), rows[0])
			if err != nil {
				t.Fatal(err)
			}
		}
		buffers = append(buffers, upload(t, backend, data, shape))
		i++
		return Parameter(g, fmt.Sprintf("w%d", i), shape)
	}), buffers
}

// rounded is x as the kernels multiply it by blocks: each 32 of a row rounded to 8 bits.
func rounded(f blocks.Format, x []float32) []float32 {
	if f.E4M3 {
		return x
	}
	out := make([]float32, len(x))
	for b := 0; b < len(x); b += 32 {
		largest := float32(0)
		for _, v := range x[b : b+32] {
			largest = max(largest, v, -v)
		}
		if largest == 0 {
			continue
		}
		for i, v := range x[b : b+32] {
			out[b+i] = float32(math.RoundToEven(float64(v*(127/largest)))) * (largest * (1.0 / 127))
		}
	}
	return out
}

// blockLayers are layers of a format.
func blockLayers(f blocks.Format, rows int) []layer {
	u := f.Unit()
	all := []layer{
		{dtype: dtypes.Float32, out: 1, in: u, rows: rows},
		{dtype: dtypes.BFloat16, out: 70, in: 3 * u, bias: true, residual: true, rows: rows},
		{dtype: dtypes.Float16, out: 2 * 50, in: 2 * u, gateUp: true, activation: linear.SiLU, bias: true, rows: rows},
		{dtype: dtypes.Float32, out: 2 * 37, in: 9 * u, gateUp: true, activation: linear.GELU, rows: rows},
		{dtype: dtypes.BFloat16, out: 300, in: 5 * u, float32: true, rows: rows},
	}
	for i := range all {
		all[i] = all[i].inBlocks(f, uint64(i))
	}
	return all
}

// formats calls f with each format, by its name.
func formats(t *testing.T, f func(t *testing.T, format blocks.Format)) {
	for _, name := range slices.Sorted(maps.Keys(blocks.Formats)) {
		t.Run(name, func(t *testing.T) { f(t, blocks.Formats[name]) })
	}
	for _, format := range grouped {
		t.Run(fmt.Sprint(format, format.Group), func(t *testing.T) { f(t, format) })
	}
}

// grouped are formats of safetensors files.
var grouped = []blocks.Format{
	{Bits: 4, Size: 128, Group: blocks.F16, Zero: true}, {Bits: 4, Size: 32, Group: blocks.BF16, Offset: 8},
	{Bits: 8, Size: 128, Group: blocks.F32, Offset: 128}, {Bits: 8, Size: 64, Group: blocks.BF16, Zero: true},
	{Bits: 8, Size: 128, Group: blocks.F32, E4M3: true}, {Bits: 8, Size: 64, Group: blocks.F16, E4M3: true},
}

// Results of matrices in blocks are those of float64 within rounding, where activations are rounded to 8 bits.
func TestBlocks(t *testing.T) {
	const rows = 21
	backend := testenv.XLA(t)
	formats(t, func(t *testing.T, f blocks.Format) {
		for _, l := range blockLayers(f, rows) {
			format := linear.NewFormat(backend, l.matrix())
			if !format.Packed() {
				t.Fatal("the kernels want no packed matrix")
			}
			if want := int64(f.Bytes(l.out * l.in)); l.out%32 == 0 && format.Bytes() != want {
				t.Errorf("%s takes %d bytes, want %d", l, format.Bytes(), want)
			}
			run := l.compile(t, backend, format)
			for _, n := range []int{rows, 1, 7} {
				l.check(t, run(l.x[:n*l.in], l.r[:n*l.columns()]), rounded(f, l.x[:n*l.in]), l.r[:n*l.columns()])
			}
		}
	})
}

// The plain form does so with activations as they are, packed or not. It rounds the matrix to their dtype.
func TestPlainBlocks(t *testing.T) {
	const rows = 5
	packs := testenv.XLA(t)
	formats(t, func(t *testing.T, f blocks.Format) {
		for _, backend := range []compute.Backend{testenv.XLAWithoutKernels(t), testenv.Go(t)} {
			for i, l := range blockLayers(f, rows) {
				if i%2 == 1 && testing.Short() {
					continue
				}
				l.w = widened(flat(l.w, l.dtype))
				plain := linear.NewFormat(backend, l.matrix())
				if plain.Packed() {
					t.Fatalf("%s wants packed matrices", backend.Name())
				}
				l.check(t, l.compile(t, backend, plain)(l.x, l.r), l.x, l.r)
				if backend.Name() == "xla" {
					held := packedBy{backend, packs}
					l.check(t, l.compile(t, held, linear.NewFormat(packs, l.matrix()))(l.x, l.r), l.x, l.r)
				}
			}
		}
	})
}

// A row's results are the same bits whatever the number of rows and its place among them; a row with what is not a
// number gives such results, and leaves the others alone.
func TestRowsOfBlocksAreIndependent(t *testing.T) {
	const rows = 203
	backend := testenv.XLA(t)
	formats(t, func(t *testing.T, f blocks.Format) {
		l := layer{dtype: dtypes.BFloat16, out: 130, in: 4 * f.Unit(), residual: true, rows: rows}.inBlocks(f, 1)
		run := l.compile(t, backend, linear.NewFormat(backend, l.matrix()))
		all := run(l.x, l.r)
		for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 24, 25, 64, 95, 96, 97, 192, 193} {
			from := rows - n
			if got := run(l.x[:n*l.in], l.r[:n*l.out]); !slices.Equal(got, all[:n*l.out]) {
				t.Fatalf("%d rows are other bits than among %d", n, rows)
			}
			if got := run(l.x[from*l.in:], l.r[from*l.out:]); !slices.Equal(got, all[from*l.out:]) {
				t.Fatalf("the last %d rows are other bits alone", n)
			}
		}
		wrong := slices.Clone(l.x)
		wrong[4*l.in+7], wrong[6*l.in+33] = float32(math.NaN()), float32(math.Inf(1))
		got := run(wrong, l.r)
		for i, y := range got {
			row := i / l.out
			if bad := row == 4 || row == 6; bad != (y-y != 0) || !bad && y != all[i] {
				t.Fatalf("row %d has %g beside rows that are not numbers", row, y)
			}
		}
		tiny, zero := slices.Clone(l.x), slices.Clone(l.x) // 127 by the largest of a block's numbers is infinite
		for i := range 32 {
			tiny[2*l.in+i], zero[2*l.in+i] = 1e-37, 0
		}
		if !slices.Equal(run(tiny, l.r), run(zero, l.r)) {
			t.Fatal("a block of numbers near nothing does not count as zeros")
		}
	})
}

// Rows are the matrix's own.
func TestRowsOfBlocks(t *testing.T) {
	formats(t, func(t *testing.T, f blocks.Format) {
		backends := []compute.Backend{testenv.XLA(t), testenv.XLAWithoutKernels(t), testenv.Go(t), testenv.Go(t)}
		for i, backend := range backends {
			l := layer{dtype: dtypes.Float32, out: 99, in: 2 * f.Unit()}.inBlocks(f, 3)
			g := NewGraph(backend, "rows")
			format := linear.NewFormat(backend, l.matrix())
			if i == 3 {
				format = format.Sliced(40)
			}
			w, buffers := l.weight(t, backend, g, format)
			ids := []int32{0, 98, 15, 16, 31, 32, 33, 5, 5, -1, 99}
			if err := g.Compile(linear.Rows(w, Const(g, ids), nil, dtypes.Float32)); err != nil {
				t.Fatal(err)
			}
			out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(ids)*l.in)
			if err := out[0].ToFlatData(got); err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				id = max(0, min(98, id))
				for k, want := range l.w[int(id)*l.in:][:l.in] { // XLA may fuse the multiplication and the addition
					if v := got[i*l.in+k]; math.Abs(float64(v-want)) > 1e-5*(1+math.Abs(float64(want))) {
						t.Fatalf("%s: number %d of row %d is %g, want %g", backend.Name(), k, id, v, want)
					}
				}
			}
			g.Finalize()
		}
	})
}

// A layer in parts of several formats is the layer of all rows.
func TestParts(t *testing.T) {
	backend := testenv.XLA(t)
	for _, gateUp := range []bool{false, true} {
		var of []layer
		for i, f := range []blocks.Format{blocks.Q4_K, blocks.Q6_K} {
			of = append(of, layer{dtype: dtypes.BFloat16, out: 40, in: 512, rows: 9}.inBlocks(f, uint64(i)))
		}
		whole := layer{dtype: dtypes.BFloat16, out: 80, in: 512, rows: 9, gateUp: gateUp, bias: true, residual: true}
		if gateUp {
			whole.activation = linear.SiLU
		}
		whole = whole.filled(7)
		whole.w = append(slices.Clone(of[0].w), of[1].w...)
		g := NewGraph(backend, "parts")
		defer g.Finalize()
		var parts []linear.Weight
		var buffers []compute.Buffer
		for i, l := range of {
			format := linear.NewFormat(backend, l.matrix())
			data := make([]uint8, format.Shape().Size())
			if err := format.PackBlocks(backend, 0, data, l.blocks, 0); err != nil {
				t.Fatal(err)
			}
			parts = append(parts, linear.Weight{Format: format, Data: Parameter(g, fmt.Sprint("part", i),
				format.Shape())})
			buffers = append(buffers, upload(t, backend, data, format.Shape()))
		}
		constant := func(x []float32, dims ...int) *Node {
			return ConvertDType(Reshape(Const(g, x), dims...), dtypes.BFloat16)
		}
		y := linear.Apply(constant(whole.x, 9, 512), linear.NewParts(parts, gateUp), linear.Options{
			Bias: constant(whole.b, 80), Residual: constant(whole.r, 9, whole.columns()),
			Activation: whole.activation})
		if err := g.Compile(ConvertDType(y, dtypes.Float32)); err != nil {
			t.Fatal(err)
		}
		out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 9*whole.columns())
		if err := out[0].ToFlatData(got); err != nil {
			t.Fatal(err)
		}
		whole.check(t, got, rounded(blocks.Q4_K, whole.x), whole.r)
	}
}
