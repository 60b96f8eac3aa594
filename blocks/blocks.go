// Package blocks is how quantized matrices are stored: numbers of a few bits, in blocks of 16 to 128 along a row, each
// with a scale and perhaps a minimum or a zero point.
//
// Few formats serve the encodings of many files: a reader makes [Rows] of what a file has, without loss.
package blocks

import (
	"fmt"
	"math"
)

// Format says what a block holds. Its numbers are scale * (quant - Offset), plus the block's minimum if Min.
type Format struct {
	// Bits is those of a quant: 4, 5, 6 or 8. 0 is no format: the numbers are floats.
	Bits int
	// Size is how many numbers a block has: 16 or 32; up to 128 with Group.
	Size int
	// Offset is taken from a quant.
	Offset int
	// Super says that scales and minima are integers of 8 bits, which float16 factors of [SuperSize] numbers multiply;
	// such a minimum is subtracted. Else they are float16.
	Super bool
	// Min says that blocks have minima.
	Min bool
	// Group is the type of the scales of a format of safetensors files; 0 is a format of GGUF files. Its Size is 32, 64
	// or 128, and it has neither Super nor Min.
	Group Scale
	// Zero says that blocks of such a format have zero points: whole numbers that take the place of Offset.
	Zero bool
	// E4M3 says that quants are floats of 8 bits, with 4 of the exponent: see [E4M3].
	E4M3 bool
	// Exponent says that scales are powers of two, by exponents of 8 bits: see [PowerOfTwo].
	Exponent bool
	// Table says that quants of 4 bits stand for the numbers of a table, from which Offset is taken.
	Table Table
}

// Scale is the type of the scales of a grouped format.
type Scale int

// The types.
const (
	F16 Scale = iota + 1
	BF16
	F32
)

// Bytes is the size of a scale.
func (s Scale) Bytes() int {
	if s == F32 {
		return 4
	}
	return 2
}

// Table is a list of what the 16 quants of 4 bits stand for.
type Table uint8

// The tables: of IQ4_NL and IQ4_XS, whose numbers lie the closer the smaller they are; and of floats of 4 bits (E2M1),
// doubled.
const (
	NoTable Table = iota
	Curve
	Floats4
)

// Numbers are those of a table, plus the Offset of its formats: 128 of Curve, 12 of Floats4.
func (t Table) Numbers() [16]uint8 {
	switch t {
	case Curve:
		return [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	case Floats4:
		return [16]uint8{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}
	}
	return [16]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
}

// PowerOfTwo is the scale of an exponent: 2^(e-128), half of what the OCP's E8M0 says, as the numbers of [Floats4] are
// doubled.
func PowerOfTwo(exponent uint8) float32 { return float32(math.Ldexp(1, int(exponent)-128)) }

// SuperSize is how many numbers have one factor of scales.
const SuperSize = 256

// The formats of the common encodings.
var (
	Q8_0 = Format{Bits: 8, Size: 32, Offset: 128}
	Q4_0 = Format{Bits: 4, Size: 32, Offset: 8}
	Q4_1 = Format{Bits: 4, Size: 32, Min: true}
	Q5_0 = Format{Bits: 5, Size: 32, Offset: 16}
	Q5_1 = Format{Bits: 5, Size: 32, Min: true}
	Q4_K = Format{Bits: 4, Size: 32, Super: true, Min: true}
	Q5_K = Format{Bits: 5, Size: 32, Super: true, Min: true}
	Q6_K = Format{Bits: 6, Size: 16, Offset: 32, Super: true}

	IQ4_NL = Format{Bits: 4, Size: 32, Offset: 128, Table: Curve}
	IQ4_XS = Format{Bits: 4, Size: 32, Offset: 128, Super: true, Table: Curve}
	MXFP4  = Format{Bits: 4, Size: 32, Offset: 12, Exponent: true, Table: Floats4}
)

// Formats are all that have kernels, by the names of GGUF's encodings.
var Formats = map[string]Format{"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_1": Q4_1, "Q5_0": Q5_0, "Q5_1": Q5_1, "Q4_K": Q4_K,
	"Q5_K": Q5_K, "Q6_K": Q6_K, "IQ4_NL": IQ4_NL, "IQ4_XS": IQ4_XS, "MXFP4": MXFP4}

// Is reports whether it is a format.
func (f Format) Is() bool { return f.Bits > 0 }

// Unit is how many numbers of a row belong together: a row has a multiple of it.
func (f Format) Unit() int {
	switch {
	case f.Super:
		return SuperSize
	case f.Group != 0:
		return f.Size
	}
	return 32
}

// Number is the format as one, for attributes of programs: 0 where it is none.
func (f Format) Number() int {
	n := f.Bits | f.Size<<8 | f.Offset<<16
	if f.Super {
		n |= 1 << 24
	}
	if f.Min {
		n |= 1 << 25
	}
	if f.Exponent {
		n |= 1 << 26
	}
	n |= int(f.Table)<<27 | int(f.Group)<<29
	if f.Zero {
		n |= 1 << 31
	}
	if f.E4M3 {
		n |= 1 << 32
	}
	return n
}

// String is its name among [Formats].
func (f Format) String() string {
	for name, known := range Formats {
		if f == known {
			return name
		}
	}
	switch {
	case f.E4M3:
		return fmt.Sprintf("fp8 in blocks of %d", f.Size)
	case f.Zero:
		return fmt.Sprintf("int%d with zero points in blocks of %d", f.Bits, f.Size)
	case f.Group != 0:
		return fmt.Sprintf("int%d in blocks of %d", f.Bits, f.Size)
	}
	return fmt.Sprintf("%d bits in blocks of %d", f.Bits, f.Size)
}

// Bytes is the size of a number of values.
func (f Format) Bytes(values int) int {
	if f.Group != 0 {
		each := f.Group.Bytes()
		if f.Zero {
			each++
		}
		return values*f.Bits/8 + values/f.Size*each
	}
	bits := 32*f.Bits + 32/f.Size*f.perScale()*f.scales()
	if !f.Super {
		return values / 32 * bits / 8
	}
	return values/32*bits/8 + values/SuperSize*2*f.scales()
}

// perScale is the bits of a scale or a minimum, scales how many of them a block has.
func (f Format) perScale() int {
	if f.Super || f.Exponent {
		return 8
	}
	return 16
}

func (f Format) scales() int {
	if f.Min {
		return 2
	}
	return 1
}

// Rows are rows of a matrix in blocks, as readers make them and packers take them.
type Rows struct {
	Format
	// N rows of In numbers.
	N, In int
	// Quants [N, In] has a byte for each.
	Quants []uint8
	// Scales and Minima [N, In/Size] are the bits of float16 numbers, or of int8 numbers if Super, or exponents if
	// Exponent. Minima is nil without Min.
	Scales, Minima []uint16
	// ScaleFactors and MinimumFactors [N, In/SuperSize] are the bits of float16 numbers; nil without Super, or Min.
	ScaleFactors, MinimumFactors []uint16
	// GroupScales and Zeros [N, In/Size] are those of a format with Group, in place of Scales: numbers of its type.
	// Zeros is nil without Zero.
	GroupScales []float32
	Zeros       []uint8
}

// NewRows returns rows of zeros.
func NewRows(f Format, n, in int) *Rows {
	r := &Rows{Format: f, N: n, In: in, Quants: make([]uint8, n*in)}
	if f.Group != 0 {
		r.GroupScales = make([]float32, n*in/f.Size)
		if f.Zero {
			r.Zeros = make([]uint8, n*in/f.Size)
		}
		return r
	}
	r.Scales = make([]uint16, n*in/f.Size)
	if f.Min {
		r.Minima = make([]uint16, len(r.Scales))
	}
	if f.Super {
		r.ScaleFactors = make([]uint16, n*in/SuperSize)
		if f.Min {
			r.MinimumFactors = make([]uint16, n*in/SuperSize)
		}
	}
	return r
}

// Part returns n numbers of a row, the first being number at of all, over the same memory: whole units.
func (r *Rows) Part(at, n int) *Rows {
	return &Rows{Format: r.Format, N: 1, In: n, Quants: r.Quants[at : at+n], Scales: cut(r.Scales, at, n, r.Size),
		Minima: cut(r.Minima, at, n, r.Size), ScaleFactors: cut(r.ScaleFactors, at, n, SuperSize),
		MinimumFactors: cut(r.MinimumFactors, at, n, SuperSize), GroupScales: cut(r.GroupScales, at, n, r.Size),
		Zeros: cut(r.Zeros, at, n, r.Size)}
}

// cut is what n numbers from one on have of an array with an element for each so many.
func cut[T any](x []T, at, n, each int) []T {
	if x == nil {
		return nil
	}
	return x[at/each : (at+n)/each]
}

// Copy copies the numbers of rows of the same format and number of numbers.
func (r *Rows) Copy(from *Rows) {
	copy(r.Quants, from.Quants)
	copy(r.Scales, from.Scales)
	copy(r.Minima, from.Minima)
	copy(r.ScaleFactors, from.ScaleFactors)
	copy(r.MinimumFactors, from.MinimumFactors)
	copy(r.GroupScales, from.GroupScales)
	copy(r.Zeros, from.Zeros)
}

// Slice returns rows from one up to before another, over the same memory.
func (r *Rows) Slice(from, to int) *Rows {
	s := r.Part(from*r.In, (to-from)*r.In)
	s.N, s.In = to-from, r.In
	return s
}

// Floats are the numbers, as every reader and kernel of them computes them.
func (r *Rows) Floats() []float32 {
	out := make([]float32, len(r.Quants))
	r.FloatsTo(out)
	return out
}

// FloatsTo writes the numbers to a slice of their number. Products and sums are rounded one by one, as in ggml: the
// conversions forbid fused multiply-adds.
func (r *Rows) FloatsTo(out []float32) {
	offset, table := float32(r.Offset), r.Table.Numbers()
	for b, scale := range r.GroupScales {
		zero := offset
		if r.Zeros != nil {
			zero = float32(r.Zeros[b])
		}
		quants, to := r.Quants[b*r.Size:][:r.Size], out[b*r.Size:][:r.Size]
		for i, q := range quants {
			x := float32(q) - zero
			if r.E4M3 {
				x = E4M3(q)
			}
			to[i] = scale * x
		}
	}
	for b, bits := range r.Scales {
		scale, minimum := Half(bits), float32(0)
		switch {
		case r.Super:
			scale = Half(r.ScaleFactors[b*r.Size/SuperSize]) * float32(int8(bits))
		case r.Exponent:
			scale = PowerOfTwo(uint8(bits))
		}
		switch {
		case r.Min && r.Super:
			minimum = -float32(Half(r.MinimumFactors[b*r.Size/SuperSize]) * float32(int8(r.Minima[b])))
		case r.Min:
			minimum = Half(r.Minima[b])
		}
		quants, to := r.Quants[b*r.Size:][:r.Size], out[b*r.Size:][:r.Size]
		for i, q := range quants {
			if r.Table != NoTable {
				q = table[q&15]
			}
			to[i] = float32(scale*(float32(q)-offset)) + minimum
		}
	}
}
