package linear

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/float16"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
)

// A matrix in blocks that is not packed has three planes. No last axis is short, since devices pad the last axis:
//
//	u8  [Out, In*Bits/8]  quants of 8 bits; or low nibbles, the first half of a row in the lower halves of bytes, and
//	                      then the bits above them: number c in bits of byte c mod In/8 (of fifth bits), or In/4
//	f16 [Out, In/Size]    scales, and as many minima after them; int8 if there are factors, u8 of exponents
//	f16 [Out, In/256]     factors of scales, and as many of minima
//
// Those of a matrix in slices have axes of slices before: see sliced.go.

// blockPlanes are the planes after the first.
func (f Format) blockPlanes() []Plane {
	b, each := f.Blocks, 1
	if b.Group != 0 {
		return f.groupPlanes()
	}
	if b.Min {
		each = 2
	}
	switch {
	case b.Exponent:
		return []Plane{{scalesSuffix, f.plane(dtypes.Uint8, f.In/b.Size)}}
	case !b.Super:
		return []Plane{{scalesSuffix, f.plane(dtypes.Float16, f.In/b.Size*each)}}
	}
	return []Plane{{scalesSuffix, f.plane(dtypes.Int8, f.In/b.Size*each)},
		{factorsSuffix, f.plane(dtypes.Float16, f.In/blocks.SuperSize*each)}}
}

// PackBlocks writes rows of a matrix in blocks, from the given one on, to a plane of it, by its place among
// [Format.Planes]: a flat slice that is initially zeros.
func (f Format) PackBlocks(backend compute.Backend, plane int, flat any, rows *blocks.Rows, from int) error {
	if rows.Format != f.Blocks || rows.In != f.In || from < 0 || from+rows.N > f.Out {
		return fmt.Errorf("linear: %d rows of %d in %s from row %d on do not fit a matrix [%d, %d] in %s", rows.N,
			rows.In, rows.Format, from, f.Out, f.In, f.Blocks)
	}
	if f.Packed() {
		return backend.(Packer).PackBlocks(flat.([]uint8), rows, f.Out, f.GateUp, from)
	}
	if half := f.Out / 2; f.InSlices() && f.GateUp && from < half && from+rows.N > half {
		if err := f.PackBlocks(backend, plane, flat, rows.Slice(0, half-from), from); err != nil {
			return err
		}
		return f.PackBlocks(backend, plane, flat, rows.Slice(half-from, rows.N), half)
	}
	pairs := func(scales, minima []uint16, each int) []uint16 { // of rows
		if minima == nil {
			return scales
		}
		n := f.In / each
		var out []uint16
		for row := range rows.N {
			out = append(append(out, scales[row*n:][:n]...), minima[row*n:][:n]...)
		}
		return out
	}
	start := f.place(from) * f.Planes()[plane].Shape.Dim(-1)
	switch {
	case plane == 0:
		to := flat.([]uint8)[start:]
		for row := range rows.N {
			packQuants(to[row*f.In*f.Blocks.Bits/8:][:f.In*f.Blocks.Bits/8], rows.Quants[row*f.In:][:f.In],
				f.Blocks.Bits)
		}
	case f.Blocks.Group != 0:
		packGroups(flat, rows, start)
	case plane == 1 && f.Blocks.Super:
		to := flat.([]int8)[start:]
		for i, x := range pairs(rows.Scales, rows.Minima, f.Blocks.Size) {
			to[i] = int8(x)
		}
	case plane == 1 && f.Blocks.Exponent:
		to := flat.([]uint8)[start:]
		for i, x := range rows.Scales {
			to[i] = uint8(x)
		}
	case plane == 1:
		putHalves(flat.([]float16.Float16)[start:], pairs(rows.Scales, rows.Minima, f.Blocks.Size))
	default:
		putHalves(flat.([]float16.Float16)[start:], pairs(rows.ScaleFactors, rows.MinimumFactors, blocks.SuperSize))
	}
	return nil
}

func putHalves(to []float16.Float16, bits []uint16) {
	for i, x := range bits {
		to[i] = float16.Float16(x)
	}
}

// numbers returns the matrix [Out, In], in float32.
func (w Weight) numbers() *Node {
	if w.Blocks.Group != 0 {
		return w.groupNumbers()
	}
	quants, scales, minima := w.decoded()
	return combine(w.Blocks, quants, scales, minima)
}

// combine multiplies the numbers of quants [N, In] by scales [N, In/Size] and adds minima; nil for none.
func combine(b blocks.Format, quants, scales, minima *Node) *Node {
	if b.Table != blocks.NoTable {
		quants = look(quants, b.Table)
	}
	d := quants.Shape().Dimensions
	each := []int{d[0], d[1] / b.Size, b.Size}
	spread := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), each...) }
	x := Reshape(ConvertDType(quants, dtypes.Float32), each...)
	if b.Offset != 0 {
		x = SubScalar(x, float64(b.Offset))
	}
	x = Mul(x, spread(scales))
	if minima != nil {
		x = Add(x, spread(minima))
	}
	return Reshape(x, d...)
}

// decoded are the quants u8[Out, In], and the scales and minima f32[Out, In/Size] of each block.
func (w Weight) decoded() (quants, scales, minima *Node) {
	if w.Packed() {
		return w.decodedPanels()
	}
	quants = unpackQuants(w.Data, w.In, w.Blocks.Bits)
	scales, minima = decodeScales(w.Blocks, w.Scales, w.Factors)
	return quants, scales, minima
}

// look replaces quants by their numbers in a table, chosen bit by bit: devices are slow at reading tables.
func look(quants *Node, table blocks.Table) *Node {
	var choices []*Node
	for _, x := range table.Numbers() {
		choices = append(choices, BroadcastToDims(Scalar(quants.Graph(), dtypes.Uint8, float64(x)),
			quants.Shape().Dimensions...))
	}
	for bit := 0; len(choices) > 1; bit++ {
		bits := bitsOf(quants, bit, 1)
		set := Equal(bits, OnesLike(bits))
		var left []*Node
		for i := 0; i < len(choices); i += 2 {
			left = append(left, Where(set, choices[i+1], choices[i]))
		}
		choices = left
	}
	return choices[0]
}

// powersOfTwo are the scales of exponents u8: see [blocks.PowerOfTwo].
func powersOfTwo(exponents *Node) *Node {
	e := ConvertDType(exponents, dtypes.Uint32)
	dims := e.Shape().Dimensions
	constant := func(x uint32) *Node { return BroadcastToDims(Const(e.Graph(), x), dims...) }
	normal := BitwiseShiftLeftScalar(Sub(e, constant(1)), uint32(23))
	small := Where(Equal(e, constant(0)), constant(1<<21), constant(1<<22)) // subnormal numbers
	return Bitcast(Where(LessThan(e, constant(2)), small, normal), dtypes.Float32)
}

// decodeScales splits the planes after the first, for N rows.
func decodeScales(b blocks.Format, plane, factors *Node) (scales, minima *Node) {
	split := func(x *Node) (first, second *Node) {
		x = ConvertDType(x, dtypes.Float32)
		if !b.Min {
			return x, nil
		}
		half := x.Shape().Dimensions[1] / 2
		return SliceAxis(x, 1, AxisRange(0, half)), SliceAxis(x, 1, AxisRange(half))
	}
	if b.Exponent {
		return powersOfTwo(plane), nil
	}
	scales, minima = split(plane)
	if !b.Super {
		return scales, minima
	}
	factor, minimumFactor := split(factors)
	scales = timesFactors(scales, factor)
	if minima != nil {
		minima = Neg(timesFactors(minima, minimumFactor))
	}
	return scales, minima
}

// timesFactors multiplies x [N, k m] by factors [N, m].
func timesFactors(x, factors *Node) *Node {
	d := x.Shape().Dimensions
	each := []int{d[0], factors.Shape().Dimensions[1], d[1] / factors.Shape().Dimensions[1]}
	return Reshape(Mul(Reshape(x, each...), BroadcastToDims(InsertAxes(factors, -1), each...)), d...)
}

// decodedPanels is decoded of a packed matrix: see backend/xla/cpukernel/gemm_blocks.h.
func (w Weight) decodedPanels() (quants, scales, minima *Node) {
	b, panel := w.Blocks, w.Panel
	d := w.Data.Shape().Dimensions
	panels, count := d[0], w.In/32 // blocks of 32
	data, header := w.Data, 0
	last := func(x *Node, from, to int) *Node { return SliceAxis(x, x.Rank()-1, AxisRange(from, to)) }
	halves := func(x *Node, dims ...int) *Node { return bitcastHalves(Reshape(x, append(dims, 2)...)) }
	var factors, minimumFactors *Node
	if b.Super {
		// [panels, units, panel] to [panels panel, units]
		rows := func(x *Node) *Node { return Reshape(TransposeAllAxes(x, 0, 2, 1), panels*panel, d[1]) }
		header = 2 * panel
		factors = rows(halves(last(data, 0, header), panels, d[1], panel))
		if b.Min {
			minimumFactors = rows(halves(last(data, header, 2*header), panels, d[1], panel))
			header *= 2
		}
	}
	body := Reshape(last(data, header, d[2]), panels, count, (d[2]-header)*d[1]/count)
	low := Reshape(last(body, 0, panel*4*min(b.Bits, 8)), panels, count, b.Bits, panel, 4)
	steps := low // [panels, count, 8, panel, 4]
	if b.Bits < 8 {
		low = SliceAxis(low, 2, AxisRange(0, 4))
		steps = Concatenate([]*Node{bitsOf(low, 0, 15), bitsOf(low, 4, 15)}, 2)
	}
	if above := b.Bits - 4; b.Bits == 5 || b.Bits == 6 {
		high := Reshape(last(body, 16*panel, 4*b.Bits*panel), panels, count, above, 1, panel, 4)
		var parts []*Node
		for bit := 0; bit < 8; bit += above {
			parts = append(parts, bitsOf(high, bit, 1<<above-1))
		}
		steps = Add(steps, MulScalar(Reshape(Concatenate(parts, 3), panels, count, 8, panel, 4), 16))
	}
	quants = Reshape(TransposeAllAxes(steps, 0, 3, 1, 2, 4), panels*panel, w.In)
	// [panels, count, each, panel] to [panels panel, count each]
	each, from := 32/b.Size, 4*b.Bits*panel
	part := func(factors *Node) *Node {
		var x *Node
		switch {
		case b.Exponent:
			x = powersOfTwo(last(body, from, from+panel))
		case b.Super:
			x = Bitcast(last(body, from, from+each*panel), dtypes.Int8)
			from += each * panel
		default:
			x = halves(last(body, from, from+2*each*panel), panels, count, each*panel)
			from += 2 * each * panel
		}
		x = Reshape(ConvertDType(x, dtypes.Float32), panels, count, each, panel)
		x = Reshape(TransposeAllAxes(x, 0, 3, 1, 2), panels*panel, count*each)
		if factors != nil {
			x = timesFactors(x, ConvertDType(factors, dtypes.Float32))
		}
		return w.inOrder(x)
	}
	scales = part(factors)
	if b.Min {
		if minima = part(minimumFactors); b.Super {
			minima = Neg(minima)
		}
	}
	return w.inOrder(quants), scales, minima
}

func bitcastHalves(x *Node) *Node { return Bitcast(x, dtypes.Float16) }

// rowsOf are rows of a matrix in blocks, [T, In] in float32.
func (w Weight) rowsOf(ids *Node) *Node {
	if w.Blocks.Group != 0 {
		return w.groupRows(ids)
	}
	if w.Packed() {
		return Gather(w.numbers(), ids)
	}
	quants := unpackQuants(Gather(allRows(w.Data), ids), w.In, w.Blocks.Bits)
	factors := w.Factors
	if factors != nil {
		factors = Gather(allRows(factors), ids)
	}
	scales, minima := decodeScales(w.Blocks, Gather(allRows(w.Scales), ids), factors)
	return combine(w.Blocks, quants, scales, minima)
}
