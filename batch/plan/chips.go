package plan

import "strings"

// Chip is what a roofline needs to know of a device: the most it can do, by its maker's word.
type Chip struct {
	Name string `json:"name"`
	// FLOPs a second in bfloat16 with sums in float32, without sparsity, and bytes a second of its memory.
	FLOPs     float64 `json:"flops_per_second"`
	Bandwidth float64 `json:"bytes_per_second"`
}

// chips by the device kind that PJRT plugins name, in lower case. Sources: "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e"
// and "TPU7x (Ironwood)" of Google Cloud's TPU documentation, key chip specifications; NVIDIA's data sheets of A100,
// H100, H200, B200, L4, L40 and L40S, dense BF16 Tensor Core. What the plugin calls a device is a chip, but of TPU7x
// half of one, and of v4 half where its two cores are not joined.
var chips = []struct {
	kind string
	Chip
}{
	{"tpu v4", Chip{"TPU v4, one of a chip's two cores", 137.5e12, 614e9}},
	{"tpu v5 lite", Chip{"TPU v5e", 197e12, 819e9}},
	{"tpu v5", Chip{"TPU v5p", 459e12, 2765e9}},
	{"tpu v6 lite", Chip{"TPU v6e", 918e12, 1640e9}},
	{"tpu7x", Chip{"TPU7x, half a chip", 1153.5e12, 3690e9}},
	{"nvidia a100", Chip{"A100 80 GB", 312e12, 2039e9}},
	{"nvidia h100", Chip{"H100 SXM", 989e12, 3350e9}},
	{"nvidia h200", Chip{"H200 SXM", 989e12, 4800e9}},
	{"nvidia b200", Chip{"B200", 2250e12, 8000e9}},
	{"nvidia l40s", Chip{"L40S", 362e12, 864e9}},
	{"nvidia l40", Chip{"L40", 181e12, 864e9}},
	{"nvidia l4", Chip{"L4", 121e12, 300e9}},
}

// findChip returns the chip that a plugin calls kind: the longest name that kind begins with.
func findChip(kind string) (Chip, bool) {
	var best Chip
	length := 0
	for _, c := range chips {
		if strings.HasPrefix(strings.ToLower(kind), c.kind) && len(c.kind) > length {
			best, length = c.Chip, len(c.kind)
		}
	}
	return best, length > 0
}

// Estimate is the roofline of a job on a chip: what could be had if the chip did nothing but the products and the reads
// that the model cannot do without, at its peak. It is an upper bound, and not measured.
type Estimate struct {
	Chip Chip `json:"chip"`
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
	layerParams, headParams  float64 // weights in products, of all layers and of the output matrix
	weightSize               float64 // bytes of a weight
	layers, heads, headDim   float64
	kvBytesPerToken          float64
	sequences, context, step int // rows of a decode step, tokens each has, tokens of a prefill step
}

// roofline is the estimate of this work on a chip. A product with n weights takes 2n operations a token; attention
// takes 4*heads*headDim a layer for each token that is looked at: q.k and the sum of values. A step reads each weight
// once, and the keys and values of its sequences once.
func (w modelWork) roofline(c Chip) Estimate {
	attention := 4 * w.layers * w.heads * w.headDim
	batch, context, step := float64(w.sequences), float64(w.context), float64(w.step)
	e := Estimate{
		Chip: c, Sequences: w.sequences, Context: w.context,
		DecodeFLOPs: batch * (2*(w.layerParams+w.headParams) + attention*context),
		DecodeBytes: (w.layerParams+w.headParams)*w.weightSize + batch*context*w.kvBytesPerToken,
		// A prompt's token looks at half of the context in the mean; only a prompt's last token goes through the output
		// matrix.
		PrefillFLOPs: step * (2*w.layerParams + attention*context/2),
		PrefillBytes: w.layerParams*w.weightSize + context/2*w.kvBytesPerToken,
	}
	e.DecodeTokensPerSecond, e.DecodeBound = c.rate(batch, e.DecodeFLOPs, e.DecodeBytes)
	e.PrefillTokensPerSecond, e.PrefillBound = c.rate(step, e.PrefillFLOPs, e.PrefillBytes)
	return e
}

// rate returns the tokens a second of a step, and what bounds it.
func (c Chip) rate(tokens, flops, bytes float64) (perSecond float64, bound string) {
	compute, memory := flops/c.FLOPs, bytes/c.Bandwidth
	if compute > memory {
		return tokens / compute, "compute"
	}
	return tokens / memory, "memory"
}
