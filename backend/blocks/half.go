package blocks

import "math"

// Half returns the float16 number with the given bits.
func Half(bits uint16) float32 {
	sign, exp, frac := uint32(bits>>15)<<31, uint32(bits>>10)&0x1f, uint32(bits)&0x3ff
	switch exp {
	case 0: // zero and subnormals: frac * 2^-24 is exact
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToHalf returns the bits of the float16 number nearest to x, ties to even.
func ToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 65536 and above, infinity
		return sign | 0x7c00
	case b < 0x38800000: // subnormal or zero: the addition does the rounding
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0xc8000fff + b>>13&1
	return sign | uint16(b>>13)
}

// E4M3 returns the 8-bit float with the given bits: a sign, 4 bits of exponent, 3 of fraction, and no infinities.
func E4M3(bits uint8) float32 {
	sign, exp, frac := uint32(bits>>7)<<31, uint32(bits>>3)&0xf, uint32(bits)&7
	switch {
	case bits&0x7f == 0x7f:
		return float32(math.NaN())
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-9))
	}
	return math.Float32frombits(sign | (exp+120)<<23 | frac<<20)
}

// BFloat16 returns the bfloat16 number with the given bits.
func BFloat16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }
