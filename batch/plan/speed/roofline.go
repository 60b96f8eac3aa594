// Package speed estimates how fast a job could be on a chip: at most, by the roofline, and by what its compiled
// programs consist of.
package speed

import "github.com/quire/quire/backend/chip"

// Estimate is the roofline of a job on a chip: the speed if the chip did nothing but the necessary products and reads,
// at its peak. It is an upper bound, and not measured.
type Estimate struct {
	Chip chip.Chip `json:"chip"`
	// Decode is for Sequences that each have Context tokens.
	Sequences int `json:"sequences"`
	Context   int `json:"context"`

	DecodeFLOPs           float64 `json:"decode_flops_per_step"`
	DecodeBytes           float64 `json:"decode_bytes_per_step"`
	DecodeTokensPerSecond float64 `json:"decode_tokens_per_second"`
	DecodeBound           string  `json:"decode_bound"`

	PrefillFLOPs           float64 `json:"prefill_flops_per_step"`
	PrefillBytes           float64 `json:"prefill_bytes_per_step"`
	PrefillTokensPerSecond float64 `json:"prefill_tokens_per_second"`
	PrefillBound           string  `json:"prefill_bound"`
}

// Work is what the speed of a job depends on besides the chip and its programs: the share of one device.
type Work struct {
	LayerParams, HeadParams float64 // weights that a token is multiplied with, in the layers and in the output matrix
	// Read is how many weights of layers a step of so many tokens reads: see [arch.Config.Read].
	Read                     func(tokens float64) float64
	WeightSize               float64 // bytes of a weight
	Layers, Heads, HeadDim   float64
	KVBytesPerToken          float64
	Sequences, Context, Step int // rows of a decode step, tokens each has, tokens of a prefill step
	// Tiles is how many tiles of rows a prompt step runs through experts; 1 if there are none.
	Tiles float64
	// Devices run the model together. Rounds is how many steps a call has, PageSize the tokens of a page.
	Devices, Rounds, PageSize int
}

// attention is the operations of a token for each token that it looks at.
func (w Work) attention() float64 { return 4 * w.Layers * w.Heads * w.HeadDim }

// Roofline is the estimate of this work on a chip. A product with n weights takes 2n operations a token; attention
// takes 4*heads*headDim a layer for each token that is looked at: q.k and the sum of values. A step reads each weight
// once, and the keys and values of its sequences once. Experts are chosen evenly.
func (w Work) Roofline(c chip.Chip) Estimate {
	attention := w.attention()
	batch, context, step := float64(w.Sequences), float64(w.Context), float64(w.Step)
	e := Estimate{
		Chip: c, Sequences: w.Sequences, Context: w.Context,
		DecodeFLOPs: batch * (2*(w.LayerParams+w.HeadParams) + attention*context),
		DecodeBytes: (w.Read(batch)+w.HeadParams)*w.WeightSize + batch*context*w.KVBytesPerToken,
		// A prompt's token looks at half of the context in the mean; only a prompt's last token goes through the output
		// matrix.
		PrefillFLOPs: step * (2*w.LayerParams + attention*context/2),
		PrefillBytes: w.Read(step)*w.WeightSize + context/2*w.KVBytesPerToken,
	}
	e.DecodeTokensPerSecond, e.DecodeBound = c.Rate(batch, e.DecodeFLOPs, e.DecodeBytes)
	e.PrefillTokensPerSecond, e.PrefillBound = c.Rate(step, e.PrefillFLOPs, e.PrefillBytes)
	return e
}
