package gemma4

import (
	"fmt"
	"math"
	"strconv"

	"github.com/quire/quire/models/arch"
)

// setLayers gives the layers what all of them have, and those that are sliding their window.
func setLayers(c *arch.Config, window int, sliding []bool) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	for i := range c.Layers {
		l := &c.Layers[i]
		l.AttentionNorm, l.MLPNorm = arch.Norms{Before: true, After: true}, arch.Norms{Before: true, After: true}
		l.Activation, l.Scale, l.QKNorm, l.ValueNorm, l.Scaled = arch.GELUTanh, 1, arch.EachHead, true, true
		if sliding[i] {
			l.Window, l.Rope = window, arch.LocalRope
		}
	}
}

// heads reads the sizes of heads of each layer. Those without a window have their own, of all of them or, in newer
// configs, by the number of the layer.
func heads(j *arch.JSON, c *arch.Config) error {
	var own map[string]map[string]any
	if j.Decode("per_layer_config", &own); own == nil {
		dim, heads := j.Int("global_head_dim", globalHeadDim), j.Int("num_global_key_value_heads", 0)
		for i := range c.Layers {
			if l := &c.Layers[i]; l.Window == 0 {
				l.HeadDim = dim
			}
			if l := &c.Layers[i]; l.KeysAreValues {
				l.KVHeads = heads
			}
		}
	}
	for number, sizes := range own {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= c.NumLayers {
			return fmt.Errorf("per_layer_config is of a layer %q, and there are %d", number, c.NumLayers)
		}
		for key, value := range sizes {
			of := map[string]*int{"head_dim": &c.Layers[i].HeadDim, "num_key_value_heads": &c.Layers[i].KVHeads}[key]
			size, ok := value.(float64)
			if of == nil || !ok || size < 1 || size != math.Trunc(size) || size > math.MaxInt32 {
				return arch.Unsupported("head_dim and num_key_value_heads are", "%s %v in per_layer_config", key, value)
			}
			*of = int(size)
		}
	}
	return nil
}

// turnHeads says how large the heads are that rotary embeddings turn: all of a type.
func turnHeads(c *arch.Config) error {
	for i, l := range c.Layers {
		dim, rope := c.OfLayer(i).HeadDim, &c.Ropes[l.Rope]
		if rope.Dims != 0 && rope.Dims != dim {
			return arch.Unsupported("", "layer %d with heads of %d beside others of its type with heads of %d", i, dim,
				rope.Dims)
		}
		rope.Dims = dim
	}
	return nil
}

// shareKeys makes the last layers attend to the keys and values of the last layer of their type that has some.
func shareKeys(c *arch.Config, shared int) error {
	first := c.NumLayers - shared
	if shared < 0 || first < 0 {
		return fmt.Errorf("%d of %d layers share keys and values", shared, c.NumLayers)
	}
	for i := first; i < c.NumLayers; i++ {
		l := &c.Layers[i]
		for l.KVFrom = first - 1; l.KVFrom >= 0 && c.Layers[l.KVFrom].Window != l.Window; {
			l.KVFrom--
		}
		if l.KVFrom < 0 {
			return fmt.Errorf("%d layers share keys and values, and no layer before has the type of layer %d", shared,
				i)
		}
	}
	return nil
}
