package sampling

import "testing"

// Known answers published with the Random123 library for threefry2x32 with 20 rounds.
var threefryKnown = []struct{ counter, key, want [2]uint32 }{
	{[2]uint32{0, 0}, [2]uint32{0, 0}, [2]uint32{0x6b200159, 0x99ba4efe}},
	{[2]uint32{0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff}, [2]uint32{0x1cb996fc, 0xbb002be7}},
	{[2]uint32{0x243f6a88, 0x85a308d3}, [2]uint32{0x13198a2e, 0x03707344}, [2]uint32{0xc4923a9c, 0x483df7a0}},
}

func TestThreefryKnownAnswers(t *testing.T) {
	for _, k := range threefryKnown {
		if got := Threefry(k.key, k.counter); got != k.want {
			t.Errorf("Threefry(%08x, %08x) = %08x, want %08x", k.key, k.counter, got, k.want)
		}
	}
}
