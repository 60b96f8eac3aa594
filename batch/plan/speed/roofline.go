package plan

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

// modelWork is what the roofline is computed from.
type modelWork struct {
	layerParams, headParams float64 // weights that a token is multiplied with, in the layers and in the output matrix
	// read is how many weights of layers a step of so many tokens reads: see [arch.Config.Read].
	read                     func(tokens float64) float64
	weightSize               float64 // bytes of a weight
	layers, heads, headDim   float64
	kvBytesPerToken          float64
	sequences, context, step int // rows of a decode step, tokens each has, tokens of a prefill step
}

// roofline is the estimate of this work on a chip. A product with n weights takes 2n operations a token; attention
// takes 4*heads*headDim a layer for each token that is looked at: q.k and the sum of values. A step reads each weight
// once, and the keys and values of its sequences once. Experts are chosen evenly.
func (w modelWork) roofline(c chip.Chip) Estimate {
	attention := 4 * w.layers * w.heads * w.headDim
	batch, context, step := float64(w.sequences), float64(w.context), float64(w.step)
	e := Estimate{
		Chip: c, Sequences: w.sequences, Context: w.context,
		DecodeFLOPs: batch * (2*(w.layerParams+w.headParams) + attention*context),
		DecodeBytes: (w.read(batch)+w.headParams)*w.weightSize + batch*context*w.kvBytesPerToken,
		// A prompt's token looks at half of the context in the mean; only a prompt's last token goes through the output
		// matrix.
		PrefillFLOPs: step * (2*w.layerParams + attention*context/2),
		PrefillBytes: w.read(step)*w.weightSize + context/2*w.kvBytesPerToken,
	}
	e.DecodeTokensPerSecond, e.DecodeBound = c.Rate(batch, e.DecodeFLOPs, e.DecodeBytes)
	e.PrefillTokensPerSecond, e.PrefillBound = c.Rate(step, e.PrefillFLOPs, e.PrefillBytes)
	return e
}
