package sampling

import . "github.com/gomlx/gomlx/core/graph"

// ParamsOf has a field for each sampling parameter of the n rows of a batch. Each is declared here once, for the device
// as [Params] and for the host as [Rows].
type ParamsOf[Floats, Ints, Keys any] struct {
	// Temperature f32[n] divides the logits; rows at 0 are greedy and ignore the other fields.
	Temperature Floats
	// TopP f32[n]; 1 or more is off.
	TopP Floats
	// MinP f32[n]; 0 or less is off.
	MinP Floats
	// TopK i32[n]; 0 or less, or the vocabulary size or more, is off.
	TopK Ints
	// Key u32[n, 2] is the key of the row's random numbers, see [RequestKey].
	Key Keys
}

// Params are the sampling parameters on the device. Rows that are not in use may have any values.
type Params = ParamsOf[*Node, *Node, *Node]

// Rows are the sampling parameters on the host.
type Rows = ParamsOf[[]float32, []int32, [][2]uint32]

// SetRow sets row i from settings, for one generation of the request named id.
func SetRow(rows Rows, i int, s Settings, id string, generation int) {
	rows.Temperature[i], rows.TopP[i], rows.MinP[i] = float32(s.Temperature), float32(s.TopP), float32(s.MinP)
	rows.TopK[i] = int32(s.TopK)
	rows.Key[i] = RequestKey(s.Seed, HashID(id), uint32(generation))
}
