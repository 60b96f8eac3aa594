package models

import (
	"math"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
)

// The conversions are written out here because compute's own scalar ones (v0.1.3) round float16 subnormals half up and
// can turn a NaN into an infinity.

// ToBFloat16 rounds to nearest, ties to even; NaNs stay NaNs.
func ToBFloat16(dst []bfloat16.BFloat16, src []float32) {
	for i, x := range src {
		b := math.Float32bits(x)
		if x != x {
			dst[i] = bfloat16.BFloat16(b>>16 | 0x40)
			continue
		}
		dst[i] = bfloat16.BFloat16((b + 0x7fff + b>>16&1) >> 16)
	}
}

// ToFloat16 rounds to nearest, ties to even, with subnormals; numbers beyond 65504 round to infinity, as in IEEE 754.
func ToFloat16(dst []float16.Float16, src []float32) {
	for i, x := range src {
		b := math.Float32bits(x)
		sign := uint16(b >> 16 & 0x8000)
		b &= 0x7fffffff
		switch {
		case b > 0x7f800000: // NaN
			dst[i] = float16.Float16(sign | 0x7e00 | uint16(b>>13&0x3ff))
		case b >= 0x47800000: // 65536 and above, infinity
			dst[i] = float16.Float16(sign | 0x7c00)
		// below 2^-14: subnormal or zero. Adding 0.5 makes the float32 unit the float16 one, 2^-24,
		case b < 0x38800000:
			// and so lets the addition do the rounding.
			sum := math.Float32bits(math.Float32frombits(b) + 0.5)
			dst[i] = float16.Float16(sign | uint16(sum-0x3f000000))
		// rebias the exponent and round the 13 bits that go; a carry into the exponent is right, up to infinity
		default:
			b += 0xc8000fff + b>>13&1
			dst[i] = float16.Float16(sign | uint16(b>>13))
		}
	}
}
