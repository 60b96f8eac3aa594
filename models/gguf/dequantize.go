package gguf

import (
	"encoding/binary"
	"math"
)

// The formulas are ggml's (dequantize_row_* in ggml-quants.c). Products and sums are rounded to float32 one by one, as
// there, so that results are equal bit for bit: the explicit float32 conversions forbid fused multiply-adds.

// halfToFloat maps every float16 bit pattern to its float32 value.
var halfToFloat = func() *[1 << 16]float32 {
	var table [1 << 16]float32
	for i := range table {
		sign, exp, frac := uint32(i>>15)<<31, uint32(i>>10)&0x1f, uint32(i)&0x3ff
		switch exp {
		case 0: // zero and subnormals: frac * 2^-24 is exact
			table[i] = math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
		case 31:
			table[i] = math.Float32frombits(sign | 0x7f800000 | frac<<13)
		default:
			table[i] = math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
		}
	}
	return &table
}()

func half(b []byte) float32 { return halfToFloat[binary.LittleEndian.Uint16(b)] }

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// Q8_0: scale f16, 32 x int8.
func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[34:] {
		d, q, y := half(src), src[2:34], dst[:32]
		for i := range y {
			y[i] = d * float32(int8(q[i]))
		}
	}
}

// Q4_0: scale f16, 32 nibbles (low ones first), offset -8.
func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[18:] {
		d, q, y := half(src), src[2:18], dst[:32]
		for i := range q {
			y[i] = d * float32(int(q[i]&15)-8)
			y[i+16] = d * float32(int(q[i]>>4)-8)
		}
	}
}

// Q4_1: scale f16, minimum f16, 32 nibbles.
func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[20:] {
		d, m, q, y := half(src), half(src[2:]), src[4:20], dst[:32]
		for i := range q {
			y[i] = float32(d*float32(q[i]&15)) + m
			y[i+16] = float32(d*float32(q[i]>>4)) + m
		}
	}
}

// Q5_0: scale f16, 32 fifth bits, 32 nibbles, offset -16.
func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[22:] {
		d, high, q, y := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22], dst[:32]
		for i := range q {
			y[i] = d * float32(int(q[i]&15|byte(high>>i&1)<<4)-16)
			y[i+16] = d * float32(int(q[i]>>4|byte(high>>(i+16)&1)<<4)-16)
		}
	}
}

// Q5_1: scale f16, minimum f16, 32 fifth bits, 32 nibbles.
func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[24:] {
		d, m, high, q, y := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24], dst[:32]
		for i := range q {
			y[i] = float32(d*float32(q[i]&15|byte(high>>i&1)<<4)) + m
			y[i+16] = float32(d*float32(q[i]>>4|byte(high>>(i+16)&1)<<4)) + m
		}
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
func decodeQ4K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[144:] {
		d, dmin, scales := half(src), half(src[2:]), src[4:16]
		for g := range 4 {
			q, y := src[16+32*g:48+32*g], dst[64*g:64*g+64]
			s0, m0 := scaleMin(2*g, scales)
			s1, m1 := scaleMin(2*g+1, scales)
			d0, d1 := d*float32(s0), d*float32(s1)
			min0, min1 := dmin*float32(m0), dmin*float32(m1)
			for i := range q {
				y[i] = float32(d0*float32(q[i]&15)) - min0
				y[i+32] = float32(d1*float32(q[i]>>4)) - min1
			}
		}
	}
}

// Q5_K: as Q4_K with 256 fifth bits (32 bytes: bit j of byte i belongs to element i of sub-block j) before the nibbles.
func decodeQ5K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[176:] {
		d, dmin, scales, high := half(src), half(src[2:]), src[4:16], src[16:48]
		for g := range 4 {
			q, y := src[48+32*g:80+32*g], dst[64*g:64*g+64]
			s0, m0 := scaleMin(2*g, scales)
			s1, m1 := scaleMin(2*g+1, scales)
			d0, d1 := d*float32(s0), d*float32(s1)
			min0, min1 := dmin*float32(m0), dmin*float32(m1)
			for i := range q {
				y[i] = float32(d0*float32(q[i]&15|high[i]>>(2*g)&1<<4)) - min0
				y[i+32] = float32(d1*float32(q[i]>>4|high[i]>>(2*g+1)&1<<4)) - min1
			}
		}
	}
}

// Q6_K: 256 low nibbles, 256 high bit pairs, 16 x int8 scales, super-scale f16; offset -32.
func decodeQ6K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[210:] {
		d := half(src[208:])
		for h := range 2 {
			low, high := src[64*h:64*h+64], src[128+32*h:160+32*h]
			scales, y := src[192+8*h:200+8*h], dst[128*h:128*h+128]
			var s [8]float32
			for i := range s {
				s[i] = d * float32(int8(scales[i]))
			}
			for i, hb := range high {
				y[i] = s[i/16] * float32(int(low[i]&15|hb&3<<4)-32)
				y[i+32] = s[2+i/16] * float32(int(low[i+32]&15|hb>>2&3<<4)-32)
				y[i+64] = s[4+i/16] * float32(int(low[i]>>4|hb>>4&3<<4)-32)
				y[i+96] = s[6+i/16] * float32(int(low[i+32]>>4|hb>>6<<4)-32)
			}
		}
	}
}
