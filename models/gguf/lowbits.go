package gguf

// The encodings below are decoded to floats, because no kernel accepts them. Products and sums are rounded one by
// one, as in the gguf package.

// decodeBlocks decodes blocks one by one.
func decodeBlocks(blockLen, blockBytes int, one func(to []float32, block []byte)) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		for ; len(dst) > 0; dst, src = dst[blockLen:], src[blockBytes:] {
			one(dst[:blockLen], src[:blockBytes])
		}
	}
}

// lowPairs returns the i-th of the 256 bit pairs in 64 bytes: each 32 bytes hold four runs of 32 pairs, the lowest
// bits first.
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
// offset -32, super-scale f16; 4 is subtracted from a number whose third bit is 0.
func decodeQ3K(to []float32, block []byte) {
	d, s := half(block[108:]), block[96:108]
	for i := range to {
		j := i / 16
		scale := s[j%8]>>(j/8*4)&15 | s[8+j%4]>>(j/4*2)&3<<4
		q := int(lowPairs(block[32:96], i)) - 4 + int(block[i%32]>>(i/32)&1)<<2
		to[i] = float32(d*float32(int(scale)-32)) * float32(q)
	}
}
