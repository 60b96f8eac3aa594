package linear

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Apply returns for each row of x [T, In] the sum of share * Down(Up(x)) over its experts: [T, In]. Inner rows are
// rounded to x's dtype; the sums are float32 and rounded once. Of the options Rows, Residual and Float32 count.
//
// A row's result depends on no other row. Kernels add up in the order of the experts' numbers, and do not read the
// weights of experts that no row goes to; so does the plain form but for [Experts.together].
func (e Experts) Apply(x *Node, r Routes, o Options) *Node {
	g, dtype := x.Graph(), x.DType()
	experts, t, k := e.count(), r.Experts.Shape().Dimensions[0], r.Experts.Shape().Dimensions[1]
	if x.Rank() != 2 || x.Shape().Dimensions[0] != t || x.Shape().Dimensions[1] != e.Up.In ||
		e.Up.Columns() != e.Down.In || e.Down.Out != e.Up.In {
		panic(fmt.Errorf("linear: x of shape %s and experts of shape %s do not fit matrices [%d, %d] and [%d, %d]",
			x.Shape(), r.Experts.Shape(), e.Up.Out, e.Up.In, e.Down.Out, e.Down.In))
	}
	result := shapes.Make(dtype, t, e.Up.In)
	if o.Float32 {
		result.DType = dtypes.Float32
	}
	rows := o.Rows
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	if e.Up.Packed() {
		e.Up, e.Down = e.Up.cut(), e.Down.cut()
	}
	inputs := []*Node{x, r.Experts, r.Shares, rows, e.Up.Data, e.Down.Data}
	add := func(nodes ...*Node) (has bool) {
		for _, n := range nodes {
			if n != nil {
				inputs, has = append(inputs, n), true
			}
		}
		return has
	}
	scales, bias, residual := add(e.Up.Scales, e.Down.Scales), add(e.UpBias, e.DownBias), add(o.Residual)
	if !e.Up.Packed() || !e.Activation.inKernels() {
		return e.plain(x, r, rows, o.Residual, result.DType)
	}
	attrs := map[string]any{"in": e.Up.In, "inner": e.Down.In, "gate_up": e.Up.GateUp,
		"activation": e.Activation.number(), "scales": scales, "bias": bias, "residual": residual,
		"up_blocks": e.Up.Blocks.Number(), "down_blocks": e.Down.Blocks.Number()}
	scratch := shapes.Make(dtypes.Float32, expertsScratch(t, k, experts, e.Up.In, e.Down.In))
	return control.Composite("experts", attrs, inputs, []shapes.Shape{result, scratch},
		func([]*Node) []*Node { return []*Node{e.plain(x, r, rows, o.Residual, result.DType)} })[0]
}

// expertsScratch is what the kernel needs, in float32 numbers.
func expertsScratch(t, k, experts, in, inner int) int {
	assigned := t * k
	line := func(n int) int { return ceil(n, 16) * 16 }
	packed := line(assigned+15*min(experts, assigned)) * (ceil(max(in, inner), 64)*64 + 16)
	return 2*line(assigned*in) + line(assigned*inner) + packed + line(assigned)
}

// plain computes experts only for their own rows if that saves half of the arithmetic, and for all rows otherwise.
func (e Experts) plain(x *Node, r Routes, rows, residual *Node, dtype dtypes.DType) *Node {
	row := Iota(x.Graph(), r.Experts.Shape().Clone(), 0)
	wanted := Where(LessThan(row, BroadcastToDims(rows, row.Shape().Dimensions...)), r.Experts,
		full(x.Graph(), -1, row.Shape().Dimensions...))
	sum := e.each
	switch {
	case e.inTiles(r):
		sum = e.tiles
	case e.isTogether(r):
		sum = e.together
	}
	y := sum(x, r, wanted)
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return ConvertDType(y, dtype)
}
