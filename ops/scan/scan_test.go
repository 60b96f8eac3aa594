package scan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/scan"
)

// backends are the plain forms, and XLA with the kernels.
func backends(t *testing.T) map[string]compute.Backend {
	return map[string]compute.Backend{"plain": testenv.Go(t), "kernels": testenv.XLA(t)}
}

// Lengths about the word size and the block threshold.
var lengths = []int{1, 2, 31, 32, 33, 64, 100, 1023, 1024, 1025, 4096, 5000}

func TestSum(t *testing.T) {
	for name, backend := range backends(t) {
		t.Run(name, func(t *testing.T) { testSum(t, backend) })
	}
}

func testSum(t *testing.T, backend compute.Backend) {
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
	for name, backend := range backends(t) {
		t.Run(name, func(t *testing.T) { testPositions(t, backend) })
	}
}

func testPositions(t *testing.T, backend compute.Backend) {
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

func TestCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, backend := range backends(t) {
		t.Run(name, func(t *testing.T) {
			for _, dims := range [][2]int{{1, 1}, {3, 7}, {96, 64}, {2, 5000}} {
				mask := make([][]bool, dims[0])
				want, all := make([]int32, dims[0]), int32(0)
				for row := range mask {
					mask[row] = make([]bool, dims[1])
					for i := range mask[row] {
						if mask[row][i] = rng.IntN(3) == 0; mask[row][i] {
							want[row]++
							all++
						}
					}
				}
				out, err := ExecOnceN(backend, func(mask *Node) []*Node {
					return []*Node{scan.CountRows(mask), scan.Count(mask)}
				}, mask)
				if err != nil {
					t.Fatal(err)
				}
				if got := tensors.MustCopyFlatData[int32](out[0]); !slices.Equal(got, want) {
					t.Errorf("rows of %v: got %v, want %v", dims, got, want)
				}
				if got := tensors.ToScalar[int32](out[1]); got != all {
					t.Errorf("%v: got %d, want %d", dims, got, all)
				}
			}
		})
	}
}

func TestOwners(t *testing.T) {
	const k = 100
	for name, backend := range backends(t) {
		t.Run(name, func(t *testing.T) {
			for _, amounts := range [][]int32{{0}, {5, 0, 0, 3}, {0, 40, 60, 0, 7}, {200}, {1, 1, 1, 1, 1, 1, 0, 93}} {
				var want, ends []int32
				end := int32(0)
				for owner, n := range amounts {
					end += n
					ends = append(ends, end)
					for range n {
						want = append(want, int32(owner))
					}
				}
				for len(want) < k {
					want = append(want, int32(len(amounts)))
				}
				out, err := ExecOnce(backend, func(ends *Node) *Node { return scan.Owners(ends, k) }, ends)
				if err != nil {
					t.Fatal(err)
				}
				if got := tensors.MustCopyFlatData[int32](out); !slices.Equal(got, want[:k]) {
					t.Errorf("%v: got %v, want %v", amounts, got, want[:k])
				}
			}
		})
	}
}

// Sums wrap, and ends that are negative or beyond all elements belong to no owner.
func TestExtremes(t *testing.T) {
	for name, backend := range backends(t) {
		t.Run(name, func(t *testing.T) {
			out, err := ExecOnceN(backend, func(x, ends *Node) []*Node {
				return []*Node{scan.Sum(x), scan.Owners(ends, 4)}
			}, []int32{math.MaxInt32, 1, math.MinInt32, -1}, []int32{math.MinInt32, math.MaxInt32, 2})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(out[0].Value(), out[1].Value()); got != "[2147483647 -2147483648 0 -1] [1 1 2 2]" {
				t.Error(got)
			}
		})
	}
}
