package arch

import (
	"fmt"
	"slices"
)

// ExpertPrefix is how the names of the arrays of expert n continue after the layer's prefix: "experts.n.".
const ExpertPrefix = "experts."

// Experts reads the mixture of a GGUF file, of the decoder's shares, into the layers that have no feed-forward of their
// own, and checks that the file has as many experts.
func (m *Metadata) Experts(c *Config, renormalize bool) error {
	return m.mixture(c, Experts{Renormalize: renormalize, Shared: m.Int("expert_shared_feed_forward_length", 0)})
}

// ExpertsApart is Experts for a mixture in addition to a feed-forward of each layer. e has what is specific to the
// decoder.
func (m *Metadata) ExpertsApart(c *Config, e Experts) error { return m.mixture(c, e) }

// RouterKeys are the keys of GGUF files for how experts are chosen and weighed, which [Metadata.RoutedExperts] reads.
var RouterKeys = []string{"leading_dense_block_count", "expert_gating_func", "expert_shared_count",
	"expert_weights_norm", "expert_weights_scale", "expert_group_count", "expert_group_used_count"}

// Values of expert_gating_func, the function from scores to shares.
const (
	gatingSoftmax = 1
	gatingSigmoid = 2
)

// Sigmoids reads whether shares are sigmoids of scores, or their softmax; absent is what a file without the key means.
func (m *Metadata) Sigmoids(absent bool) (bool, error) {
	const key = "expert_gating_func"
	if !m.Has(key) {
		return absent, nil
	}
	switch n := m.Int(key, 0); n {
	case gatingSoftmax:
		return false, nil
	case gatingSigmoid:
		return true, nil
	default:
		return false, Unsupported("1 (softmax) and 2 (sigmoid) are", "expert_gating_func %d", n)
	}
}

// OnlySigmoids refuses a file whose shares are no sigmoids.
func (m *Metadata) OnlySigmoids(c *Config) error {
	if sigmoids, err := m.Sigmoids(true); err != nil || sigmoids {
		return err
	}
	return Unsupported("2 (sigmoid) is", "expert_gating_func %d of a %s", gatingSoftmax, c.Architecture)
}

// RoutedExperts is Experts of a file that defines how experts are chosen and weighed. e has what is the decoder's own,
// and what the file does not say.
func (m *Metadata) RoutedExperts(c *Config, e Experts) error {
	e.Renormalize = m.Bool("expert_weights_norm", e.Renormalize)
	e.Scale = m.Float("expert_weights_scale", 1)
	e.Groups, e.ChosenGroups = m.Int("expert_group_count", e.Groups), m.Int("expert_group_used_count", e.ChosenGroups)
	if e.Size = m.Int("expert_feed_forward_length", 0); e.Size <= maxDimension {
		e.Shared = e.Size * min(m.Int("expert_shared_count", 0), maxDimension)
	}
	if err := m.mixture(c, e); err != nil {
		return err
	}
	dense := m.Int("leading_dense_block_count", 0)
	for i, l := range c.Layers {
		if sparse := l.Experts.Count > 0; sparse == (i < dense) {
			return fmt.Errorf("leading_dense_block_count is %d, but layer %d has %s", dense, i,
				map[bool]string{true: "experts", false: "none"}[sparse])
		}
	}
	return nil
}

// mixture reads the sizes of a mixture, and which layers have it.
func (m *Metadata) mixture(c *Config, e Experts) error {
	e.Count, e.Chosen = m.required("expert_count"), m.required("expert_used_count")
	if e.Size = m.Int("expert_feed_forward_length", 0); e.Size == 0 {
		e.Size = c.IntermediateSize
	}
	names, choice := LlamaNames.With(c.Names), e.Choice
	for i := range c.Layers {
		tensor := func(part Part) string { return fmt.Sprintf("blk.%d.%s", i, names[part].GGUF) }
		dense := m.HasTensor(tensor(Up) + weightSuffix)
		if e.Apart { // the shared feed-forward has its names
			dense = !m.HasTensor(tensor(Router) + weightSuffix)
		}
		if dense {
			continue
		}
		if old := tensor(Up) + ".0.weight"; m.HasTensor(old) {
			return Unsupported("convert the model again with a llama.cpp of April 2024 or later",
				"tensor %s, a file with a tensor for each expert,", old)
		}
		e.Fused = NotFused
		all := []string{tensor(ExpertGate), tensor(ExpertUp), tensor(ExpertDown)}
		if fused := fmt.Sprintf(fusedGGUF, i); m.HasTensor(fused + weightSuffix) {
			e.Fused, all = FusedInGGUF, []string{fused, tensor(ExpertDown)}
		}
		for _, name := range all {
			name += weightSuffix
			t := m.File.Tensor(name)
			if t == nil {
				return fmt.Errorf("tensor %s is missing", name)
			}
			if len(t.Dims) != 3 || t.Dims[0] != e.Count {
				return fmt.Errorf("tensor %s has shape %v, but expert_count is %d", name, t.Dims, e.Count)
			}
		}
		if e.Apart {
			e.Shared = c.OfLayer(i).IntermediateSize
		}
		e.SharedGate = e.Shared > 0 && m.HasTensor(tensor(SharedScore)+weightSuffix)
		e.Choice = choice || m.HasTensor(tensor(RouterChoice))
		c.Layers[i].Experts = e
	}
	if !slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Experts.Count > 0 }) {
		return fmt.Errorf("no layer has experts, but expert_count is %d", e.Count)
	}
	return nil
}
