package config

import (
	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/chip"
	"github.com/quire/quire/ops/linear"
)

// Tokens of a prompt step, unless the config gives a number.
const (
	// leastPrefillTokens is for the CPU, whose steps are bound by their arithmetic from few tokens on.
	leastPrefillTokens = 128
	mostPrefillTokens  = 1024
	// unknownPrefillTokens is for accelerators whose peaks are not known.
	unknownPrefillTokens = 512
	// The arrays of a step's tokens take at most one in prefillShare of the weights' bytes, or PrefillBytes.
	prefillShare = 8
	PrefillBytes = 64 << 20
)

// defaultPrefillTokens is the number of tokens of a prompt step. On an accelerator a step of few tokens waits for the
// weights. It is the smallest power of two with which a step's arithmetic takes twice as long as reading its weights,
// so two thirds of the peak are in reach even if the two do not overlap. It follows from the model and the kind of
// device alone, so programs compiled ahead are the programs of a run. On an accelerator the last bits of a completion
// depend on it, and a job keeps it; on the CPU they do not.
func (c Config) defaultPrefillTokens(weightBytes, parameters int64, devices int) int {
	on, ok := c.Backend.(interface{ DeviceKind() (string, error) })
	if !ok || backend.Of(on).IsHost {
		return leastPrefillTokens
	}
	wanted := float64(unknownPrefillTokens)
	if kind, err := on.DeviceKind(); err == nil {
		if device, known := chip.Find(kind); known {
			// Products of float32 take far more time than the peak suggests.
			wanted = 2 * device.Ridge(min(2, float64(weightBytes)*float64(devices)/float64(parameters)))
		}
	}
	tokens, most := leastPrefillTokens, max(weightBytes/prefillShare, PrefillBytes)
	for float64(tokens) < wanted && tokens < mostPrefillTokens && c.stepBytes(2*tokens, devices) <= most {
		tokens *= 2
	}
	return tokens
}

// stepBytes is the size of the arrays of a prompt step's tokens: hidden states, results of a token's experts, queries
// and columns of the MLP, in float32; and what experts hold of a step.
func (c Config) stepBytes(tokens, devices int) int64 {
	model := c.Model.Config
	widest, chosen, ofExperts := 0, 0, 0
	for i, l := range model.Layers {
		layer := model.OfLayer(i)
		widest = max(widest, 2*layer.NumHeads*layer.HeadDim+2*layer.IntermediateSize)
		chosen = max(chosen, l.Experts.Chosen)
		ofExperts = max(ofExperts, linear.ExpertNumbers(tokens, l.Experts.Chosen, l.Experts.Count, model.HiddenSize,
			l.Experts.Size/devices))
	}
	return 4 * int64(tokens*((4+chosen)*model.HiddenSize+widest/devices)+ofExperts)
}
