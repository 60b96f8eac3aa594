package gguf

import (
	"encoding/binary"
	"math"
)

// The encodings below become floats: no kernel takes them as they are. Products and sums are rounded one by one, as in
// the gguf package.

// decodeBlocks decodes blocks one by one.
func decodeBlocks(blockLen, blockBytes int, one func(to []float32, block []byte)) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		for ; len(dst) > 0; dst, src = dst[blockLen:], src[blockBytes:] {
			one(dst[:blockLen], src[:blockBytes])
		}
	}
}

// lowPairs is bit pair i of the 256 in 64 bytes: each 32 bytes have four runs of 32, the lowest bits first.
func lowPairs(q []byte, i int) byte { return q[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3 }

// Q2_K: 16 x 4-bit scales and minima, 256 bit pairs, super-scale f16, super-minimum f16.
func decodeQ2K(to []float32, block []byte) {
	d, dmin := half(block[80:]), half(block[82:])
	for i := range to {
		s := block[i/16]
		scale, minimum := float32(d*float32(s&15)), float32(dmin*float32(s>>4))
		to[i] = float32(scale*float32(lowPairs(block[16:80], i))) - minimum
	}
}

// Q3_K: 256 third bits (bit j of byte i belongs to element i of run j of 32), 256 bit pairs, 16 x 6-bit scales with
// offset -32, super-scale f16; a number whose third bit is 0 is less by 4.
func decodeQ3K(to []float32, block []byte) {
	d, s := half(block[108:]), block[96:108]
	for i := range to {
		j := i / 16
		scale := s[j%8]>>(j/8*4)&15 | s[8+j%4]>>(j/4*2)&3<<4
		q := int(lowPairs(block[32:96], i)) - 4 + int(block[i%32]>>(i/32)&1)<<2
		to[i] = float32(d*float32(int(scale)-32)) * float32(q)
	}
}

// curve are the numbers of IQ4_NL and IQ4_XS by their nibbles, floats those of MXFP4, doubled.
var (
	curve  = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	floats = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// byNibbles multiplies 32 numbers of a table by a scale: low nibbles first.
func byNibbles(to []float32, scale float32, table *[16]float32, nibbles []byte) {
	for i, q := range nibbles[:16] {
		to[i], to[i+16] = scale*table[q&15], scale*table[q>>4]
	}
}

// IQ4_NL: scale f16, 32 nibbles.
func decodeIQ4NL(to []float32, block []byte) { byNibbles(to, half(block), &curve, block[2:]) }

// IQ4_XS: super-scale f16, 8 x 2 high bits of scales, 8 x 4 low bits, offset -32, 256 nibbles in groups of 32.
func decodeIQ4XS(to []float32, block []byte) {
	d, high := half(block), binary.LittleEndian.Uint16(block[2:])
	for j := range 8 {
		scale := int(block[4+j/2]>>(j%2*4)&15) | int(high>>(2*j)&3)<<4
		byNibbles(to[32*j:], d*float32(scale-32), &curve, block[8+16*j:])
	}
}

// MXFP4: exponent of the scale (8 bits, offset -127), 32 nibbles that are floats of 4 bits.
func decodeMXFP4(to []float32, block []byte) {
	e := uint32(block[0])
	bits := (e - 1) << 23 // of half the scale, as the table's numbers are doubled
	if e < 2 {
		bits = 0x00200000 << e
	}
	byNibbles(to, math.Float32frombits(bits), &floats, block[1:])
}
