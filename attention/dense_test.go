package attention_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/internal/testenv"
)

// What was written to a cache is there as dense keys and values, in each layout and type of floats.
func TestDense(t *testing.T) {
	const tokens, kvHeads, dim, pageSize = 21, 3, 8, 8
	k := make([]float32, tokens*kvHeads*dim)
	for i := range k {
		k[i] = float32(i%251) - 125 // which 16 bits represent
	}
	dests := make([]int32, tokens)
	for i := range dests {
		dests[i] = int32(i)
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16} {
		for name, change := range map[string]func(l *attention.Layout){
			"by token": func(*attention.Layout) {},
			"by head":  func(l *attention.Layout) { l.ByHead = true },
			"flat":     func(l *attention.Layout) { l.Flat = true },
			"packed":   func(l *attention.Layout) { l.Packed = 4 / dtype.Size() },
			"shared":   func(l *attention.Layout) { l.Shared = true },
			"shared and flat": func(l *attention.Layout) {
				l.Shared, l.Flat = true, true
			},
		} {
			t.Run(fmt.Sprintf("%s/%s", dtype, name), func(t *testing.T) {
				layout := attention.PagedLayout(3, pageSize, kvHeads, dim, dtype)
				change(&layout)
				out, err := ExecOnce(testenv.Go(t), func(k, dests *Node) *Node {
					k = ConvertDType(Reshape(k, tokens, kvHeads, dim), dtype)
					return layout.Update(Zeros(k.Graph(), layout.Shape()), batchOf(dests), k, Neg(k))
				}, k, dests)
				if err != nil {
					t.Fatal(err)
				}
				var keys, values []float32
				out.MustConstFlatData(func(flat any) { keys, values, err = attention.Dense(layout, flat, tokens) })
				if err != nil {
					t.Fatal(err)
				}
				want := slices.Clone(k)
				for i := range want {
					if !layout.Shared {
						want[i] = -want[i]
					}
				}
				if !slices.Equal(keys, k) || !slices.Equal(values, want) {
					t.Errorf("keys %v\nand values %v\nwant %v\nand %v", keys, values, k, want)
				}
			})
		}
	}
	floats := attention.PagedLayout(1, 8, 1, 8, dtypes.Float32)
	for _, layout := range []attention.Layout{floats.StateLayout(9), attention.PagedLayout(1, 8, 1, 8, dtypes.Int8),
		attention.PagedLayout(1, 8, 1, 8, dtypes.F8E4M3FN)} {
		if _, _, err := attention.Dense(layout, []int8{}, 1); err == nil {
			t.Errorf("%+v is dense", layout)
		}
	}
}
