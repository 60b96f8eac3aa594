package parameter

import (
	"fmt"
	"math"
	"slices"
)

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

// ofDRY are the entries of the table for DRY, as in llama.cpp.
var ofDRY = []Parameter{
	{Name: "dry_multiplier", From: LlamaCpp, Flag: "dry-multiplier", Placeholder: "X",
		Note: "subtract X * dry_base ^ (n - dry_allowed_length) from the logit of a token that would repeat what " +
			"followed the same n tokens earlier; 0 is off",
		Device: "f32",
		slot:   field(0, func(s *Set) *float64 { return &s.DRYMultiplier }), limits: limits{max: math.MaxFloat32,
			text: "a finite float32 number >= 0 (0 is off)"}},
	{Name: "dry_base", From: LlamaCpp, Flag: "dry-base", Placeholder: "X",
		Note: "base of dry_multiplier's power", Device: "f32",
		slot: field(1.75, func(s *Set) *float64 { return &s.DRYBase }), limits: limits{min: 1, max: math.MaxFloat32,
			text: "a finite float32 number >= 1"}},
	{Name: "dry_allowed_length", From: LlamaCpp, Flag: "dry-allowed-length", Placeholder: "TOKENS",
		Note: "with dry_multiplier, the fewest repeated tokens that count", Device: "i32",
		slot: field(2, func(s *Set) *int { return &s.DRYAllowedLength }), limits: limits{max: math.MaxInt32,
			text: "in 0 <= {} <= 2147483647"}},
	{Name: "dry_penalty_last_n", From: LlamaCpp, Flag: "dry-penalty-last-n", Placeholder: "TOKENS",
		Note:   "with dry_multiplier, look at so many tokens of prompt and completion; -1 looks at all, 0 at none",
		Device: "i32",
		slot:   field(64, func(s *Set) *int { return &s.DRYPenaltyLastN }), limits: limits{min: -1, max: MaxDRYLastN,
			text: fmt.Sprintf("in -1 <= {} <= %d (-1 is all)", MaxDRYLastN)}},
	{Name: "dry_sequence_breakers", From: LlamaCpp, Flag: "dry-sequence-breakers", Placeholder: "TEXT", strict: true,
		Note:   "with dry_multiplier, no repetition goes beyond this text; repeatable",
		slot:   field([]string{"\n", ":", "\"", "*"}, func(s *Set) *[]string { return &s.DRYSequenceBreakers }),
		limits: limits{text: fmt.Sprintf("UTF-8, 1 to %d bytes each", MaxDRYBreaker)},
		allowed: func(s *Set) string {
			if slices.ContainsFunc(s.DRYSequenceBreakers, func(t string) bool { return len(t) > MaxDRYBreaker }) {
				return fmt.Sprintf("texts of at most %d bytes", MaxDRYBreaker)
			}
			return ""
		}},
}
