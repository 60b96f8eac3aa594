package parameter

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
