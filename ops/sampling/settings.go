package sampling

import (
	"hash/fnv"

	"github.com/quire/quire/data/parameter"
)

// Settings are the sampling parameters of one request, as users write them.
type Settings = parameter.Sampling

// RangeError reports which field of a [Settings] is out of its range.
type RangeError = parameter.RangeError

// DefaultSettings samples from the model's own distribution: temperature 1 and no filters.
func DefaultSettings() Settings { return parameter.Defaults().Sampling }

// HashID maps a request's id to the number for [RequestKey]: the 64-bit FNV-1a hash of its bytes. It is the same on
// every machine and in every release.
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
// with the low 32 bits of seed and requestID in word 0. Generations of a request and requests with the same seed get
// unrelated keys, and a key depends on nothing else, so n clones of a prompt and n separate requests use the same
// random numbers.
func RequestKey(seed, requestID uint64, generation uint32) [2]uint32 {
	k := Threefry(words(seed), words(requestID))
	return Threefry(k, [2]uint32{generation, 0})
}

func words(x uint64) [2]uint32 {
	return [2]uint32{uint32(x), uint32(x >> 32)}
}
