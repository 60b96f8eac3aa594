package engine

import (
	"github.com/quire/quire/chip"
	"github.com/quire/quire/linear"
)

// Tokens of a prompt step where nothing else is asked for.
const (
	// leastPrefillTokens is the CPU's, whose steps are bound by their arithmetic from few tokens on.
	leastPrefillTokens = 128
	mostPrefillTokens  = 1024
	// unknownPrefillTokens is that of accelerators whose peaks are not known.
	unknownPrefillTokens = 512
	// The arrays of a step's tokens take at most one in prefillShare of the weights' bytes, or prefillBytes.
	prefillShare = 8
	prefillBytes = 64 << 20
)

// defaultPrefillTokens are the tokens of a prompt step where nothing else is asked for. On an accelerator a step of few
// tokens waits for the weights. It is the least power of two with which a step's arithmetic takes twice as long as its
// weights take from memory: so two thirds of the peak are in reach even where the two do not overlap. It follows from
// the model and the kind of device alone, so that programs compiled ahead are those of a run. There it is part of what
// a completion's last bits depend on, and a job keeps it; on the CPU it is not.
func (c Config) defaultPrefillTokens(p Plan) int {
	on, ok := c.Backend.(interface {
		Platform() string
		DeviceKind() (string, error)
	})
	if !ok || on.Platform() == "cpu" {
		return leastPrefillTokens
	}
	wanted := float64(unknownPrefillTokens)
	if kind, err := on.DeviceKind(); err == nil {
		if device, known := chip.Find(kind); known {
			// Products of float32 take far more time than those of the peak.
			wanted = 2 * device.Ridge(min(2, float64(p.WeightBytes)*float64(p.Devices)/float64(p.Parameters)))
		}
	}
	model := c.Model.Config
	// A token's hidden states, results of its experts, queries and columns of the MLP, in float32; and what experts
	// hold of a step.
	widest, chosen := 0, 0
	for i := range model.Layers {
		of := model.OfLayer(i)
		widest = max(widest, 2*of.NumHeads*of.HeadDim+2*of.IntermediateSize)
		chosen = max(chosen, model.Layers[i].Experts.Chosen)
	}
	step := func(tokens int) int64 {
		ofExperts := 0
		for _, l := range model.Layers {
			ofExperts = max(ofExperts, linear.ExpertNumbers(tokens, l.Experts.Chosen, l.Experts.Count, model.HiddenSize,
				l.Experts.Size/p.Devices))
		}
		return 4 * int64(tokens*((4+chosen)*model.HiddenSize+widest/p.Devices)+ofExperts)
	}
	tokens, most := leastPrefillTokens, max(p.WeightBytes/prefillShare, prefillBytes)
	for float64(tokens) < wanted && tokens < mostPrefillTokens && step(2*tokens) <= most {
		tokens *= 2
	}
	return tokens
}
