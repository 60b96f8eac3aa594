package masking_test

import (
	"math/bits"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
)

// Which tokens rows may draw, and that which they must, are those of the bits of their masks.
func TestTokensOfMasks(t *testing.T) {
	const states, masks, words, rows = 5, 4, 3, 6
	exec, err := NewExec(testenv.XLA(t), func(info, words, at, tokens *Node) []*Node {
		m := masking.Tables{Info: info, Bits: words}
		return []*Node{ConvertDType(m.Allow(at, tokens), dtypes.Int32), m.Only(at)}
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.Just(uint32(0)), rapid.Just(uint32(0)), rapid.Uint32(),
			rapid.Map(rapid.IntRange(0, 31), func(i int) uint32 { return 1 << i }))
		all := make([][]uint32, masks)
		for i := range all {
			all[i] = rapid.SliceOfN(word, words, words).Draw(t, "mask")
		}
		info := rapid.SliceOfN(rapid.Int32Range(0, 2*masks+1), states, states).Draw(t, "info")
		at := make([][]int32, rows)
		for i := range at {
			at[i] = rapid.SliceOfN(rapid.Int32Range(-1, states-1), stopping.Lanes, stopping.Lanes).Draw(t, "states")
		}
		tokens := rapid.SliceOfN(rapid.Int32Range(0, 32*words-1), rows, rows).Draw(t, "tokens")
		out, err := exec.Exec(info, all, at, tokens)
		if err != nil {
			t.Fatal(err)
		}
		allowed, only := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1])
		for i, lanes := range at {
			has, left := false, []uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
			for _, state := range lanes {
				if state < 0 || info[state]/2 == 0 {
					continue
				}
				has = true
				for k, word := range all[info[state]/2-1] {
					left[k] &= word
				}
			}
			count, want := 0, int32(-1)
			for k, word := range left {
				if count += bits.OnesCount32(word); word != 0 {
					want = int32(32*k + bits.TrailingZeros32(word))
				}
			}
			if !has || count != 1 {
				want = -1
			} else {
				found++
			}
			if only[i] != want {
				t.Fatalf("row %d in states %v must draw %d, want %d", i, lanes, only[i], want)
			}
			if may := left[tokens[i]/32]>>(tokens[i]%32)&1 == 1; may != (allowed[i] == 1) {
				t.Fatalf("row %d in states %v may draw %d: %v, want %v", i, lanes, tokens[i], !may, may)
			}
		}
	})
	if found == 0 {
		t.Error("no row had one token alone")
	}
}
