package sampling

import "math/bits"

// threefryParity is the constant C240 of the Threefry key schedule, for 32-bit words.
const threefryParity = 0x1BD11BDA

// threefryRotations are the rotation distances of Threefry-2x32, repeated every 8 rounds.
var threefryRotations = [8]int{13, 15, 26, 6, 17, 29, 16, 24}

// Threefry is the counter-based random function Threefry-2x32 with 20 rounds by Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011). Each (key, counter) gives 64 independent random bits.
func Threefry(key, counter [2]uint32) [2]uint32 {
	schedule := [3]uint32{key[0], key[1], threefryParity ^ key[0] ^ key[1]}
	x0, x1 := counter[0]+schedule[0], counter[1]+schedule[1]
	for round := range 20 {
		x0 += x1
		x1 = bits.RotateLeft32(x1, threefryRotations[round%8]) ^ x0
		if round%4 == 3 {
			s := round/4 + 1
			x0 += schedule[s%3]
			x1 += schedule[(s+1)%3] + uint32(s)
		}
	}
	return [2]uint32{x0, x1}
}
