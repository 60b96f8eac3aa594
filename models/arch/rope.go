package arch

import (
	"fmt"
	"math"

	"github.com/quire/quire/internal/plural"
)

// Rope is a rotary embedding: how queries and keys are turned by their positions.
type Rope struct {
	Theta   float64
	Dims    int          // numbers of each head, its first ones, that are turned; 0: all
	Share   float64      // share of the pairs of these numbers, the first ones, that is turned; the others stay; 0: all
	Scaling *RopeScaling // nil: frequencies used as they are
}

// RopeDims is the numbers of each head that one of Ropes turns.
func (c *Config) RopeDims(number int) int {
	if dims := c.Ropes[number].Dims; dims > 0 {
		return dims
	}
	return c.HeadDim
}

// Values of Layer.Rope. A model has one rotary embedding, or one for layers that attend to all and one for layers with
// a window, in decoders with Defaults.LocalTheta.
const (
	NoRope    = -1
	FullRope  = 0
	LocalRope = 1
)

// RopeScaling holds the parameters of a rotary embedding for longer contexts, under the names and formulas of
// transformers' modeling_rope_utils. Config.RopeFrequencies computes with them.
type RopeScaling struct {
	Type   string  // "linear", "llama3", "yarn" or "longrope"
	Factor float64 // >= 1

	LowFreqFactor, HighFreqFactor float64 // llama3

	BetaFast, BetaSlow float64 // yarn
	Truncate           bool    // yarn: correction range cut to whole dimensions
	AttentionFactor    float64 // yarn, longrope: cos and sin are multiplied by it; 1 for the other types
	ScaleAllDims       float64 // mscale_all_dim: see [RopeScaling.ScoreScale]

	// longrope: the divisors of frequencies. A model that is run with sequences longer than OriginalMaxPositions
	// (Config.Context) uses the long ones, except for sequences that are not longer: see [Config.ShortRope].
	Divisors *Divisors

	OriginalMaxPositions int // llama3, yarn, longrope: context length before the extension, tokens
}

// Yarn is the scaling of type yarn, with transformers' defaults for what a config does not set.
func Yarn(factor float64, original int, truncate bool) *RopeScaling {
	return &RopeScaling{Type: "yarn", Factor: factor, BetaFast: 32, BetaSlow: 1, Truncate: truncate,
		AttentionFactor: yarnAttentionFactor(factor, 0, 0), OriginalMaxPositions: original}
}

// Divisors are the divisors of longrope, one for each frequency.
type Divisors struct{ Short, Long []float32 }

// LongRope reports whether the long divisors of a longrope count, given Config.Context.
func (c *Config) LongRope() bool {
	longest := c.Context
	if longest == 0 {
		longest = c.MaxPositions
	}
	for _, r := range c.Ropes {
		if r.divisors() != nil && longest > r.Scaling.OriginalMaxPositions {
			return true
		}
	}
	return false
}

// ShortRope is the longest sequence that uses the short divisors of a longrope, if the long ones are in use; 0 if not.
func (c Config) ShortRope() int {
	if !c.LongRope() {
		return 0
	}
	short := math.MaxInt
	for _, r := range c.Ropes {
		if r.divisors() != nil {
			short = min(short, r.Scaling.OriginalMaxPositions)
		}
	}
	return short
}

// WithShortRope is the config as it is for sequences no longer than [Config.ShortRope].
func (c Config) WithShortRope() Config {
	c.Context = 1
	return c
}

func (r Rope) check(headDim int) error {
	switch {
	case r.Dims < 0 || r.Dims > headDim:
		return fmt.Errorf("the rotary embedding turns %d numbers of heads of %d", r.Dims, headDim)
	case r.Dims == 0 && headDim%2 != 0:
		return fmt.Errorf("head_dim is %d; the rotary embedding needs an even one", headDim)
	case r.Dims%2 != 0:
		return fmt.Errorf("the rotary embedding turns %d numbers of a head; it needs an even number", r.Dims)
	case !(r.Share >= 0 && r.Share <= 1):
		return fmt.Errorf("the rotary embedding turns %g of a head; it must be between 0 and 1", r.Share)
	case !(r.Theta > 1 && r.Theta < 1e30):
		return fmt.Errorf("rope_theta is %g; it must be above 1", r.Theta)
	}
	if d := r.divisors(); d != nil {
		dims := r.Dims
		if dims == 0 {
			dims = headDim
		}
		for _, list := range [][]float32{d.Short, d.Long} {
			if len(list) != dims/2 {
				return fmt.Errorf("longrope has %s, and the rotary embedding %s",
					plural.Count(len(list), "divisor"), plural.Count(dims/2, "frequency"))
			}
			for _, x := range list {
				if !(x > 0 && x < 1e6) {
					return fmt.Errorf("a divisor of longrope is %g; it must be above 0", x)
				}
			}
		}
	}
	return r.Scaling.check()
}

func (r Rope) divisors() *Divisors {
	if r.Scaling == nil {
		return nil
	}
	return r.Scaling.Divisors
}

func (s *RopeScaling) check() error {
	if s == nil {
		return nil
	}
	switch {
	case !(s.Factor >= 1 && s.Factor <= 1e6):
		return fmt.Errorf("the rope scaling factor is %g; it must be at least 1", s.Factor)
	case s.Type != "linear" && (s.OriginalMaxPositions < 1 || s.OriginalMaxPositions > maxContext):
		return fmt.Errorf("original_max_position_embeddings is %d", s.OriginalMaxPositions)
	case s.Type == "llama3" && !(s.LowFreqFactor > 0 && s.HighFreqFactor > s.LowFreqFactor):
		return fmt.Errorf("low_freq_factor %g and high_freq_factor %g must be positive and ascending", s.LowFreqFactor,
			s.HighFreqFactor)
	case s.Type == "longrope" && (s.Divisors == nil || !(s.AttentionFactor > 0 && s.AttentionFactor < 1e6)):
		return fmt.Errorf("longrope has an attention factor of %g; it must be above 0", s.AttentionFactor)
	case s.Type == "yarn" && !(s.BetaSlow > 0 && s.BetaFast > 0 && s.AttentionFactor > 0 && s.AttentionFactor < 1e6):
		return fmt.Errorf("beta_fast %g, beta_slow %g and attention_factor %g must be positive", s.BetaFast, s.BetaSlow,
			s.AttentionFactor)
	}
	return nil
}

// RopeFrequencies returns the inverse frequencies of one of Ropes, half of RopeDims radians per position, scaling
// applied, and the factor that cos and sin are multiplied by. The steps are transformers' (modeling_rope_utils), each
// rounded to float32 as there: an error of one last bit is an angle of 1e-3 at position 10,000.
func (c *Config) RopeFrequencies(number int) (inv []float32, attentionFactor float64) {
	rope := c.Ropes[number]
	dims := c.RopeDims(number)
	half := dims / 2
	power := make([]float32, half) // theta^(2i/d)
	inv = make([]float32, half)
	for i := range inv {
		power[i] = float32(math.Pow(float64(float32(rope.Theta)), float64(float32(2*i)/float32(dims))))
		inv[i] = 1 / power[i]
	}
	if rope.Share > 0 {
		clear(inv[int(rope.Share*float64(dims)/2):])
	}
	s := rope.Scaling
	if s == nil {
		return inv, 1
	}
	factor := float32(s.Factor)
	switch s.Type {
	case "linear":
		for i := range inv {
			inv[i] /= factor
		}
	case "llama3":
		s.scaleLlama3(inv)
	case "longrope":
		divisors := s.Divisors.Short
		if c.LongRope() {
			divisors = s.Divisors.Long
		}
		for i := range inv {
			inv[i] = 1 / float32(divisors[i]*power[i])
		}
	case "yarn":
		low, high := s.correctionRange(dims, rope.Theta)
		for i := range inv {
			ramp := min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
			keep := 1 - ramp // share of the unscaled frequency
			interpolated := 1 / (factor * power[i])
			inv[i] = float32(interpolated*(1-keep)) + float32(inv[i]*keep)
		}
	}
	return inv, s.AttentionFactor
}

// scaleLlama3 divides the frequencies of long wavelengths by the factor, keeps the frequencies of short ones and blends
// in between.
func (s *RopeScaling) scaleLlama3(inv []float32) {
	factor := float32(s.Factor)
	context := float64(s.OriginalMaxPositions)
	longest, shortest := float32(context/s.LowFreqFactor), float32(context/s.HighFreqFactor)
	for i, f := range inv {
		wavelen := float32(2*math.Pi) / f
		switch {
		case wavelen > longest:
			inv[i] = f / factor
		case wavelen >= shortest:
			smooth := (float32(context)/wavelen - float32(s.LowFreqFactor)) / float32(s.HighFreqFactor-s.LowFreqFactor)
			inv[i] = float32((1-smooth)*f/factor) + float32(smooth*f)
		}
	}
}

// correctionRange gives the dimensions between which yarn goes from kept to interpolated frequencies.
func (s *RopeScaling) correctionRange(headDim int, theta float64) (low, high float64) {
	dimension := func(rotations float64) float64 {
		return float64(headDim) * math.Log(float64(s.OriginalMaxPositions)/(rotations*2*math.Pi)) / (2 * math.Log(
			theta))
	}
	low, high = dimension(s.BetaFast), dimension(s.BetaSlow)
	if s.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(headDim-1))
	if low == high {
		high += 0.001 // transformers' guard against a division by zero
	}
	return low, high
}

// ScoreScale is what DeepSeek's models multiply the scale of scores by if a rotary embedding has an mscale_all_dim.
func (s *RopeScaling) ScoreScale() float64 {
	if s == nil || s.Factor <= 1 || s.ScaleAllDims == 0 {
		return 1
	}
	return math.Pow(0.1*s.ScaleAllDims*math.Log(s.Factor)+1, 2)
}

// longAttentionFactor is transformers' default of longrope.
func longAttentionFactor(factor float64, original int) float64 {
	if factor <= 1 {
		return 1
	}
	return math.Sqrt(1 + math.Log(factor)/math.Log(float64(original)))
}

// yarnAttentionFactor is transformers' default if a config does not set attention_factor; zero mscale means not set.
func yarnAttentionFactor(factor, mscale, mscaleAllDim float64) float64 {
	scale := func(m float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(factor) + 1
	}
	if mscale != 0 && mscaleAllDim != 0 {
		return scale(mscale) / scale(mscaleAllDim)
	}
	return scale(1)
}
