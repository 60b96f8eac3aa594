package tokenqueue_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/tokenqueue"
)

const (
	capacity = 40
	slots    = 5
	added    = 12
)

// programs are the verbs on a queue that goes in and comes out as one vector.
type programs struct {
	enqueue, purge *Exec
}

func newPrograms(t *testing.T, backend compute.Backend) programs {
	queue := func(v *Node) tokenqueue.Queue {
		q := tokenqueue.New(v.Graph(), capacity)
		parts := Split(SliceAxis(v, 0, AxisRangeFromStart(3*capacity)), 0, 3)
		return tree.Rebuild(q, append(parts, Reshape(SliceAxis(v, 0, AxisElem(3*capacity)))))
	}
	flatten := func(nodes ...*Node) *Node {
		for i, n := range nodes {
			nodes[i] = Reshape(n, n.Shape().Size())
		}
		return Concatenate(nodes, 0)
	}
	must := func(e *Exec, err error) *Exec {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	var p programs
	p.enqueue = must(NewExec(backend, func(v, tokens, slots, pos, valid *Node) *Node {
		return flatten(tree.Leaves(queue(v).Enqueue(tokens, slots, pos, ConvertDType(valid, dtypes.Bool)))...)
	}))
	p.purge = must(NewExec(backend, func(v, mask *Node) *Node {
		return flatten(tree.Leaves(queue(v).PurgeSlots(mask))...)
	}))
	return p
}

func vector(entries []tokenqueue.Entry, n int) []int32 {
	v := slices.Repeat([]int32{-1}, 3*n)
	for i, e := range entries {
		v[i], v[n+i], v[2*n+i] = e.Token, e.Slot, e.Pos
	}
	return append(v, int32(len(entries)))
}

// TestAgainstHost compares random operations, step by step, with the plain-Go twin.
func TestAgainstHost(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		p := newPrograms(t, backend)
		rapid.Check(t, func(t *rapid.T) {
			host := &tokenqueue.Host{Capacity: capacity}
			state := vector(nil, capacity)
			var token int32
			run := func(exec *Exec, args ...any) {
				out, err := exec.Exec(append([]any{state}, args...)...)
				if err != nil {
					t.Fatal(err)
				}
				got := tensors.MustCopyFlatData[int32](out[0])
				if want := vector(host.Entries, capacity); !slices.Equal(got, want) {
					t.Fatalf("\n got %v\nwant %v", got, want)
				}
				state = got
			}
			for range 20 {
				switch rapid.SampledFrom([]string{"enqueue", "enqueue", "purge"}).Draw(t, "op") {
				case "enqueue":
					tokens, slotIDs, pos := make([]int32, added), make([]int32, added), make([]int32, added)
					valid := make([]bool, added)
					var entries []tokenqueue.Entry
					for i := range tokens {
						token++
						tokens[i] = token
						slotIDs[i] = rapid.Int32Range(0, slots-1).Draw(t, "slot")
						pos[i] = rapid.Int32Range(0, 3).Draw(t, "pos") // Repeats show whether the order is kept.
						if valid[i] = rapid.Bool().Draw(t, "valid"); valid[i] {
							entries = append(entries, tokenqueue.Entry{Token: tokens[i], Slot: slotIDs[i], Pos: pos[i]})
						}
					}
					host.Enqueue(entries...)
					run(p.enqueue, tokens, slotIDs, pos, valid)
				case "purge":
					mask := make([]bool, slots)
					for i := range mask {
						mask[i] = rapid.IntRange(0, 3).Draw(t, "purged") == 0
					}
					host.PurgeSlots(mask)
					run(p.purge, mask)
				}
			}
		})
	})
}

func onBackends(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) { test(t, gobackend.GetBackend()) })
	t.Run("xla", func(t *testing.T) { test(t, testenv.XLA(t)) })
}
