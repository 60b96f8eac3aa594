package blocks

import (
	"fmt"
	"math"
)

// Quantize rounds rows of floats to a format without factors and minima, as ggml does: Q8_0 or Q4_0.
func Quantize(f Format, x []float32, in int) (*Rows, error) {
	if f != Q8_0 && f != Q4_0 {
		return nil, fmt.Errorf("blocks: floats are not rounded to %s; choose Q8_0 or Q4_0", f)
	}
	if in%f.Unit() != 0 || len(x)%in != 0 {
		return nil, fmt.Errorf("blocks: %d numbers in rows of %d do not divide into blocks of %d", len(x), in, f.Size)
	}
	r := NewRows(f, len(x)/in, in)
	for b := range r.Scales {
		from, to := x[b*f.Size:][:f.Size], r.Quants[b*f.Size:][:f.Size]
		largest, most := float32(0), float32(0) // the value of largest magnitude, and its magnitude
		for _, v := range from {
			if m := float32(math.Abs(float64(v))); m > most {
				largest, most = v, m
			}
		}
		scale := most / 127
		if f == Q4_0 {
			scale = largest / -8
		}
		r.Scales[b] = ToHalf(scale)
		inverse := float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		for i, v := range from {
			v *= inverse
			if f == Q4_0 {
				to[i] = uint8(min(15, int(v+8.5)))
				continue
			}
			to[i] = uint8(int(math.Round(float64(v))) + f.Offset)
		}
	}
	return r, nil
}
