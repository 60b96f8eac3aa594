package attention

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// A quantized cache holds a key or a value, the vector of a token and KV head, as a byte for each number and a float32,
// the scale, in the four bytes after them. The scale is the largest magnitude of the vector times 1/limit; a byte is
// the number times 1/scale, rounded to nearest even; all in float32. (A compiler may turn divisions into products.) If
// all magnitudes of a vector are below [tiny], its bytes are zeros and its scale is 0. If a vector has a NaN or an
// infinity, its bytes are zeros and its scale is not finite. A packed cache has no scales: see float8.

// scaleBytes is the number of bytes of a vector's scale.
const scaleBytes = 4

// tiny is below every key and value that matters; what is less might not be a normal float32 once it is divided.
const tiny = 0x1p-100

// format is how a token's keys and values are stored: their numbers or bytes, and their scales. It is a part of the
// layout, whose fields it reads. The layout itself describes the places of tokens and pages.
type format Layout

func (l Layout) format() format { return format(l) }

// Quantized reports whether the cache holds bytes with scales.
func (l Layout) Quantized() bool { return l.format().quantized() }

func (f format) quantized() bool {
	return f.Packed == 0 && (f.DType == dtypes.Int8 || f.DType == dtypes.F8E4M3FN)
}

// float8 reports whether the cache holds 8-bit floats without scales, as the kernels of a packed cache read them.
func (f format) float8() bool { return f.Packed > 0 && f.DType == dtypes.F8E4M3FN }

// notANumber is the byte of an 8-bit float that is not a number.
const notANumber = 0x7f

// toFloat8 returns the bytes of the nearest 8-bit floats, and the largest one for larger numbers. What is not finite is
// not a number.
func (f format) toFloat8(x *Node) *Node {
	x = toFloat32(x)
	g, bytes := x.Graph(), f.round(x)
	finite := LessThan(Abs(x), FillScalar(g, x.Shape(), math.Inf(1)))
	return Where(finite, bytes, FillScalar(g, bytes.Shape(), notANumber))
}

// fromFloat8 is the inverse of toFloat8.
func (f format) fromFloat8(bytes *Node, dtype dtypes.DType) *Node {
	g, x := bytes.Graph(), f.numbers(bytes, dtype)
	size := BitwiseAnd(bytes, FillScalar(g, bytes.Shape(), 0x7f))
	return Where(Equal(size, FillScalar(g, bytes.Shape(), notANumber)), FillScalar(g, x.Shape(), math.NaN()), x)
}

// heads is KVHeads, rounded up to what the cache has.
func (f format) heads() int {
	if f.Packed == 0 {
		return f.KVHeads
	}
	each := f.packedVectors()
	return (each*f.KVHeads + f.Packed - 1) / f.Packed * f.Packed / each
}

// packedVectors is how many vectors a KV head has in a packed cache: its key and value are two, or half a register's
// lanes each, and then one.
func (f format) packedVectors() int {
	if 2*f.HeadDim == tpuLanes {
		return 1
	}
	return 2
}

// each is how many vectors a token has of a KV head.
func (f format) each() int {
	if f.Shared {
		return 1
	}
	return 2
}

// stored is the dtype of the cache's array: bytes, or words if it is flat. Backends without 8-bit floats store their
// bytes.
func (f format) stored() dtypes.DType {
	switch {
	case f.quantized() && f.Flat:
		return dtypes.Int32
	case f.DType == dtypes.F8E4M3FN:
		return dtypes.Uint8
	}
	return f.DType
}

// width is how many numbers of the cache's array a key or a value takes.
func (f format) width() int {
	if f.quantized() {
		return f.HeadDim + scaleBytes
	}
	return f.HeadDim
}

// limit is the largest number that a byte stands for.
func (f format) limit() float32 {
	if f.DType == dtypes.Int8 {
		return 127
	}
	return 448
}

// quantize returns the tokens of kv, [T, KVH, 2 or 1, D], as they lie in a quantized cache: [T, ...].
func (f format) quantize(kv *Node) *Node {
	g := kv.Graph()
	kv = toFloat32(kv)
	n := kv.Shape().Dimensions[0]
	like := func(x float64) *Node { return FillScalar(g, shapes.Make(dtypes.Float32, n, f.KVHeads, f.each()), x) }
	top, nan := ReduceMax(Abs(kv), -1), ReduceMax(Where(NotEqual(kv, kv), OnesLike(kv), ZerosLike(kv)), -1)
	scale := Where(LessThan(top, like(tiny)), like(0), Mul(top, like(float64(1/f.limit()))))
	scale = Where(GreaterThan(nan, like(0)), like(math.NaN()), scale) // a maximum may overlook a NaN
	good := LogicalAnd(GreaterThan(scale, like(0)), LessThan(scale, like(math.Inf(1))))
	inverse := Div(like(1), Where(good, scale, like(1)))
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), kv.Shape().Dimensions...) }
	numbers := Where(wide(good), Mul(kv, wide(inverse)), ZerosLike(kv))
	bytes := f.round(numbers)
	if f.Flat {
		return f.packWords(Reshape(bytes, n, -1), Reshape(Bitcast(scale, dtypes.Int32), n, -1))
	}
	return Concatenate([]*Node{bytes, Bitcast(scale, f.stored())}, -1)
}

// round returns the bytes of numbers, which are at most limit and a rounding.
func (f format) round(x *Node) *Node {
	if f.DType == dtypes.Int8 {
		return ConvertDType(Round(x), dtypes.Int8)
	}
	// An 8-bit float has 4 bits of exponent, 7 for a factor of 1, and 3 of mantissa.
	g := x.Graph()
	like := func(operand *Node, value float64) *Node { return FillScalar(g, operand.Shape(), value) }
	size := Abs(x)
	bits := Bitcast(size, dtypes.Int32)
	odd := BitwiseAnd(BitwiseShiftRightLogicalScalar(bits, int32(20)), like(bits, 1))
	normal := SubScalar(BitwiseShiftRightLogicalScalar(Add(AddScalar(bits, 0x7ffff), odd), int32(20)), 120<<3)
	subnormal := ConvertDType(Round(MulScalar(size, 512)), dtypes.Int32)
	code := Where(LessThan(size, like(x, 0x1p-6)), subnormal, Min(normal, like(bits, 0x7e)))
	negative := LogicalAnd(LessThan(x, ZerosLike(x)), GreaterThan(code, ZerosLike(code)))
	return ConvertDType(Where(negative, AddScalar(code, 0x80), code), dtypes.Uint8)
}

// vectors are keys or values of a block of context: the numbers that their bytes encode, [B, KVH, size, D] in the dtype
// of products, and their scales f32[B, KVH, size]; nil if there are none.
type vectors struct{ numbers, scales *Node }

// open takes rows of a quantized cache apart: [B, KVH, size, width].
func (f format) open(rows *Node, products dtypes.DType) vectors {
	all := AxisRange()
	return vectors{f.numbers(Slice(rows, all, all, all, AxisRange(0, f.HeadDim)), products),
		Bitcast(Slice(rows, all, all, all, AxisRange(f.HeadDim, f.width())), dtypes.Float32)}
}

// numbers are the numbers that bytes encode, which may be in an integer of more bits.
func (f format) numbers(bytes *Node, dtype dtypes.DType) *Node {
	if f.DType == dtypes.Int8 {
		return ConvertDType(bytes, dtype)
	}
	g := bytes.Graph()
	code := ConvertDType(bytes, dtypes.Int32)
	like := func(value float64) *Node { return FillScalar(g, code.Shape(), value) }
	size := BitwiseAnd(code, like(0x7f))
	normal := Bitcast(AddScalar(BitwiseShiftLeftScalar(size, int32(20)), 120<<23), dtypes.Float32)
	subnormal := MulScalar(toFloat32(size), 0x1p-9)
	x := Where(LessThan(size, like(8)), subnormal, normal)
	return ConvertDType(Where(GreaterThan(code, like(0x7f)), Neg(x), x), dtype)
}

// products is the dtype in which queries and keys, and weights and values, are multiplied.
func (f format) products(queries dtypes.DType) dtypes.DType {
	switch {
	case !f.quantized() && !f.float8():
		return f.DType
	case queries == dtypes.BFloat16:
		return dtypes.BFloat16 // bfloat16 represents every number that the bytes encode
	}
	return dtypes.Float32
}

// times multiplies x, [B, KVH, M, size], with the scales of the size tokens, if there are any.
func (v vectors) times(x *Node) *Node {
	if v.scales == nil {
		return x
	}
	return Mul(x, BroadcastToDims(InsertAxes(v.scales, 2), x.Shape().Dimensions...))
}
