package llama

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

var ofQwen = []arch.Decoder{
	features{window: 4096, qkvBias: true, windows: switched}.decoder(arch.Decoder{
		Class: "Qwen2ForCausalLM", ModelType: "qwen2", GGUF: arch.GGUF{Architecture: "qwen2"},
		Defaults: arch.Defaults{KVHeads: 32, MaxPositions: 32768, Theta: 1e4, BOS: -1},
	}),
	features{window: 4096, attentionBias: true, qkNorm: arch.EachHead, windows: switched}.decoder(arch.Decoder{
		Class: "Qwen3ForCausalLM", ModelType: "qwen3",
		GGUF:     arch.GGUF{Architecture: "qwen3", Keys: []string{arch.LabelsKey}},
		Defaults: arch.Defaults{KVHeads: 32, MaxPositions: 32768, HeadDim: 128, Theta: 1e4, BOS: -1},
	}),
}

// switched gives the window to layers from max_window_layers on.
func switched(j *arch.JSON, c *arch.Config, window int, types []bool) error {
	from := j.Int("max_window_layers", 28)
	return withSwitch(j, c, window, types, func(i int) bool { return i >= from })
}

// withSwitch sets windows if use_sliding_window is true: for layers of type sliding_attention or, without types, for
// the layers that has selects.
func withSwitch(j *arch.JSON, c *arch.Config, window int, types []bool, has func(layer int) bool) error {
	if !j.Bool("use_sliding_window", false) {
		window = 0
	}
	for i := range c.Layers {
		sliding := window > 0 && has(i)
		if types != nil {
			sliding = types[i]
		}
		if sliding && window == 0 {
			return fmt.Errorf(
				"layer %d is of type sliding_attention, but use_sliding_window and sliding_window give no window", i)
		}
		if sliding {
			c.Layers[i].Window = window
		}
	}
	return nil
}
