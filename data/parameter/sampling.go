package parameter

// SmallestTemperature is the smallest normal float32. A device may flush a lower temperature to zero, so rows below
// it are greedy.
const SmallestTemperature = 0x1p-126

// Sampling are the parameters by which the device samples tokens.
type Sampling struct {
	// Temperature divides the logits; 0 is greedy decoding. Range: finite, >= 0.
	Temperature float64
	// TopP keeps the smallest set of most likely tokens with at least this much probability; 1 is off. Range: (0, 1].
	TopP float64
	// MinP drops tokens less likely than MinP times the most likely one; 0 is off. Range: [0, 1].
	MinP float64
	// TopK keeps the TopK most likely tokens; 0 is off. Range: >= 0.
	TopK int
	// Seed is the seed of the request's random numbers. Any value is valid.
	Seed uint64
	// RepetitionPenalty divides the positive logits of tokens that occur in the prompt or the completion, and
	// multiplies their other logits; 1, or 0 in Go, is off. Range: SmallestPenalty to 1/SmallestPenalty.
	RepetitionPenalty float64
	// FrequencyPenalty is subtracted from a token's logit for each time that it occurs in the completion. Range: [-2,
	// 2].
	FrequencyPenalty float64
	// PresencePenalty is subtracted from the logits of tokens that occur in the completion. Range: [-2, 2].
	PresencePenalty float64
	// NoRepeatNgramSize forbids tokens that would end a sequence of so many tokens that already occurs in prompt and
	// completion; 0 is off. Range: >= 0.
	NoRepeatNgramSize int
	// TypicalP keeps the most typical tokens, whose surprise is nearest to the mean, with at least this much
	// probability; 1, or 0 in Go, is off. Range: (0, 1].
	TypicalP float64
	// TopNSigma keeps logits that are at most TopNSigma standard deviations of all logits below the largest; 0 is
	// off. Range: >= 0.
	TopNSigma float64
	// XTCProbability is the probability of dropping all tokens whose probability is at least XTCThreshold, except the
	// least likely of them; 0 is off. Range of both: [0, 1].
	XTCProbability, XTCThreshold float64
	// DRYMultiplier * DRYBase^(repeated tokens beyond DRYAllowedLength) is subtracted from the logit of a token that
	// would continue a repetition; 0 is off. DRYPenaltyLastN is how many of the last tokens are searched, -1 for all
	// and 0 for none. Range: >= 0; the base >= 1, 0 in Go is 1.75; the last -1 to MaxDRYLastN.
	DRYMultiplier, DRYBase            float64
	DRYAllowedLength, DRYPenaltyLastN int
	// MinTokens is the number of tokens before which a completion cannot end: until then, tokens that end it are
	// forbidden and stop texts are ignored. Range: >= 0.
	MinTokens int
}

// Greedy reports whether the parameters choose the most likely token instead of sampling.
func (s Sampling) Greedy() bool { return float32(s.Temperature) < SmallestTemperature }

// Repetition returns the repetition penalty, 1 if there is none.
func (s Sampling) Repetition() float64 {
	if s.RepetitionPenalty == 0 {
		return 1
	}
	return s.RepetitionPenalty
}

// Penalized reports whether any penalty applies.
func (s Sampling) Penalized() bool {
	return float32(s.Repetition()) != 1 || s.FrequencyPenalty != 0 || s.PresencePenalty != 0
}

func (s Sampling) typicalP() float64 {
	if s.TypicalP == 0 {
		return 1
	}
	return s.TypicalP
}

// TypicalMass returns TypicalP if it is on, else 0.
func (s Sampling) TypicalMass() float64 {
	if float32(s.TypicalP) == 1 {
		return 0
	}
	return s.TypicalP
}

// Filtered reports whether there are filters other than top-k, top-p and min-p.
func (s Sampling) Filtered() bool {
	return s.TypicalMass() > 0 || s.TopNSigma > 0 || s.XTCProbability > 0
}

// MaxDRYLastN bounds the number of tokens that DRY looks at. MaxDRYBreaker bounds the bytes of a text at which
// repetitions end; llama.cpp truncates it there.
const (
	MaxDRYLastN   = 8192
	MaxDRYBreaker = 40
)

// DRYPower returns DRYBase, or its default if it is 0.
func (s Sampling) DRYPower() float64 {
	if s.DRYBase == 0 {
		return 1.75
	}
	return s.DRYBase
}

// HasDRY reports whether DRY penalizes repetitions.
func (s Sampling) HasDRY() bool { return s.DRYMultiplier > 0 && s.DRYPenaltyLastN != 0 }
