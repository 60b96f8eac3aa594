package linear_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/ops/linear"
)

// layer is a linear layer and numbers for it.
type layer struct {
	dtype          dtypes.DType
	weights        dtypes.DType // the same, or Int8
	out, in        int
	gateUp         bool
	activation     linear.Activation
	bias, residual bool
	float32        bool
	rows           int // of the program

	x, w, b, r, scales []float32
	blocks             *blocks.Rows // the matrix, where it is in blocks: w has its numbers
	stacked            bool         // the matrix is one of a stack
}

func (l layer) String() string {
	s := fmt.Sprintf("%s [%d, %d] %s", l.weights, l.out, l.in, l.activation)
	for name, is := range map[string]bool{"gate and up": l.gateUp, "bias": l.bias, "residual": l.residual,
		"to float32": l.float32} {
		if is {
			s += ", " + name
		}
	}
	return s
}

func (l layer) matrix() linear.Matrix {
	if l.blocks != nil {
		return linear.Matrix{Out: l.out, In: l.in, GateUp: l.gateUp, DType: dtypes.Uint8, Blocks: l.blocks.Format}
	}
	return linear.Matrix{Out: l.out, In: l.in, GateUp: l.gateUp, DType: l.weights}
}

func (l layer) columns() int { return l.matrix().Columns() }

// limit is that of a clamped activation, 0 of others.
func (l layer) limit() (limit float64) {
	if l.activation == linear.ClampedSwiGLU {
		return linear.SwiGLULimit
	}
	_, _ = fmt.Sscanf(string(l.activation), "clamped_swiglu %g", &limit)
	return limit
}

// activate is the layer's activation in float64.
func (l layer) activate(x float64) float64 {
	switch l.activation {
	case linear.SiLU:
		return x / (1 + math.Exp(-x))
	case linear.GELUTanh:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case linear.GELU:
		return x / 2 * math.Erfc(-x/math.Sqrt2)
	case linear.ReLUSquared:
		return math.Pow(max(x, 0), 2)
	}
	if limit := l.limit(); limit > 0 {
		x = min(x, limit)
		return x / (1 + math.Exp(-linear.SwiGLUAlpha*x))
	}
	return x
}

// slope is at least the activation's slope at x.
func (l layer) slope(x float64) float64 {
	if l.activation == linear.ReLUSquared {
		return 1 + 2*math.Abs(x)
	}
	return 1.2
}

// filled returns the layer with random numbers that its dtype has.
func (l layer) filled(seed uint64) layer {
	random := rand.New(rand.NewPCG(seed, 1))
	if l.weights == dtypes.InvalidDType {
		l.weights = l.dtype
	}
	numbers := func(n int, dtype dtypes.DType) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64())
			if dtype == dtypes.Int8 {
				x[i] = float32(random.IntN(255) - 127)
			}
		}
		return widened(flat(x, dtype))
	}
	l.x = numbers(l.rows*l.in, l.dtype)
	l.w = numbers(l.out*l.in, l.weights)
	l.b = numbers(l.out, l.dtype)
	l.r = numbers(l.rows*l.columns(), l.dtype)
	l.scales = numbers(l.out, dtypes.Float32)
	return l
}

// flat returns numbers as a slice of a dtype's.
func flat(x []float32, dtype dtypes.DType) any {
	switch dtype {
	case dtypes.BFloat16:
		y := make([]bfloat16.BFloat16, len(x))
		for i := range x {
			y[i] = bfloat16.FromFloat32(x[i])
		}
		return y
	case dtypes.Float16:
		y := make([]float16.Float16, len(x))
		for i := range x {
			y[i] = float16.FromFloat32(x[i])
		}
		return y
	case dtypes.Int8:
		y := make([]int8, len(x))
		for i := range x {
			y[i] = int8(x[i])
		}
		return y
	}
	return x
}

// widened undoes flat.
func widened(x any) []float32 {
	var y []float32
	switch x := x.(type) {
	case []bfloat16.BFloat16:
		for _, v := range x {
			y = append(y, v.Float32())
		}
	case []float16.Float16:
		for _, v := range x {
			y = append(y, v.Float32())
		}
	case []int8:
		for _, v := range x {
			y = append(y, float32(v))
		}
	case []float32:
		y = x
	}
	return y
}

// want is a row's results, and for each the sum of the magnitudes it is made of, in float64.
func (l layer) want(x, residual []float32) (y, magnitude []float64) {
	sums, sizes := make([]float64, l.out), make([]float64, l.out)
	input, scale := make([]float64, l.in), 1.0
	largest := float32(0)
	for i, v := range x {
		input[i] = float64(v)
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if l.weights == dtypes.Int8 {
		scale = float64(largest) / 127
		for i, v := range x {
			input[i] = math.RoundToEven(float64(v * (127 / largest)))
		}
	}
	for o := range sums {
		for i, v := range input {
			p := v * float64(l.w[o*l.in+i])
			sums[o] += p
			sizes[o] += math.Abs(p)
		}
		if l.weights == dtypes.Int8 {
			sums[o] *= scale * float64(l.scales[o])
			sizes[o] *= math.Abs(scale * float64(l.scales[o]))
		}
		if l.bias {
			sums[o] += float64(l.b[o])
			sizes[o] += math.Abs(float64(l.b[o]))
		}
	}
	columns := l.columns()
	for i := range columns {
		y, size := l.activate(sums[i]), sizes[i]
		if l.activation != "" && l.activation != linear.None {
			size = (size + 1) * l.slope(sums[i])
		}
		if l.gateUp {
			up := sums[columns+i]
			if limit := l.limit(); limit > 0 {
				up = 1 + min(max(up, -limit), limit)
				size += math.Abs(y)
			}
			y, size = y*up, size*math.Abs(up)+sizes[columns+i]*math.Abs(y)
		}
		sums[i], sizes[i] = y, size
	}
	sums, sizes = sums[:columns], sizes[:columns]
	if l.residual {
		for i := range sums {
			sums[i] += float64(residual[i])
			sizes[i] += math.Abs(float64(residual[i]))
		}
	}
	return sums, sizes
}

// pack packs the layer's matrix in two parts.
func pack(l layer, format linear.Format, backend compute.Backend, packed any) error {
	rows := l.out / 3
	if err := format.Pack(backend, packed, flat(l.w[:rows*l.in], l.weights), 0); err != nil {
		return err
	}
	return format.Pack(backend, packed, flat(l.w[rows*l.in:], l.weights), rows)
}

// weight declares the layer's matrix in a graph and returns it with its buffers.
func (l layer) weight(t testing.TB, backend compute.Backend, g *Graph, format linear.Format) (linear.Weight,
	[]compute.Buffer) {
	t.Helper()
	if l.blocks != nil {
		return l.blocksWeight(t, backend, g, format)
	}
	shape := format.Shape()
	packed := make([]float32, shape.Size())
	data := flat(packed, l.weights)
	if err := pack(l, format, backend, data); err != nil {
		t.Fatal(err)
	}
	w := linear.Weight{Format: format, Data: Parameter(g, "w", shape)}
	buffers := []compute.Buffer{upload(t, backend, data, shape)}
	if l.weights == dtypes.Int8 {
		w.Scales = Parameter(g, "scales", format.ScalesShape())
		buffers = append(buffers, upload(t, backend, l.scales, format.ScalesShape()))
	}
	return w, buffers
}

func upload(t testing.TB, backend compute.Backend, flat any, shape shapes.Shape) compute.Buffer {
	t.Helper()
	b, err := backend.BufferFromFlatData(0, flat, shape)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compile returns the layer as a function of x and the residual, of up to l.rows rows each.
func (l layer) compile(t testing.TB, backend compute.Backend, format linear.Format) func(x,
	residual []float32) []float32 {
	t.Helper()
	g := NewGraph(backend, "linear")
	t.Cleanup(g.Finalize)
	w, buffers := l.weight(t, backend, g, format)
	if l.stacked {
		w = inStacks(w)
	}
	declare := func(name string, dtype dtypes.DType, dims ...int) *Node {
		return Parameter(g, name, shapes.Make(dtype, dims...))
	}
	o := linear.Options{Float32: l.float32, Activation: l.activation}
	if l.bias {
		o.Bias = declare("bias", l.dtype, l.out)
		buffers = append(buffers, upload(t, backend, flat(l.b, l.dtype), o.Bias.Shape()))
	}
	x := declare("x", l.dtype, l.rows, l.in)
	residual := declare("residual", l.dtype, l.rows, l.columns())
	if l.residual {
		o.Residual = residual
	}
	o.Rows = declare("rows", dtypes.Int32)
	y := linear.Apply(x, w, o)
	if err := g.Compile(ConvertDType(y, dtypes.Float32)); err != nil {
		t.Fatal(err)
	}
	return func(xs, rs []float32) []float32 {
		t.Helper()
		rows := len(xs) / l.in
		padded := func(x []float32, n int) []float32 { return append(x[:len(x):len(x)], make([]float32, n-len(x))...) }
		args := append(buffers[:len(buffers):len(buffers)],
			upload(t, backend, flat(padded(xs, l.rows*l.in), l.dtype), x.Shape()),
			upload(t, backend, flat(padded(rs, l.rows*l.columns()), l.dtype), residual.Shape()),
			upload(t, backend, []int32{int32(rows)}, o.Rows.Shape()))
		out, err := g.Executable().Execute(args, make([]bool, len(args)), 0)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]float32, l.rows*l.columns())
		if err := out[0].ToFlatData(all); err != nil {
			t.Fatal(err)
		}
		for _, b := range append(args[len(buffers):], out...) {
			_ = b.Finalize()
		}
		return all[:rows*l.columns()]
	}
}
