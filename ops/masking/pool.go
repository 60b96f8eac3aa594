package masking

import (
	"hash/maphash"
	"slices"

	"github.com/quire/quire/ops/tree"
)

// noMask is the number of none.
const noMask = -1

// pool is the masks of the states of all machines, equal ones once, up to a number of them: then all are forgotten,
// and found again as they are wanted.
type pool struct {
	most    int
	filling int // how often it was emptied, from 1
	masks   []mask
	byHash  map[uint64]int32 // by the hash of their words
}

// mask is the tokens that may follow.
type mask struct {
	words   []uint32
	hash    uint64
	filling int // of the arena, in which it has a number on the device
	number  int32
}

// hashes is the seed of the hashes of masks.
var hashes = maphash.MakeSeed()

func newPool(most int) pool { return pool{most: most, filling: 1, byHash: map[uint64]int32{}} }

// number returns the number of a mask, a new one if necessary. It does not keep words.
func (p *pool) number(words []uint32) int32 {
	hash := maphash.Bytes(hashes, tree.Bytes(words))
	n, ok := p.byHash[hash]
	if ok && slices.Equal(p.masks[n].words, words) {
		return n
	}
	if len(p.masks) == p.most {
		clear(p.masks)
		clear(p.byHash)
		p.masks = p.masks[:0]
		p.filling++
	}
	n = int32(len(p.masks))
	p.masks = append(p.masks, mask{words: slices.Clone(words), hash: hash})
	p.byHash[hash] = n
	return n
}
