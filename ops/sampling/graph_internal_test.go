package sampling

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
)

func onBackends(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) { test(t, testenv.Go(t)) })
	t.Run("xla", func(t *testing.T) { test(t, testenv.XLA(t)) })
}

func TestThreefryOnTheDevice(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		r := rand.New(rand.NewPCG(1, 1))
		var in [4][]uint32
		var want [][2]uint32
		add := func(key, counter [2]uint32) {
			for i, x := range []uint32{key[0], key[1], counter[0], counter[1]} {
				in[i] = append(in[i], x)
			}
			want = append(want, Threefry(key, counter))
		}
		for _, k := range threefryKnown {
			add(k.key, k.counter)
		}
		for range 100 {
			add(words(r.Uint64()), words(r.Uint64()))
		}
		out, err := ExecOnceN(backend, func(k0, k1, c0, c1 *Node) (*Node,
			*Node) {
			return threefryGraph(k0, k1, c0, c1)
		}, in[0], in[1], in[2], in[3])
		if err != nil {
			t.Fatal(err)
		}
		x0, x1 := out[0].Value().([]uint32), out[1].Value().([]uint32)
		for i, w := range want {
			if x0[i] != w[0] || x1[i] != w[1] {
				t.Errorf("case %d: %08x %08x, want %08x", i, x0[i], x1[i], w)
			}
		}
	})
}

func TestMulHighIsExact(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		r := rand.New(rand.NewPCG(2, 2))
		var high, low []uint32
		var total []int64
		for _, u := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<64 - 1, r.Uint64(), r.Uint64(), r.Uint64()} {
			for _, x := range []int64{1, 2, 1<<32 - 1, 1 << 32, 1<<36 + 5, 1<<62 - 1, r.Int64N(1 << 62),
				r.Int64N(1 << 50)} {
				high, low, total = append(high, uint32(u>>32)), append(low, uint32(u)), append(total, x)
			}
		}
		out, err := ExecOnceN(backend, func(high, low, total *Node) (*Node, *Node) {
			return mulHigh(high, low, total), mulHigh32(ConvertDType(high, total.DType()), total)
		}, high, low, total)
		if err != nil {
			t.Fatal(err)
		}
		for i := range total {
			x := big.NewInt(total[i])
			want32 := new(big.Int).Mul(x, big.NewInt(int64(high[i])))
			want32.Rsh(want32, 32)
			want := new(big.Int).SetUint64(uint64(high[i])<<32 | uint64(low[i]))
			want.Mul(want, x).Rsh(want, 64)
			if got := out[0].Value().([]int64)[i]; got != want.Int64() {
				t.Errorf("mulHigh(%#x, %#x, %d) = %d, want %d", high[i], low[i], total[i], got, want)
			}
			if got := out[1].Value().([]int64)[i]; got != want32.Int64() {
				t.Errorf("mulHigh32(%#x, %d) = %d, want %d", high[i], total[i], got, want32)
			}
		}
	})
}

// Every entry is picked for exactly the targets that its weight covers, and one of weight zero never.
func TestPickInvertsTheCumulativeSums(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		r := rand.New(rand.NewPCG(3, 3))
		for _, n := range []int{1, 2, 64, 65, 786, 2374} {
			const rows = 40
			w := make([][]int64, rows)
			target, index, rest := make([]int64, rows), make([]int32, rows), make([]int64, rows)
			for s := range w {
				w[s] = make([]int64, n)
				for i := range w[s] {
					if r.IntN(3) == 0 {
						w[s][i] = r.Int64N(1 << (r.IntN(40) + 1))
					}
				}
				index[s] = int32(r.IntN(n))
				w[s][index[s]] += 1 + int64(s)
				// The first, the last, or any target of the entry.
				rest[s] = []int64{0, w[s][index[s]] - 1, r.Int64N(w[s][index[s]])}[s%3]
				for i := range index[s] {
					target[s] += w[s][i]
				}
				target[s] += rest[s]
			}
			out, err := ExecOnceN(backend, func(w, target *Node) (*Node, *Node) { return pick(w, target) }, w, target)
			if err != nil {
				t.Fatal(err)
			}
			for s := range w {
				if got, left := out[0].Value().([]int32)[s], out[1].Value().([]int64)[s]; got != index[s] ||
					left != rest[s] {
					t.Errorf("%d entries, target %d: picked %d with %d left, want %d with %d", n, target[s], got, left,
						index[s], rest[s])
				}
			}
		}
	})
}
