package sampling

import (
	"fmt"
	"hash/fnv"
	"math"
)

// Settings are the sampling parameters of one request, as users write them.
type Settings struct {
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
}

// DefaultSettings samples from the model's own distribution: temperature 1 and no filters.
func DefaultSettings() Settings {
	return Settings{Temperature: 1, TopP: 1}
}

// RangeError says which field of a [Settings] is out of its range.
type RangeError struct {
	// Field is the parameter as users write it, such as "top_p".
	Field string
	// Value is the refused value.
	Value float64
	// Allowed describes the range, such as "0 < top_p <= 1".
	Allowed string
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s is %v, but must be %s", e.Field, e.Value, e.Allowed)
}

// Validate returns a [*RangeError] for the first field that is out of range, or nil.
func (s Settings) Validate() error {
	// The comparisons are written so that NaN fails them.
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= math.MaxFloat32):
		return &RangeError{Field: "temperature", Value: s.Temperature,
			Allowed: "a finite float32 number >= 0 (0 is greedy)"}
	case !(s.TopP > 0 && s.TopP <= 1):
		return &RangeError{Field: "top_p", Value: s.TopP, Allowed: "in 0 < top_p <= 1 (1 is off)"}
	case !(s.MinP >= 0 && s.MinP <= 1):
		return &RangeError{Field: "min_p", Value: s.MinP, Allowed: "in 0 <= min_p <= 1 (0 is off)"}
	case s.TopK < 0 || int64(s.TopK) > math.MaxInt32:
		return &RangeError{Field: "top_k", Value: float64(s.TopK), Allowed: "in 0 <= top_k <= 2147483647 (0 is off)"}
	}
	return nil
}

// Greedy reports whether the settings choose the most likely token instead of sampling.
func (s Settings) Greedy() bool {
	return float32(s.Temperature) < smallestTemperature
}

// HashID maps a request's id to the number that [RequestKey] takes: the 64-bit FNV-1a hash of its bytes. It is the same
// on every machine and in every release.
func HashID(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// RequestKey derives the key of one generation of one request:
//
//	k   = Threefry(key = seed,  counter = requestID)
//	key = Threefry(key = k,     counter = (generation, 0))
//
// with the low 32 bits of seed and requestID in word 0. Generations of a request and requests of a seed get unrelated
// keys, and a key depends on nothing else, so n clones of a prompt and n separate requests draw the same numbers.
func RequestKey(seed, requestID uint64, generation uint32) [2]uint32 {
	k := Threefry(words(seed), words(requestID))
	return Threefry(k, [2]uint32{generation, 0})
}

func words(x uint64) [2]uint32 {
	return [2]uint32{uint32(x), uint32(x >> 32)}
}
