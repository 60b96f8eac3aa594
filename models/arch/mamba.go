package arch

import "fmt"

// StateSpace is the sizes of a Mamba-2 layer: see package recurrence. The zero value is none.
type StateSpace struct {
	Heads, HeadDim   int
	Groups, StateDim int     // the heads of a group write to their states and read them in the same way
	MinStep, MaxStep float64 // bounds of a token's steps; a MaxStep of 0 is none

	TapsBias, Bias bool // biases of the convolution, and of the matrices before and after it
}

// Inner is how many numbers all heads have.
func (s StateSpace) Inner() int { return s.Heads * s.HeadDim }

// Channels is how many numbers are convolved: the numbers of heads and, for each group, the numbers that write to
// states and that read them.
func (s StateSpace) Channels() int { return s.Inner() + 2*s.Groups*s.StateDim }

// Inputs is how many numbers a token has for the layer.
func (s StateSpace) Inputs() int { return s.Inner() + s.Channels() + s.Heads }

// Past is how many numbers of a sequence the convolution keeps.
func (s StateSpace) Past(taps int) int { return (taps - 1) * s.Channels() }

// state is how many numbers of a sequence are kept.
func (s StateSpace) state(taps int) int { return s.Past(taps) + s.Inner()*s.StateDim }

func (s StateSpace) check(layer int) error {
	for _, n := range []int{s.Heads, s.HeadDim, s.Groups, s.StateDim} {
		if n < 1 || n > maxStateSpace {
			return fmt.Errorf("the Mamba-2 layer %d has %d heads of %d and %d groups with states of %d; each must be "+
				"between 1 and %d", layer, s.Heads, s.HeadDim, s.Groups, s.StateDim, maxStateSpace)
		}
	}
	switch {
	case s.Heads%s.Groups != 0:
		return fmt.Errorf("the Mamba-2 layer %d has %d heads, no multiple of its %d groups", layer, s.Heads, s.Groups)
	case s.Inputs() > maxDimension:
		return fmt.Errorf("the Mamba-2 layer %d has %d numbers a token, more than %d", layer, s.Inputs(), maxDimension)
	case !(s.MinStep >= 0 && s.MaxStep >= 0) || s.MaxStep > 0 && s.MaxStep < s.MinStep:
		return fmt.Errorf("steps of the Mamba-2 layer %d are between %g and %g", layer, s.MinStep, s.MaxStep)
	}
	return nil
}

// maxStateSpace bounds each size of a Mamba-2 layer: published ones have up to 256 heads, and states of 256.
const maxStateSpace = 1024
