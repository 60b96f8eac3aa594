// Package blocks defines how quantized matrices are stored: numbers of a few bits, in blocks of 16 to 128 along a
// row. Each block has a scale and perhaps a minimum or a zero point.
//
// A few formats serve the encodings of many files: a reader converts a file's matrix to [Rows] without loss.
package blocks

import (
	"fmt"
	"math"
)

// Format describes the contents of a block. A number is scale * (quant - Offset), plus the block's minimum if Min is
// set.
type Format struct {
	// Bits is the width of a quant: 4, 5, 6 or 8. It is 0 if the numbers are floats and there is no format.
	Bits int
	// Size is how many numbers a block has: 16 or 32, or up to 128 if Group is set.
	Size int
	// Offset is subtracted from each quant.
	Offset int
	// Super reports whether scales and minima are 8-bit integers, multiplied by one float16 factor per [SuperSize]
	// numbers; such a minimum is subtracted. Otherwise scales and minima are float16.
	Super bool
	// Min reports whether blocks have minima.
	Min bool
	// Group is the type of the scales of a format of safetensors files; 0 means a format of GGUF files. If Group is
	// set, Size is 32, 64 or 128, and neither Super nor Min is set.
	Group Scale
	// Zero reports whether blocks of such a format have zero points: integers that are subtracted in place of Offset.
	Zero bool
	// E4M3 reports whether quants are 8-bit floats with a 4-bit exponent: see [E4M3].
	E4M3 bool
	// Exponent reports whether scales are powers of two, stored as 8-bit exponents: see [PowerOfTwo].
	Exponent bool
	// Table is the table that 4-bit quants index. Offset is subtracted from the table's numbers.
	Table Table
}

// Scale is the type of the scales of a grouped format.
type Scale int

// The types of scales.
const (
	F16 Scale = iota + 1
	BF16
	F32
)

// Bytes returns the size of a scale in bytes.
func (s Scale) Bytes() int {
	if s == F32 {
		return 4
	}
	return 2
}

// Table names a list of the 16 numbers that 4-bit quants stand for.
type Table uint8

// The tables. Curve is the one of IQ4_NL and IQ4_XS, whose numbers are denser near zero; Floats4 has the 4-bit floats
// (E2M1), doubled.
const (
	NoTable Table = iota
	Curve
	Floats4
)

// Numbers returns the table's numbers plus the Offset of its formats: 128 for Curve, 12 for Floats4.
func (t Table) Numbers() [16]uint8 {
	switch t {
	case Curve:
		return [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	case Floats4:
		return [16]uint8{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}
	}
	return [16]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
}

// PowerOfTwo returns the scale of an exponent: 2^(e-128). This is half of OCP's E8M0, because the numbers of
// [Floats4] are doubled.
func PowerOfTwo(exponent uint8) float32 { return float32(math.Ldexp(1, int(exponent)-128)) }

// SuperSize is how many numbers share one factor of scales.
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

// Formats lists the formats that have kernels, by the names of GGUF's encodings.
var Formats = map[string]Format{"Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_1": Q4_1, "Q5_0": Q5_0, "Q5_1": Q5_1, "Q4_K": Q4_K,
	"Q5_K": Q5_K, "Q6_K": Q6_K, "IQ4_NL": IQ4_NL, "IQ4_XS": IQ4_XS, "MXFP4": MXFP4}

// Is reports whether f is a format: the zero value is none.
func (f Format) Is() bool { return f.Bits > 0 }

// Unit returns how many numbers of a row belong together. The length of a row is a multiple of it.
func (f Format) Unit() int {
	switch {
	case f.Super:
		return SuperSize
	case f.Group != 0:
		return f.Size
	}
	return 32
}

// Number encodes the format as an integer, for attributes of programs. It is 0 for the zero value.
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

// String returns the format's name in [Formats], or a description if it has none.
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

// Bytes returns the size in bytes of so many values.
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

// perScale returns the bits of a scale or a minimum; scales returns how many of them a block has.
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

// Rows holds rows of a matrix in blocks. Readers make them and packers consume them.
type Rows struct {
	Format
	// N is the number of rows, and In the number of values of a row.
	N, In int
	// Quants [N, In] has one byte for each quant.
	Quants []uint8
	// Scales and Minima [N, In/Size] are the bits of float16 numbers, or of int8 numbers if Super, or exponents if
	// Exponent. Minima is nil without Min.
	Scales, Minima []uint16
	// ScaleFactors and MinimumFactors [N, In/SuperSize] are the bits of float16 numbers; nil without Super, or Min.
	ScaleFactors, MinimumFactors []uint16
	// GroupScales and Zeros [N, In/Size] belong to formats with a Group, and stand in place of Scales. A scale is a
	// number of the type Group. Zeros is nil without Zero.
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

// Part returns n numbers of the matrix, starting with number start of all, as one row over the same memory. Both start
// and n are whole units.
func (r *Rows) Part(start, n int) *Rows {
	return &Rows{Format: r.Format, N: 1, In: n, Quants: r.Quants[start : start+n],
		Scales: cut(r.Scales, start, n, r.Size),
		Minima: cut(r.Minima, start, n, r.Size), ScaleFactors: cut(r.ScaleFactors, start, n, SuperSize),
		MinimumFactors: cut(r.MinimumFactors, start, n, SuperSize), GroupScales: cut(r.GroupScales, start, n, r.Size),
		Zeros: cut(r.Zeros, start, n, r.Size)}
}

// cut returns the elements that belong to n numbers, starting with number start, if each element covers so many
// numbers.
func cut[T any](x []T, start, n, each int) []T {
	if x == nil {
		return nil
	}
	return x[start/each : (start+n)/each]
}

// Copy copies the numbers of from, which has the same format and the same number of values.
func (r *Rows) Copy(from *Rows) {
	copy(r.Quants, from.Quants)
	copy(r.Scales, from.Scales)
	copy(r.Minima, from.Minima)
	copy(r.ScaleFactors, from.ScaleFactors)
	copy(r.MinimumFactors, from.MinimumFactors)
	copy(r.GroupScales, from.GroupScales)
	copy(r.Zeros, from.Zeros)
}

// Slice returns the rows [from, to), over the same memory.
func (r *Rows) Slice(from, to int) *Rows {
	s := r.Part(from*r.In, (to-from)*r.In)
	s.N, s.In = to-from, r.In
	return s
}

// Floats returns the numbers, as all readers and kernels compute them.
func (r *Rows) Floats() []float32 {
	out := make([]float32, len(r.Quants))
	r.FloatsTo(out)
	return out
}

// FloatsTo writes the numbers to out, which has room for exactly all of them. Products and sums are rounded one by
// one, as in ggml: the conversions forbid fused multiply-adds.
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
