package arch

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/quire/quire/internal/plural"
)

// The functions below set what distinguishes layers, if a model's layers are not all alike.

// Sandwich makes a layer one of Gemma, which also has norms after what it adds. Its tensors have the names of
// SandwichNames.
func (l *Layer) Sandwich() {
	l.AttentionNorm, l.MLPNorm = Norms{Before: true, After: true}, Norms{Before: true, After: true}
	l.Activation = GELUTanh
}

// SlideLayers gives the layers that are sliding a window and, if there are two, the rotary embedding of such layers. A
// window of 0 leaves all layers as they are.
func (c *Config) SlideLayers(window int, sliding []bool) {
	for i := range c.Layers {
		if l := &c.Layers[i]; window > 0 && sliding[i] {
			l.Window, l.Rope = window, min(LocalRope, len(c.Ropes)-1)
		}
	}
}

// Both makes the layers attend to the tokens after a token, too: as many as to tokens before it.
func (c *Config) Both() {
	for i := range c.Layers {
		l := &c.Layers[i]
		if l.Ahead = AllAhead; l.Window > 0 {
			l.Ahead = l.Window - 1
		}
	}
}

// OwnHeads reads the sizes of heads that per_layer_config gives by the number of the layer, and whether there is one.
func (j *JSON) OwnHeads(c *Config) bool {
	const key = "per_layer_config"
	var own map[string]map[string]any
	j.Decode(key, &own)
	for number, sizes := range own {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= c.NumLayers {
			j.fail(fmt.Errorf("%s is of a layer %q, and there are %d", key, number, c.NumLayers))
			return true
		}
		fields := map[string]*int{"head_dim": &c.Layers[i].HeadDim, "num_key_value_heads": &c.Layers[i].KVHeads}
		for name, value := range sizes {
			size, isNumber := value.(float64)
			if fields[name] == nil || !isNumber || size < 1 || size != math.Trunc(size) || size > math.MaxInt32 {
				j.fail(Unsupported("head_dim and num_key_value_heads are", "%s %v in %s", name, value, key))
				return true
			}
			*fields[name] = int(size)
		}
	}
	return own != nil
}

// sizesOfLayers reads sizeKeys into the layers whose sizes are not the Config's.
func (m *Metadata) sizesOfLayers(c *Config) error {
	if !m.ownSizes {
		return nil
	}
	kvHeads, err := m.IntsOfLayers(c, kvHeadsKey, c.NumKVHeads)
	if err != nil {
		return err
	}
	widths, err := m.IntsOfLayers(c, widthKey, c.IntermediateSize)
	if err != nil {
		return err
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		if kvHeads[i] != c.NumKVHeads {
			l.KVHeads = kvHeads[i]
		}
		if widths[i] != c.IntermediateSize {
			l.Intermediate = widths[i]
		}
	}
	return nil
}

// IntsOfLayers reads a key of each layer: a list, or one number for all.
func (m *Metadata) IntsOfLayers(c *Config, key string, absent int) ([]int, error) {
	list, ok := m.File.Ints(m.prefix + key)
	if !ok {
		return slices.Repeat([]int{m.Int(key, absent)}, c.NumLayers), nil
	}
	if len(list) != c.NumLayers {
		return nil, fmt.Errorf("metadata key %q has %s for %s", m.prefix+key, plural.Count(len(list), "entry"),
			plural.Count(c.NumLayers, "layer"))
	}
	ints := make([]int, len(list))
	for i, x := range list {
		if x < 0 || x > math.MaxInt32 {
			return nil, fmt.Errorf("metadata key %q is %d for layer %d", m.prefix+key, x, i)
		}
		ints[i] = int(x)
	}
	return ints, nil
}

// SlidingHeads reads the heads of layers with a window, whose size becomes Config.HeadDim, and their rotary embedding.
// It returns the size of heads of the other layers.
func (m *Metadata) SlidingHeads(c *Config, theta float64) (full int) {
	full = c.HeadDim
	c.HeadDim = m.Int("attention.key_length_swa", full)
	for _, key := range []string{"attention.value_length_swa", "rope.dimension_count_swa"} {
		if n := m.Int(key, c.HeadDim); n != c.HeadDim {
			m.fail("%w", Unsupported("", "%s %d for keys of %d", key, n, c.HeadDim))
		}
	}
	c.Ropes = append(c.Ropes, Rope{Theta: m.Float("rope.freq_base_swa", theta)})
	return full
}

// ShareKeys makes the last n layers attend to the keys and values of the last layer before them that has the same
// window. Their own in a checkpoint have no use.
func (c *Config) ShareKeys(n int) error {
	first := c.NumLayers - n
	if n < 0 || first < 0 {
		return fmt.Errorf("%d of %d layers share keys and values", n, c.NumLayers)
	}
	for i := first; i < c.NumLayers; i++ {
		l := &c.Layers[i]
		for l.KVFrom = first - 1; l.KVFrom >= 0 && c.Layers[l.KVFrom].Window != l.Window; {
			l.KVFrom--
		}
		if l.KVFrom < 0 {
			return fmt.Errorf("%d layers share keys and values, and no layer before has the type of layer %d", n, i)
		}
		for _, part := range []string{"k_proj", "v_proj", "k_norm", "v_norm"} {
			c.Stored.Unused = append(c.Stored.Unused, fmt.Sprintf("model.layers.%d.self_attn.%s.", i, part))
		}
	}
	return nil
}

// finish makes whole and validates what was read.
func (c *Config) finish() error {
	if err := sizeRopes(c); err != nil {
		return err
	}
	return checkConfig(c)
}

// sizeRopes sets the size of the heads that a rotary embedding turns, if it is not Config.HeadDim. The size is the same
// in all layers of a rotary embedding.
func sizeRopes(c *Config) error {
	sizes := make([]int, len(c.Ropes)) // sizes of heads, by rotary embedding
	for i, l := range c.Layers {
		if l.Rope < 0 || l.Rope >= len(sizes) {
			continue
		}
		dim := c.OfLayer(i).HeadDim
		if size := sizes[l.Rope]; size != 0 && size != dim {
			return Unsupported("", "layer %d with heads of %d beside others of its type with heads of %d", i, dim,
				size)
		}
		sizes[l.Rope] = dim
	}
	for i := range c.Ropes {
		if r := &c.Ropes[i]; r.Dims == 0 && sizes[i] != c.HeadDim {
			r.Dims = sizes[i]
		}
	}
	return nil
}

// Work returns the number of weights that a token is multiplied with: in the layers, and for its logits. Only the
// chosen experts of a layer count.
func (c *Config) Work() (layers, logits int64) {
	return int64(math.Round(c.Read(1))), int64(c.VocabSize) * int64(c.HiddenSize)
}

// Read returns the mean number of weights of the layers' matrices that a step of that many tokens reads, if the tokens
// choose experts evenly.
func (c *Config) Read(tokens float64) float64 {
	total := float64(c.LayerEmbedding*c.NumLayers) * float64(c.HiddenSize)
	for i := range c.Layers {
		experts := c.Layers[i].Experts
		for _, t := range layerTensors(c, i) {
			if len(t.Shape) != 2 || t.Part == ConvTaps {
				continue
			}
			n := float64(t.Shape[0]) * float64(t.Shape[1])
			if t.Experts > 0 { // one of Count, each of the same size
				n *= 1 - math.Pow(1-float64(experts.Chosen)/float64(experts.Count), tokens)
			}
			total += n
		}
	}
	return total
}
