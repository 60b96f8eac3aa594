package reuse

import "encoding/binary"

// filter is a Bloom filter of keys, twenty bits for each. It reports about one in 15,000 keys that it does not have: a
// job asks for each of its keys in all of its parts, and each wrong report may read the keys of a part.
type filter []uint64

const bitsOfKey, probes = 20, 14

func newFilter(keys int) filter { return make(filter, (bitsOfKey*keys+63)/64) }

// each calls do with the places of a key, which is random bits, until do returns false.
func (f filter) each(key []byte, do func(word int, bit uint64) bool) bool {
	a, b := binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:])|1
	for range probes {
		place := a % uint64(64*len(f))
		if !do(int(place/64), 1<<(place%64)) {
			return false
		}
		a += b
	}
	return true
}

func (f filter) add(key []byte) {
	f.each(key, func(word int, bit uint64) bool {
		f[word] |= bit
		return true
	})
}

// mayHave reports whether a key may have been added.
func (f filter) mayHave(key []byte) bool {
	return len(f) > 0 && f.each(key, func(word int, bit uint64) bool { return f[word]&bit != 0 })
}
