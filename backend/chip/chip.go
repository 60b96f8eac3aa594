// Package chip lists vendors' peak figures for accelerators, for rooflines and for sizes derived from them.
package chip

import "strings"

// Chip has the figures of a device that a roofline needs.
type Chip struct {
	Name string `json:"name"`
	// FLOPs is the peak of operations per second in dense bfloat16 with sums in float32. Bandwidth is the peak of the
	// memory, in bytes per second.
	FLOPs     float64 `json:"flops_per_second"`
	Bandwidth float64 `json:"bytes_per_second"`
	// Clock is what turns the cycles of a TPU's compiler into seconds; 0 if that is not known. Link is the bytes per
	// second of one link to a neighboring chip, in both directions together. That is what a chip sends if devices
	// exchange along one axis of the torus, in rings in both directions.
	Clock float64 `json:"clock_hz,omitempty"`
	Link  float64 `json:"link_bytes_per_second,omitempty"`
}

// chips lists chips by the device kind that PJRT plugins report, in lower case. Sources: "TPU v4", "TPU v5e", "TPU
// v5p", "TPU v6e" and "TPU7x (Ironwood)" in Google Cloud's TPU documentation, key chip specifications; NVIDIA's data
// sheets of A100, H100, H200, B200, L4, L40 and L40S, dense BF16 Tensor Core. A plugin's device is a whole chip, with
// two exceptions: half of a TPU7x, and half of a TPU v4 whose two cores are not joined. The same pages of Google's give
// the bandwidth of a chip's interconnect in both directions, which is divided by its links, 4 in a 2D torus and 6 in a
// 3D one. A clock is the one that gives the chip's peak with the size and number of its matrix units.
var chips = []struct {
	kind string
	Chip
}{
	{"tpu v4", Chip{"TPU v4, one of a chip's two cores", 137.5e12, 614e9, 1.05e9, 100e9}},
	{"tpu v5 lite", Chip{"TPU v5e", 197e12, 819e9, 1.5e9, 100e9}},
	{"tpu v5", Chip{"TPU v5p", 459e12, 2765e9, 1.75e9, 200e9}},
	{"tpu v6 lite", Chip{"TPU v6e", 918e12, 1640e9, 1.75e9, 200e9}},
	{"tpu7x", Chip{"TPU7x, half a chip", 1153.5e12, 3690e9, 0, 200e9}},
	{"nvidia a100", Chip{"A100 80 GB", 312e12, 2039e9, 0, 0}},
	{"nvidia h100", Chip{"H100 SXM", 989e12, 3350e9, 0, 0}},
	{"nvidia h200", Chip{"H200 SXM", 989e12, 4800e9, 0, 0}},
	{"nvidia b200", Chip{"B200", 2250e12, 8000e9, 0, 0}},
	{"nvidia l40s", Chip{"L40S", 362e12, 864e9, 0, 0}},
	{"nvidia l40", Chip{"L40", 181e12, 864e9, 0, 0}},
	{"nvidia l4", Chip{"L4", 121e12, 300e9, 0, 0}},
}

// Find returns the chip for a plugin's device kind: the one with the longest name that kind starts with.
func Find(kind string) (Chip, bool) {
	var best Chip
	length := 0
	for _, c := range chips {
		if strings.HasPrefix(strings.ToLower(kind), c.kind) && len(c.kind) > length {
			best, length = c.Chip, len(c.kind)
		}
	}
	return best, length > 0
}

// Rate returns how many tokens per second a step of so many tokens, operations and bytes can reach at most, and what
// bounds it: "compute" or "memory".
func (c Chip) Rate(tokens, flops, bytes float64) (perSecond float64, bound string) {
	compute, memory := flops/c.FLOPs, bytes/c.Bandwidth
	if compute > memory {
		return tokens / compute, "compute"
	}
	return tokens / memory, "memory"
}

// Ridge returns how many tokens a step must have for its products to take as long as reading the weights. A weight
// takes two operations per token.
func (c Chip) Ridge(bytesPerWeight float64) float64 {
	return bytesPerWeight / 2 * c.FLOPs / c.Bandwidth
}
