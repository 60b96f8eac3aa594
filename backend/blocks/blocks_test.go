package blocks

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Rounded numbers are within half a step of those given, and zeros stay zeros.
func TestQuantize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const in = 96
	x := make([]float32, 5*in)
	for i := range x {
		x[i] = float32(random.NormFloat64()) * float32(math.Pow(10, float64(i%5)))
	}
	clear(x[2*in : 2*in+32])
	for _, f := range []Format{Q8_0, Q4_0} {
		r, err := Quantize(f, x, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range r.Floats() {
			step := float64(Half(r.Scales[i/32]))
			within := math.Abs(step) * 0.51
			if f == Q4_0 { // the largest of the other sign may be a step off
				within = math.Abs(step) * 1.01
			}
			if !(math.Abs(float64(got-x[i])) <= within) {
				t.Fatalf("%s: %g became %g, in steps of %g", f, x[i], got, step)
			}
		}
	}
	if _, err := Quantize(Q4_K, x, in); err == nil {
		t.Error("floats were rounded to Q4_K")
	}
	if _, err := Quantize(Q8_0, x, 33); err == nil {
		t.Error("rows of 33 numbers were rounded")
	}
}

// Float16 numbers are widened and rounded back to themselves; others to the nearest.
func TestHalf(t *testing.T) {
	for bits := range 1 << 16 {
		x := Half(uint16(bits))
		if got := ToHalf(x); x == x && got != uint16(bits) {
			t.Fatalf("%#04x is %g, which is %#04x", bits, x, got)
		}
	}
	for x, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, 1 + 0x1p-11: 0x3c00, 1 + 0x1.8p-10: 0x3c02} {
		if got := ToHalf(x); got != want {
			t.Errorf("%g is %#04x, want %#04x", x, got, want)
		}
	}
}

// Sizes equal GGUF's blocks, except the scales of K-quants, which take whole bytes.
func TestBytes(t *testing.T) {
	for f, want := range map[Format]int{Q8_0: 8 * 34, Q4_0: 8 * 18, Q4_1: 8 * 20, Q5_0: 8 * 22, Q5_1: 8 * 24,
		Q4_K: 144 + 4, Q5_K: 176 + 4, Q6_K: 210} {
		if got := f.Bytes(256); got != want {
			t.Errorf("256 numbers of %s take %d bytes, want %d", f, got, want)
		}
	}
}
