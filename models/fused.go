package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// expert extracts one expert from the tensor of all experts.
func (t *tensor) expert(want arch.Tensor) (*tensor, error) {
	f, transposed, shape := want.Fused, want.Fused.Transposed, want.FusedShape()
	if transposed && t.stored == mxfp4 { // its blocks run along the inputs
		transposed, shape[1], shape[2] = false, shape[2], shape[1]
	}
	if !slices.Equal(t.shape, shape) {
		return nil, fmt.Errorf("tensor %s has shape %v, but the config implies %v", f.Name, t.shape, shape)
	}
	if t.decode == nil || t.packed != nil || transposed && t.blockLen > 1 || shape[len(shape)-1]%t.blockLen != 0 {
		return nil, fmt.Errorf("tensor %s: %w", f.Name, arch.Unsupported("F32, BF16, F16 and MXFP4 are", "dtype %s",
			t.stored))
	}
	one := t.rows(want.Expert, 1)
	one.shape = one.shape[1:]
	if f.Step == 1 && !transposed {
		return one.rows(f.First, want.Shape[0]), nil
	}
	return one.strided(f.First, f.Step, want.Shape, transposed), nil
}

// mxfp4 is the encoding with blocks of 32 numbers of 4 bits and an exponent.
const mxfp4 = "MXFP4"

// joinMXFP4 makes tensors NAME of NAME_blocks, [..., inputs/32, 16], and NAME_scales, [..., inputs/32].
func joinMXFP4(c *Checkpoint) error {
	const blocksSuffix, scalesSuffix = "_blocks", "_scales"
	for name, b := range c.tensors {
		end := len(name) - len(blocksSuffix)
		if end <= 0 || name[end:] != blocksSuffix || b.stored != "U8" {
			continue
		}
		s := c.tensors[name[:end]+scalesSuffix]
		if s == nil {
			return fmt.Errorf("tensor %s is there, and %s is missing", name, name[:end]+scalesSuffix)
		}
		n := len(b.shape) - 1
		if n < 2 || b.shape[n] != 16 || !slices.Equal(b.shape[:n], s.shape) || s.stored != "U8" {
			return fmt.Errorf("tensors %s and %s have shapes %v and %v, which do not belong together", name,
				name[:end]+scalesSuffix, b.shape, s.shape)
		}
		t := *b
		t.shape = slices.Clone(b.shape[:n])
		t.shape[n-1] *= 32
		t.stored, t.unit, t.blockLen, t.blockBytes, t.companions, t.inStep = mxfp4, 32, 32, 16, []*tensor{s}, true
		s.blockBytes = 1
		t.decode = func(dst []float32, first int) { decodeMXFP4(dst, b.data[first/2:], s.data[first/32:]) }
		t.format = blocks.MXFP4
		t.unpack = func(to *blocks.Rows, first int) { unpackMXFP4(to, b.data[first/2:], s.data[first/32:]) }
		t.release = func() { b.release(); s.release() }
		c.tensors[name[:end]] = &t
		delete(c.tensors, name)
		delete(c.tensors, name[:end]+scalesSuffix)
	}
	return nil
}

// decodeMXFP4 decodes nibbles, the low one of a byte first, with one exponent for 32 numbers.
func decodeMXFP4(dst []float32, nibbles, exponents []byte) {
	for ; len(dst) > 0; dst, nibbles, exponents = dst[32:], nibbles[16:], exponents[1:] {
		bits := uint32(exponents[0]) << 23
		if bits == 0 {
			bits = 1 << 22 // 2^-127
		}
		scale := math.Float32frombits(bits)
		for i, q := range nibbles[:16] {
			dst[2*i], dst[2*i+1] = scale*fp4[q&15], scale*fp4[q>>4]
		}
	}
}

// unpackMXFP4 is decodeMXFP4 to blocks.
func unpackMXFP4(to *blocks.Rows, nibbles, exponents []byte) {
	for i := range to.Quants {
		to.Quants[i] = nibbles[i/2] >> (i % 2 * 4) & 15
	}
	for i := range to.Scales {
		to.Scales[i] = uint16(exponents[i])
	}
}

// fp4 lists the 4-bit floats: a sign, 2 bits of exponent and one of mantissa.
var fp4 = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}
