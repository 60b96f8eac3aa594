package attention

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// A flat quantized cache is for TPUs, whose compiler turns an array of bytes around to write tokens to it. So a token
// is words of 32 bits: first its bytes, then its scales, then zeros up to whole registers. Byte i of word j is byte
// i*byteWords + j of the token, so that words are taken apart and put together without moving numbers between lanes.

// byteWords is how many words the bytes of a token take.
func (f format) byteWords() int { return (f.each()*f.KVHeads*f.HeadDim + 3) / 4 }

// flatWidth is how many numbers of a flat cache's array a token takes: its own count for floats. If values are keys,
// the count is rounded up to whole registers, since latents are not a multiple of a register.
func (f format) flatWidth() int {
	n := f.each() * f.KVHeads * f.HeadDim
	switch {
	case f.quantized():
		n = f.byteWords() + f.each()*f.KVHeads
	case !f.Shared:
		return n
	}
	return (n + tpuLanes - 1) / tpuLanes * tpuLanes
}

// packWords makes tokens, i32[T, flatWidth], of their bytes, [T, 2*KVH*D], and the bits of their scales,
// i32[T, 2*KVH].
func (f format) packWords(bytes, scales *Node) *Node {
	g := bytes.Graph()
	fill := func(x *Node, to int) *Node {
		return Pad(x, Scalar(g, dtypes.Int32, 0), compute.PadAxis{}, compute.PadAxis{End: to - x.Shape().Dim(-1)})
	}
	all := fill(ConvertDType(bytes, dtypes.Int32), 4*f.byteWords())
	packed := Zeros(g, f.words(all, 0).Shape())
	for i := range 4 {
		part := f.words(all, i)
		part = BitwiseAnd(part, FillScalar(g, part.Shape(), 0xff))
		packed = BitwiseOr(packed, BitwiseShiftLeftScalar(part, int32(8*i)))
	}
	return fill(Concatenate([]*Node{packed, scales}, -1), f.flatWidth())
}

// words are the bytes that have place i in their words, of all bytes.
func (f format) words(all *Node, i int) *Node {
	return Slice(all, AxisRange(), AxisRange(i*f.byteWords(), (i+1)*f.byteWords()))
}

// openFlat takes tokens of a flat quantized cache apart: i32[B, size, flatWidth].
func (f format) openFlat(tokens *Node, products dtypes.DType) (k, v vectors) {
	dims := tokens.Shape().Dimensions
	b, size, n, each := dims[0], dims[1], f.byteWords(), f.each()
	packed := Slice(tokens, AxisRange(), AxisRange(), AxisRange(0, n))
	var parts []*Node
	for i := range 4 {
		part := BitwiseShiftLeftScalar(packed, int32(24-8*i))
		if f.DType == dtypes.Int8 {
			part = BitwiseShiftRightArithmeticScalar(part, int32(24))
		} else {
			part = BitwiseShiftRightLogicalScalar(part, int32(24))
		}
		parts = append(parts, f.numbers(part, products))
	}
	numbers := Slice(Concatenate(parts, -1), AxisRange(), AxisRange(), AxisRange(0, each*f.KVHeads*f.HeadDim))
	numbers = TransposeAllAxes(Reshape(numbers, b, size, f.KVHeads, each, f.HeadDim), 3, 0, 2, 1, 4)
	scales := Bitcast(Slice(tokens, AxisRange(), AxisRange(), AxisRange(n, n+each*f.KVHeads)), dtypes.Float32)
	scales = TransposeAllAxes(Reshape(scales, b, size, f.KVHeads, each), 3, 0, 2, 1)
	vectorsAt := func(i int) vectors {
		return vectors{Squeeze(Slice(numbers, AxisRange(i, i+1)), 0), Squeeze(Slice(scales, AxisRange(i, i+1)), 0)}
	}
	return vectorsAt(0), vectorsAt(each - 1)
}
