package llama

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

var ofMistral = []arch.Decoder{
	features{window: 4096, windows: all}.decoder(arch.Decoder{
		Class: "MistralForCausalLM", ModelType: "mistral",
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
	features{window: 4096, windows: chosen}.decoder(arch.Decoder{
		Class: "MinistralForCausalLM", ModelType: "ministral",
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
}

// windows sets the windows of layers. types reports which layers have type sliding_attention; it is nil if the config
// has no layer_types. window is 0 if it is null.
type windows func(j *arch.JSON, c *arch.Config, window int, types []bool) error

// all gives the window to every layer. It is an error if the layers' types contradict that.
func all(_ *arch.JSON, c *arch.Config, window int, types []bool) error {
	for _, sliding := range types {
		if sliding != (window > 0) {
			kind := map[bool]string{true: "sliding_attention", false: "full_attention"}[sliding]
			return arch.Unsupported("", "layer type %q in this %s", kind, c.Architecture)
		}
	}
	for i := range c.Layers {
		c.Layers[i].Window = window
	}
	return nil
}

// chosen gives the window to layers of type sliding_attention, or to all layers if there are no types.
func chosen(_ *arch.JSON, c *arch.Config, window int, types []bool) error {
	for i := range c.Layers {
		if types == nil || types[i] {
			c.Layers[i].Window = window
		}
		if types != nil && types[i] && window == 0 {
			return fmt.Errorf("layer %d is of type sliding_attention, but there is no sliding_window", i)
		}
	}
	return nil
}
