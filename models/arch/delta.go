package arch

import "fmt"

// DeltaNet is the sizes of a gated delta net: see package recurrence. The zero value is none.
type DeltaNet struct {
	KeyHeads, ValueHeads int // each key head is that of as many value heads
	KeyDim, ValueDim     int
	// Tiled says that columns of DeltaOut lie by value heads of which the first ones are of one key head each, then the
	// second ones, as in GGUF files. Otherwise those of a key head lie side by side, as they do everywhere else.
	Tiled bool `json:",omitempty"`
}

// stored is where a tiled net has a value head.
func (d DeltaNet) stored(head int) int {
	of := d.ValueHeads / d.KeyHeads
	return head%of*d.KeyHeads + head/of
}

// StoredRow says where a checkpoint whose net is tiled has the rows of a tensor; nil where they are in their places.
func (c *Config) StoredRow(t Tensor) func(row int) int {
	d, first, each := c.Layers[t.Layer].Delta, 0, 1
	if !d.Tiled {
		return nil
	}
	switch t.Part {
	case DeltaV, DeltaGate:
		each = d.ValueDim
	case DeltaLearn, DeltaStep, DeltaDecay, DeltaBias:
	case ConvTaps:
		first, each = d.Channels()-d.Values(), d.ValueDim
	default:
		return nil
	}
	return func(row int) int {
		if row < first {
			return row
		}
		return first + d.stored((row-first)/each)*each + (row-first)%each
	}
}

// Values is how many numbers all value heads have.
func (d DeltaNet) Values() int { return d.ValueHeads * d.ValueDim }

// Channels is how many numbers queries, keys and values have.
func (d DeltaNet) Channels() int { return 2*d.KeyHeads*d.KeyDim + d.Values() }

// Inputs is how many numbers a token has for the net.
func (d DeltaNet) Inputs() int { return d.Channels() + d.Values() + 2*d.ValueHeads }

// state is how many numbers of a sequence are kept.
func (d DeltaNet) state(taps int) int {
	return (taps-1)*d.Channels() + d.ValueHeads*d.KeyDim*d.ValueDim
}

func (d DeltaNet) check(layer int) error {
	for _, n := range []int{d.KeyHeads, d.ValueHeads, d.KeyDim, d.ValueDim} {
		if n < 1 || n > maxDelta {
			return fmt.Errorf("the delta net of layer %d has %d key heads of %d and %d value heads of %d; each must "+
				"be between 1 and %d", layer, d.KeyHeads, d.KeyDim, d.ValueHeads, d.ValueDim, maxDelta)
		}
	}
	if d.ValueHeads%d.KeyHeads != 0 {
		return fmt.Errorf("the delta net of layer %d has %d value heads, no multiple of its %d key heads", layer,
			d.ValueHeads, d.KeyHeads)
	}
	return nil
}

// maxDelta bounds each size of a delta net: published ones have up to 64 heads of 128.
const maxDelta = 512

// deltaTensors are those of a layer's gated delta net. Each device has all of it.
func (c *Config) deltaTensors(number int, names Names) (list []Tensor) {
	l := c.Layers[number]
	add := func(part Part, array, suffix string, shape ...int) {
		list = append(list, Tensor{Name: fmt.Sprintf("model.layers.%d.%s%s", number, names[part].HF, suffix),
			GGUF: fmt.Sprintf("blk.%d.%s%s", number, names[part].GGUF, suffix), Part: part, Shape: shape,
			Array: fmt.Sprintf("layers.%d.%s", number, array)})
	}
	const in = "delta_in.weight"
	add(DeltaQ, in, ".weight", l.Delta.KeyHeads*l.Delta.KeyDim, c.HiddenSize)
	add(DeltaK, in, ".weight", l.Delta.KeyHeads*l.Delta.KeyDim, c.HiddenSize)
	add(DeltaV, in, ".weight", l.Delta.Values(), c.HiddenSize)
	add(DeltaGate, in, ".weight", l.Delta.Values(), c.HiddenSize)
	add(DeltaLearn, in, ".weight", l.Delta.ValueHeads, c.HiddenSize)
	add(DeltaStep, in, ".weight", l.Delta.ValueHeads, c.HiddenSize)
	add(ConvTaps, string(ConvTaps)+".weight", ".weight", l.Delta.Channels(), l.Taps)
	add(DeltaDecay, string(DeltaDecay), "", l.Delta.ValueHeads)
	add(DeltaBias, string(DeltaBias), "", l.Delta.ValueHeads)
	add(DeltaNorm, string(DeltaNorm), ".weight", l.Delta.ValueDim)
	add(DeltaOut, string(DeltaOut)+".weight", ".weight", c.HiddenSize, l.Delta.Values())
	return list
}
