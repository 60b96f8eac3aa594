package engine

import (
	"fmt"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// Values of Config.Layers.
const (
	// LayersUnrolled has each layer in the program, with a cache of its own.
	LayersUnrolled = "unrolled"
	// LayersLoop has the layers as a loop, whose body is one layer, or several that repeat in this order. The weights
	// of all turns are one array each, [turns, ...], and so are the caches: page p of turn t is page t*P + p.
	LayersLoop = "loop"
)

// checkExperts refuses what experts cannot be shared out to.
func (p Plan) checkExperts(model models.Config) error {
	fewest := 0 // of a layer that has any
	for _, l := range model.Layers {
		if n := l.Experts.Count; n > 0 && (fewest == 0 || n < fewest) {
			fewest = n
		}
	}
	switch {
	case p.ExpertGroups == 1:
		return nil
	case p.Devices%p.ExpertGroups != 0:
		return fmt.Errorf("ep is %d, which does not divide the %d devices that run the model together (tp)",
			p.ExpertGroups, p.Devices)
	case fewest == 0:
		return fmt.Errorf("ep is %d, and %s has no experts: leave it out", p.ExpertGroups, p.Model)
	case fewest < p.ExpertGroups:
		return fmt.Errorf("ep is %d, and a layer of %s has %d experts: at most as many groups are possible",
			p.ExpertGroups, p.Model, fewest)
	}
	return nil
}

// checkLayers refuses what has no loop of layers.
func (p Plan) checkLayers(model models.Config) error {
	switch {
	case p.Layers == LayersUnrolled:
		return nil
	case p.Layers != LayersLoop:
		return fmt.Errorf("layers is %q: unrolled or loop is needed", p.Layers)
	case p.KV != "paged":
		return fmt.Errorf("layers is loop, which kv %s has none of: use kv paged, or layers unrolled", p.KV)
	}
	if _, err := decoder.LoopOf(model); err != nil {
		return fmt.Errorf("layers is loop: %w: use layers unrolled", err)
	}
	return nil
}

// loopOnGPU is what XLA:GPU makes of a loop of layers: its products read no slices of larger arrays. See docs/gpu.md.
const loopOnGPU = "with `layers` loop, programs for GPUs copy the weights of each layer in each step; take unrolled"

// Warnings says what of the plan is slow on a platform, as PJRT names it: "cpu", "cuda", "tpu".
func (p Plan) Warnings(platform string) (warnings []string) {
	if platform == "cuda" && p.Layers == LayersLoop {
		warnings = append(warnings, loopOnGPU)
	}
	return warnings
}
