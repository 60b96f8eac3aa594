package arch

import "fmt"

// DeltaNet is the sizes of a gated delta net: see package recurrence. The zero value is none.
type DeltaNet struct {
	KeyHeads, ValueHeads int // each key head serves the same number of value heads
	KeyDim, ValueDim     int
	// Tiled reports whether the columns of DeltaOut have the first value head of each key head, then the second value
	// head of each, as in GGUF files. Otherwise the value heads of a key head are adjacent, as they are everywhere
	// else.
	Tiled bool `json:",omitempty"`
}

// stored returns the position of a value head in a tiled net.
func (d DeltaNet) stored(head int) int {
	perKey := d.ValueHeads / d.KeyHeads
	return head%perKey*d.KeyHeads + head/perKey
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
