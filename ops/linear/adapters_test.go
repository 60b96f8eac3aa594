package linear_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// lowRank is a layer with adapters, of random numbers.
type lowRank struct {
	t, in, out, rank, pairs int
	gateUp                  bool
	dtype                   dtypes.DType
	parts                   []int
	x, w, down, up          []float32 // up is [pairs, rank, out]
	of                      []int32
}

func newLowRank(t, in, out, rank, pairs int, gateUp bool, dtype dtypes.DType) *lowRank {
	l := &lowRank{t: t, in: in, out: out, rank: rank, pairs: pairs, gateUp: gateUp, dtype: dtype}
	rng := rand.New(rand.NewPCG(uint64(t*in), uint64(out*rank)))
	random := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(rng.NormFloat64())
			if dtype == dtypes.BFloat16 {
				list[i] = bfloat16.FromFloat32(list[i]).Float32()
			}
		}
		return list
	}
	l.x, l.w, l.down, l.up = random(t*in), random(out*in), random(pairs*rank*in), random(pairs*out*rank)
	l.parts = []int{out}
	if gateUp {
		l.parts = []int{out / 2, out / 2}
	} else if rank%48 == 0 {
		l.parts = []int{out / 4, out / 4, out - out/4*2}
	}
	for i := range l.up { // 0 if the rank belongs to another part
		k, column, part := i/out%rank, i%out, 0
		for sum := l.parts[0]; column >= sum; sum += l.parts[part] {
			part++
		}
		if k/(rank/len(l.parts)) != part {
			l.up[i] = 0
		}
	}
	for range t {
		l.of = append(l.of, int32(rng.IntN(pairs+1))-1)
	}
	return l
}

// run computes the layer on a backend; without adapters if plain.
func (l *lowRank) run(t *testing.T, backend compute.Backend, plain bool) []float32 {
	t.Helper()
	held := func(numbers []float32) any {
		if l.dtype != dtypes.BFloat16 {
			return numbers
		}
		list := make([]bfloat16.BFloat16, len(numbers))
		for i, x := range numbers {
			list[i] = bfloat16.FromFloat32(x)
		}
		return list
	}
	packed := func(f linear.Format, numbers []float32, count int) any {
		size := f.Shape().Size()
		var all any = make([]float32, count*size)
		if l.dtype == dtypes.BFloat16 {
			all = make([]bfloat16.BFloat16, count*size)
		}
		for i := range count {
			rows := held(numbers[i*f.Out*f.In : (i+1)*f.Out*f.In])
			var part any
			switch all := all.(type) {
			case []float32:
				part = all[i*size : (i+1)*size]
			case []bfloat16.BFloat16:
				part = all[i*size : (i+1)*size]
			}
			if err := f.Pack(backend, part, rows, 0); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	base := linear.NewFormat(backend, linear.Matrix{Out: l.out, In: l.in, GateUp: l.gateUp, DType: l.dtype})
	down := linear.NewFormat(backend, linear.Matrix{Out: l.rank, In: l.in, DType: l.dtype})
	activation := linear.None
	if l.gateUp {
		activation = linear.SiLU
	}
	return lowRankResult(t, backend, l, base, down, activation, plain, held(l.x), packed(base, l.w, 1),
		packed(down, l.down, l.pairs), held(l.up))
}

// want computes a row's products without activation in float64.
func (l *lowRank) want(row, column int) float64 {
	sum := 0.0
	for i := range l.in {
		sum += float64(l.x[row*l.in+i]) * float64(l.w[column*l.in+i])
	}
	of := int(l.of[row])
	if of < 0 {
		return sum
	}
	for k := range l.rank {
		inner := 0.0
		for i := range l.in {
			inner += float64(l.x[row*l.in+i]) * float64(l.down[(of*l.rank+k)*l.in+i])
		}
		sum += inner * float64(l.up[(of*l.rank+k)*l.out+column])
	}
	return sum
}

// Kernels and plain forms add to each row what its adapter makes of it, for sizes around those of registers; rows
// without an adapter have the bytes of a layer without, and no row depends on the others.
func TestAdapters(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		for _, c := range []*lowRank{newLowRank(1, 32, 48, 16, 1, false, dtype),
			newLowRank(7, 40, 33, 16, 3, false, dtype), newLowRank(64, 96, 160, 32, 5, true, dtype),
			newLowRank(33, 64, 80, 48, 2, false, dtype), newLowRank(291, 320, 64, 16, 3, false, dtype)} {
			for name, backend := range map[string]compute.Backend{"kernels": testenv.XLA(t),
				"plain": testenv.XLAWithoutKernels(t)} {
				t.Run(fmt.Sprintf("%s %d x %d -> %d, %s", dtype, c.t, c.in, c.out, name), func(t *testing.T) {
					checkAdapters(t, backend, c)
				})
			}
		}
	}
}

func checkAdapters(t *testing.T, backend compute.Backend, c *lowRank) {
	got, without := c.run(t, backend, false), c.run(t, backend, true)
	columns := len(got) / c.t
	for row := range c.t {
		mine := got[row*columns : (row+1)*columns]
		if c.of[row] < 0 {
			if !slices.Equal(mine, without[row*columns:(row+1)*columns]) {
				t.Fatalf("row %d has no adapter, and other numbers than without adapters", row)
			}
			continue
		}
		for column, y := range mine {
			want := c.want(row, column)
			if c.gateUp {
				want = want / (1 + math.Exp(-want)) * c.want(row, columns+column)
			}
			if math.Abs(float64(y)-want) > 1e-4*(10+math.Abs(want)) && c.dtype == dtypes.Float32 ||
				math.Abs(float64(y)-want) > 3e-2*(10+math.Abs(want)) {
				t.Fatalf("row %d, column %d: %v, want %v", row, column, y, want)
			}
		}
	}
	// The same rows with all others turned to another adapter, or to none.
	other := *c
	other.of = slices.Clone(c.of)
	for row := range other.of {
		if row%2 == 1 {
			other.of[row] = int32((int(c.of[row])+2)%(c.pairs+1)) - 1
		}
	}
	changed := other.run(t, backend, false)
	for row := 0; row < c.t; row += 2 {
		if !slices.Equal(got[row*columns:(row+1)*columns], changed[row*columns:(row+1)*columns]) {
			t.Fatalf("row %d depends on the adapters of others", row)
		}
	}
}

func lowRankResult(t *testing.T, backend compute.Backend, l *lowRank, base, down linear.Format,
	activation linear.Activation, plain bool, x, w, a, b any) []float32 {
	t.Helper()
	g := NewGraph(backend, "low rank")
	defer g.Finalize()
	shape := down.Shape()
	nodes := map[string]*Node{
		"x": Parameter(g, "x", shapes.Make(l.dtype, l.t, l.in)), "w": Parameter(g, "w", base.Shape()),
		"a":  Parameter(g, "a", shapes.Make(shape.DType, append([]int{l.pairs}, shape.Dimensions...)...)),
		"b":  Parameter(g, "b", shapes.Make(l.dtype, l.pairs, l.rank, l.out)),
		"of": Parameter(g, "of", shapes.Make(dtypes.Int32, l.t)),
	}
	weight := func(f linear.Format, name string) linear.Weight {
		return linear.NewWeight(f, func(string) *Node { return nodes[name] })
	}
	o := linear.Options{Activation: activation}
	if !plain {
		o.Adapters = &linear.Adapters{Down: weight(down, "a"), Up: nodes["b"], Parts: l.parts, Of: nodes["of"]}
	}
	y := linear.Apply(nodes["x"], weight(base, "w"), o)
	if plain { // all parameters are used
		y = Add(y, ConvertDType(MulScalar(ReduceAllSum(ConvertDType(nodes["of"], dtypes.Float32)), 0), y.DType()))
	}
	return numbersOf(t, backend, g, y, map[*Node]any{nodes["x"]: x, nodes["w"]: w, nodes["a"]: a, nodes["b"]: b,
		nodes["of"]: l.of})
}

// numbersOf runs a graph, and returns y.
func numbersOf(t *testing.T, backend compute.Backend, g *Graph, y *Node, inputs map[*Node]any) []float32 {
	t.Helper()
	if err := g.Compile(ConvertDType(y, dtypes.Float32)); err != nil {
		t.Fatal(err)
	}
	buffers := make([]compute.Buffer, len(inputs))
	for node, flat := range inputs {
		buffer, err := backend.BufferFromFlatData(0, flat, node.Shape())
		if err != nil {
			t.Fatal(err)
		}
		buffers[node.GetParameterHandle()] = buffer
	}
	out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
	if err != nil {
		t.Fatal(err)
	}
	result := make([]float32, y.Shape().Size())
	if err := out[0].ToFlatData(result); err != nil {
		t.Fatal(err)
	}
	for _, buffer := range append(buffers, out...) {
		_ = buffer.Finalize()
	}
	return result
}

// lookUp is rows of a matrix [vocabulary, width] with adapters, of random numbers.
type lookUp struct {
	t, vocabulary, width, rank, pairs int
	dtype                             dtypes.DType
	x, down, up                       []float32 // down is [pairs, width, rank], and up [pairs, vocabulary, rank]
	ids, of                           []int32
}

func newLookUp(t, vocabulary, width, rank, pairs int, dtype dtypes.DType) lookUp {
	l := lookUp{t: t, vocabulary: vocabulary, width: width, rank: rank, pairs: pairs, dtype: dtype}
	rng := rand.New(rand.NewPCG(uint64(t*vocabulary), uint64(width*rank)))
	random := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(rng.NormFloat64())
		}
		return widened(flat(list, dtype))
	}
	l.x, l.down, l.up = random(t*width), random(pairs*width*rank), random(pairs*vocabulary*rank)
	for range t {
		l.ids, l.of = append(l.ids, int32(rng.IntN(vocabulary))), append(l.of, int32(rng.IntN(pairs+1))-1)
	}
	l.ids[t-1] = -1 // padding
	return l
}

// among is the same adapters among as many more, in another order and with more ranks, which are 0.
func (l lookUp) among() lookUp {
	m := l
	m.rank, m.pairs, m.of = 3*l.rank, 2*l.pairs, slices.Clone(l.of)
	widen := func(x []float32, rows int) []float32 {
		list := make([]float32, m.pairs*rows*m.rank)
		for i := range l.pairs * rows {
			to := (m.pairs-1-i/rows)*rows + i%rows
			copy(list[to*m.rank:], x[i*l.rank:(i+1)*l.rank])
		}
		return list
	}
	m.down, m.up = widen(l.down, l.width), widen(l.up, l.vocabulary)
	for i, of := range l.of {
		if of >= 0 {
			m.of[i] = int32(m.pairs) - 1 - of
		}
	}
	return m
}

func (l lookUp) run(t *testing.T, backend compute.Backend) []float32 {
	t.Helper()
	g := NewGraph(backend, "rows")
	defer g.Finalize()
	down := linear.NewFormat(backend, linear.Matrix{Out: l.width, In: l.rank, DType: l.dtype})
	one := down.Shape()
	packed := reflect.ValueOf(flat(make([]float32, l.pairs*one.Size()), l.dtype))
	for i := range l.pairs {
		numbers := flat(l.down[i*l.width*l.rank:(i+1)*l.width*l.rank], l.dtype)
		if err := down.Pack(backend, packed.Slice(i*one.Size(), (i+1)*one.Size()).Interface(), numbers, 0); err != nil {
			t.Fatal(err)
		}
	}
	x, ids := Parameter(g, "x", shapes.Make(l.dtype, l.t, l.width)), Parameter(g, "ids", shapes.Make(dtypes.Int32, l.t))
	a := Parameter(g, "a", shapes.Make(one.DType, append([]int{l.pairs}, one.Dimensions...)...))
	b := Parameter(g, "b", shapes.Make(l.dtype, l.pairs, l.vocabulary, l.rank))
	of := Parameter(g, "of", shapes.Make(dtypes.Int32, l.t))
	all := linear.Adapters{Down: linear.NewWeight(down, func(string) *Node { return a }), Up: b, Of: of}
	return numbersOf(t, backend, g, all.Rows(x, ids, nil), map[*Node]any{x: flat(l.x, l.dtype), ids: l.ids,
		a: packed.Interface(), b: flat(l.up, l.dtype), of: l.of})
}

// A row of embeddings has what its adapter adds to it, whichever other adapters there are and whatever their ranks; a
// row without one is the same bytes.
func TestAdaptersOfRows(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		for _, l := range []lookUp{newLookUp(1, 5, 32, 16, 1, dtype), newLookUp(9, 40, 33, 16, 3, dtype),
			newLookUp(70, 300, 96, 32, 4, dtype)} {
			for name, backend := range map[string]compute.Backend{"kernels": testenv.XLA(t),
				"plain": testenv.XLAWithoutKernels(t)} {
				t.Run(fmt.Sprintf("%s %d of [%d, %d], %s", dtype, l.t, l.vocabulary, l.width, name),
					func(t *testing.T) { checkLookUp(t, backend, l) })
			}
		}
	}
}

func checkLookUp(t *testing.T, backend compute.Backend, l lookUp) {
	got := l.run(t, backend)
	for i, y := range got {
		row, column := i/l.width, i%l.width
		of := int(l.of[row])
		want, tolerance := float64(l.x[i]), 0.0
		if of >= 0 {
			id := max(0, int(l.ids[row]))
			for k := range l.rank {
				want += float64(l.up[(of*l.vocabulary+id)*l.rank+k]) * float64(l.down[(of*l.width+column)*l.rank+k])
			}
			if tolerance = 1e-5 * (10 + math.Abs(want)); l.dtype == dtypes.BFloat16 {
				tolerance = math.Abs(want)/256 + 1e-4
			}
		}
		if math.Abs(float64(y)-want) > tolerance {
			t.Fatalf("row %d with adapter %d, column %d: %v, want %v", row, of, column, y, want)
		}
	}
	if !slices.Equal(got, l.among().run(t, backend)) {
		t.Error("rows depend on which other adapters there are")
	}
}
