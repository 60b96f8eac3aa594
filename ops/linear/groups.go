package linear

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
)

// A matrix in blocks of a grouped format that is not packed has, after the plane of quants,
//
//	[Out, In/Size]     scales of the format's type
//	u8 [Out, In/Size]  zero points, if the format has them

const zerosSuffix = ".zeros"

// groupPlanes are the planes after the first.
func (f Format) groupPlanes() []Plane {
	planes := []Plane{{scalesSuffix, f.plane(scaleDType(f.Blocks.Group), f.In/f.Blocks.Size)}}
	if f.Blocks.Zero {
		planes = append(planes, Plane{zerosSuffix, f.plane(dtypes.Uint8, f.In/f.Blocks.Size)})
	}
	return planes
}

func scaleDType(s blocks.Scale) dtypes.DType {
	switch s {
	case blocks.F16:
		return dtypes.Float16
	case blocks.BF16:
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// packGroups writes scales or zero points of rows to their plane, from its element start on. The scales are numbers of
// the plane's type.
func packGroups(flat any, rows *blocks.Rows, start int) {
	switch to := flat.(type) {
	case []uint8:
		copy(to[start:], rows.Zeros)
	case []float32:
		copy(to[start:], rows.GroupScales)
	case []float16.Float16:
		for i, x := range rows.GroupScales {
			to[start+i] = float16.Float16(blocks.ToHalf(x))
		}
	case []bfloat16.BFloat16:
		for i, x := range rows.GroupScales {
			to[start+i] = bfloat16.FromFloat32(x)
		}
	}
}

// groupNumbers returns the matrix [Out, In] of a grouped format, in float32.
func (w Weight) groupNumbers() *Node {
	if w.Packed() {
		quants, scales, zeros := w.groupPanels()
		return ofGroups(w.Blocks, quants, scales, zeros)
	}
	return ofGroups(w.Blocks, unpackQuants(w.Data, w.In, w.Blocks.Bits), w.Scales, w.Factors)
}

// groupRows are rows of the matrix, [T, In] in float32.
func (w Weight) groupRows(ids *Node) *Node {
	if w.Packed() {
		return Gather(w.groupNumbers(), ids)
	}
	zeros := w.Factors
	if zeros != nil {
		zeros = Gather(allRows(zeros), ids)
	}
	quants := unpackQuants(Gather(allRows(w.Data), ids), w.In, w.Blocks.Bits)
	return ofGroups(w.Blocks, quants, Gather(allRows(w.Scales), ids), zeros)
}

// ofGroups multiplies quants u8[N, In], less zero points or the format's offset, by scales [N, In/Size].
func ofGroups(b blocks.Format, quants, scales, zeros *Node) *Node {
	d := quants.Shape().Dimensions
	each := []int{d[0], d[1] / b.Size, b.Size}
	spread := func(x *Node) *Node {
		return BroadcastToDims(InsertAxes(ConvertDType(x, dtypes.Float32), -1), each...)
	}
	var x *Node
	switch {
	case b.E4M3:
		x = Reshape(ofE4M3(quants), each...)
	case zeros != nil:
		x = Sub(Reshape(ConvertDType(quants, dtypes.Float32), each...), spread(zeros))
	default:
		x = SubScalar(Reshape(ConvertDType(quants, dtypes.Float32), each...), float64(b.Offset))
	}
	return Reshape(Mul(x, spread(scales)), d...)
}

// ofE4M3 are the floats of bits u8: see [blocks.E4M3]. Not all devices know the type.
func ofE4M3(bits *Node) *Node {
	wide := ConvertDType(bits, dtypes.Uint32)
	dims := wide.Shape().Dimensions
	constant := func(x uint32) *Node { return BroadcastToDims(Const(wide.Graph(), x), dims...) }
	size := BitwiseAnd(wide, constant(0x7f))
	x := Bitcast(Add(BitwiseShiftLeftScalar(size, uint32(20)), constant(120<<23)), dtypes.Float32)
	x = Where(LessThan(size, constant(8)), AddScalar(MulScalar(x, 2), -0x1p-6), x) // subnormal numbers
	return Where(LessThan(wide, constant(128)), x, Neg(x))
}

// groupPanels are the quants u8[Out, In] of a packed matrix, and the scales and zero points [Out, In/Size] of each
// block: see backend/xla/cpukernel/gemm_blocks.h.
func (w Weight) groupPanels() (quants, scales, zeros *Node) {
	b, panel := w.Blocks, w.Panel
	d := w.Data.Shape().Dimensions // panels, units, bytes of a unit
	part := func(from, n int) *Node { return SliceAxis(w.Data, 2, AxisRange(from, from+n)) }
	rows := func(x *Node) *Node { // [panels, units, panel] to [Out, units]
		return w.inOrder(Reshape(TransposeAllAxes(x, 0, 2, 1), d[0]*panel, d[1]))
	}
	size := b.Group.Bytes()
	scales = rows(Bitcast(Reshape(part(0, panel*size), d[0], d[1], panel, size), scaleDType(b.Group)))
	header := panel * size
	if b.Zero {
		zeros = rows(part(header, panel))
		header += panel
	}
	count := w.In / 32
	steps := Reshape(part(header, d[2]-header), d[0], count, b.Bits, panel, 4) // 4 of two halves, or 8
	if b.Bits == 4 {
		steps = Concatenate([]*Node{bitsOf(steps, 0, 15), bitsOf(steps, 4, 15)}, 2)
	}
	quants = w.inOrder(Reshape(TransposeAllAxes(steps, 0, 3, 1, 2, 4), d[0]*panel, w.In))
	return quants, scales, zeros
}
