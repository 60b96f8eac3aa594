package gguf

import (
	"encoding/binary"

	"github.com/quire/quire/backend/blocks"
)

// The layouts are ggml's (dequantize_row_* in ggml-quants.c). An unpack function fills rows with the numbers of whole
// blocks.

// halves splits nibbles: the low ones are the first half of a block, the high ones the second half.
func halves(to, nibbles []byte) {
	for i, q := range nibbles {
		to[i], to[i+len(nibbles)] = q&15, q>>4
	}
}

// Q8_0: scale f16, 32 x int8.
func unpackQ8_0(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block, q := src[b*34:][:34], r.Quants[b*32:][:32]
		r.Scales[b] = binary.LittleEndian.Uint16(block)
		for i, x := range block[2:] {
			q[i] = x ^ 0x80 // plus 128
		}
	}
}

// Q4_0: scale f16, 32 nibbles, offset -8. IQ4_NL: the same, by a table.
func unpackQ4_0(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block := src[b*18:][:18]
		r.Scales[b] = binary.LittleEndian.Uint16(block)
		halves(r.Quants[b*32:], block[2:])
	}
}

// Q4_1: scale f16, minimum f16, 32 nibbles.
func unpackQ4_1(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block := src[b*20:][:20]
		r.Scales[b], r.Minima[b] = binary.LittleEndian.Uint16(block), binary.LittleEndian.Uint16(block[2:])
		halves(r.Quants[b*32:], block[4:])
	}
}

// fifth sets the fifth bits of 32 numbers.
func fifth(q []byte, high uint32) {
	for i := range q[:32] {
		q[i] |= byte(high>>i&1) << 4
	}
}

// Q5_0: scale f16, 32 fifth bits, 32 nibbles, offset -16.
func unpackQ5_0(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block := src[b*22:][:22]
		r.Scales[b] = binary.LittleEndian.Uint16(block)
		halves(r.Quants[b*32:], block[6:])
		fifth(r.Quants[b*32:], binary.LittleEndian.Uint32(block[2:]))
	}
}

// Q5_1: scale f16, minimum f16, 32 fifth bits, 32 nibbles.
func unpackQ5_1(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block := src[b*24:][:24]
		r.Scales[b], r.Minima[b] = binary.LittleEndian.Uint16(block), binary.LittleEndian.Uint16(block[2:])
		halves(r.Quants[b*32:], block[8:])
		fifth(r.Quants[b*32:], binary.LittleEndian.Uint32(block[4:]))
	}
}

// scaleMin unpacks the j-th of eight 6-bit (scale, minimum) pairs of Q4_K and Q5_K from their 12 bytes.
func scaleMin(j int, s []byte) (scale, minimum byte) {
	if j < 4 {
		return s[j] & 63, s[j+4] & 63
	}
	return s[j+4]&15 | s[j-4]>>6<<4, s[j+4]>>4 | s[j]>>6<<4
}

// Q4_K: super-scale f16, super-minimum f16, 8 x 6-bit scales and minima, 256 nibbles in 4 groups of 32 low + 32 high.
func unpackQ4K(r *blocks.Rows, src []byte) {
	for b := range r.ScaleFactors {
		block := src[b*144:][:144]
		unpackFactors(r, b, block)
		for g := range 4 {
			halves(r.Quants[b*256+64*g:], block[16+32*g:48+32*g])
		}
	}
}

// unpackFactors unpacks the start of a block of Q4_K and Q5_K.
func unpackFactors(r *blocks.Rows, b int, block []byte) {
	r.ScaleFactors[b] = binary.LittleEndian.Uint16(block)
	r.MinimumFactors[b] = binary.LittleEndian.Uint16(block[2:])
	for j := range 8 {
		scale, minimum := scaleMin(j, block[4:16])
		r.Scales[8*b+j], r.Minima[8*b+j] = uint16(scale), uint16(minimum)
	}
}

// Q5_K: like Q4_K, with 256 fifth bits (32 bytes: bit j of byte i belongs to element i of sub-block j) before the
// nibbles.
func unpackQ5K(r *blocks.Rows, src []byte) {
	for b := range r.ScaleFactors {
		block := src[b*176:][:176]
		unpackFactors(r, b, block)
		for g := range 4 {
			halves(r.Quants[b*256+64*g:], block[48+32*g:80+32*g])
		}
		for i, q := 0, r.Quants[b*256:][:256]; i < 256; i++ {
			q[i] |= block[16+i%32] >> (i / 32) & 1 << 4
		}
	}
}

// Q6_K: 256 low nibbles, 256 high bit pairs, 16 x int8 scales, super-scale f16; offset -32.
func unpackQ6K(r *blocks.Rows, src []byte) {
	for b := range r.ScaleFactors {
		block := src[b*210:][:210]
		r.ScaleFactors[b] = binary.LittleEndian.Uint16(block[208:])
		for i, s := range block[192:208] {
			r.Scales[16*b+i] = uint16(s)
		}
		for h := range 2 {
			low, high := block[64*h:64*h+64], block[128+32*h:160+32*h]
			q := r.Quants[b*256+128*h:][:128]
			for i, x := range high {
				q[i] = low[i]&15 | x&3<<4
				q[i+32] = low[i+32]&15 | x>>2&3<<4
				q[i+64] = low[i]>>4 | x>>4&3<<4
				q[i+96] = low[i+32]>>4 | x>>6<<4
			}
		}
	}
}

// IQ4_XS: super-scale f16, 8 x 2 high bits of scales, 8 x 4 low bits, offset -32, 256 nibbles in groups of 32.
func unpackIQ4XS(r *blocks.Rows, src []byte) {
	for b := range r.ScaleFactors {
		block := src[b*136:][:136]
		r.ScaleFactors[b] = binary.LittleEndian.Uint16(block)
		high := binary.LittleEndian.Uint16(block[2:])
		for j := range 8 {
			scale := int(block[4+j/2]>>(j%2*4)&15) | int(high>>(2*j)&3)<<4
			r.Scales[8*b+j] = uint16(uint8(scale - 32))
			halves(r.Quants[b*256+32*j:], block[8+16*j:][:16])
		}
	}
}

// MXFP4: exponent of the scale (8 bits), 32 nibbles that are 4-bit floats.
func unpackMXFP4(r *blocks.Rows, src []byte) {
	for b := range r.Scales {
		block := src[b*17:][:17]
		r.Scales[b] = uint16(block[0])
		halves(r.Quants[b*32:], block[1:])
	}
}
