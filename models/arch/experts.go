package arch

import (
	"fmt"
	"slices"
)

// Experts is a mixture: a token goes through the feed-forwards of some experts, which a router chooses, and the result
// is their sum by shares. The zero value is one feed-forward for all tokens.
type Experts struct {
	Count  int // 0: no mixture
	Chosen int // for each token, those with the largest scores
	Size   int // width of an expert's feed-forward
	// Renormalize makes the shares of the chosen add up to 1. A share is the softmax of the scores of all experts.
	Renormalize bool
}

func (e Experts) check(layer int) error {
	switch {
	case e.Count == 0:
		return nil
	case e.Count < 1 || e.Count > 1<<14 || e.Chosen < 1 || e.Chosen > e.Count:
		return fmt.Errorf("layer %d takes %d of %d experts", layer, e.Chosen, e.Count)
	case e.Size < 1 || e.Size > maxDimension:
		return fmt.Errorf("the experts of layer %d are %d wide; it must be between 1 and %d", layer, e.Size,
			maxDimension)
	}
	return nil
}

// ExpertPrefix begins the names of the arrays of expert number n of a layer, behind the layer's: "experts.n.".
const ExpertPrefix = "experts."

// Experts reads the mixture of a GGUF file, of the decoder's shares, into the layers that have no feed-forward of their
// own, and checks that the file has as many experts.
func (m *Metadata) Experts(c *Config, renormalize bool) error {
	e := Experts{Count: m.required("expert_count"), Chosen: m.required("expert_used_count"), Renormalize: renormalize}
	if e.Size = m.Int("expert_feed_forward_length", 0); e.Size == 0 {
		e.Size = c.IntermediateSize
	}
	names := LlamaNames.With(c.Names)
	for i := range c.Layers {
		tensor := func(part Part) string { return fmt.Sprintf("blk.%d.%s", i, names[part].GGUF) }
		if m.HasTensor(tensor(Up) + ".weight") {
			continue
		}
		if old := tensor(Up) + ".0.weight"; m.HasTensor(old) {
			return Unsupported("convert the model again with a llama.cpp of April 2024 or later",
				"tensor %s, a file with a tensor for each expert,", old)
		}
		for _, part := range []Part{ExpertGate, ExpertUp, ExpertDown} {
			name := tensor(part) + ".weight"
			t := m.File.Tensor(name)
			if t == nil {
				return fmt.Errorf("tensor %s is missing", name)
			}
			if len(t.Dims) != 3 || t.Dims[0] != e.Count {
				return fmt.Errorf("tensor %s has shape %v, but expert_count is %d", name, t.Dims, e.Count)
			}
		}
		c.Layers[i].Experts = e
	}
	if !slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Experts.Count > 0 }) {
		return fmt.Errorf("no layer has experts, but expert_count is %d", e.Count)
	}
	return nil
}
