package scan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/scan"
)

// Lengths about the word size and the block threshold.
var lengths = []int{1, 2, 31, 32, 33, 64, 100, 1023, 1024, 1025, 4096, 5000}

func TestSum(t *testing.T) {
	backend := gobackend.GetBackend()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range lengths {
		x := make([]int32, n)
		inclusive, exclusive := make([]int32, n), make([]int32, n)
		var total int32
		for i := range x {
			x[i] = rng.Int32N(100) - 20
			exclusive[i] = total
			total += x[i]
			inclusive[i] = total
		}
		out, err := ExecOnceN(backend, func(x *Node) []*Node { return []*Node{scan.Sum(x), scan.Before(x)} }, x)
		if err != nil {
			t.Fatal(err)
		}
		if got := tensors.MustCopyFlatData[int32](out[0]); !slices.Equal(got, inclusive) {
			t.Errorf("Sum of %d elements: got %v, want %v", n, got, inclusive)
		}
		if got := tensors.MustCopyFlatData[int32](out[1]); !slices.Equal(got, exclusive) {
			t.Errorf("Before of %d elements: got %v, want %v", n, got, exclusive)
		}
	}
}

func TestPositions(t *testing.T) {
	backend := gobackend.GetBackend()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range lengths {
		for _, k := range []int{1, 7, (n + 7) / 8, n} {
			exec, err := NewExec(backend, func(mask *Node) []*Node {
				positions, count := scan.Positions(mask, k)
				return []*Node{positions, count}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, density := range []float64{0, 0.03, 0.5, 1} {
				t.Run(fmt.Sprintf("n%d_k%d_%g", n, k, density), func(t *testing.T) {
					mask := make([]bool, n)
					var want []int32
					count := int32(0)
					for i := range mask {
						if mask[i] = rng.Float64() < density; mask[i] {
							count++
							if len(want) < k {
								want = append(want, int32(i))
							}
						}
					}
					for len(want) < k {
						want = append(want, int32(n))
					}
					out, err := exec.Exec(mask)
					if err != nil {
						t.Fatal(err)
					}
					if got := tensors.MustCopyFlatData[int32](out[0]); !slices.Equal(got, want) {
						t.Errorf("positions %v, want %v", got, want)
					}
					if got := tensors.ToScalar[int32](out[1]); got != count {
						t.Errorf("count %d, want %d", got, count)
					}
				})
			}
		}
	}
}
