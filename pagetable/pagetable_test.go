package pagetable_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/setup"
)

const list = 16 // Needs, or pages, a call.

// TestAgainstHost compares random operations, step by step, with the plain-Go twin: with few pages, and with so many
// that free ones are searched by words.
func TestAgainstHost(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		for _, pages := range []int{20, 300} {
			compile := func(verb func(t pagetable.Table, arg *Node) []*Node) *Exec {
				exec, err := NewExec(backend, func(refs, arg *Node) []*Node {
					out := verb(pagetable.Table{RefCounts: refs}, arg)
					flat := make([]*Node, len(out))
					for i, n := range out {
						flat[i] = Reshape(n, n.Shape().Size())
					}
					return []*Node{out[0], Concatenate(flat[1:], 0)}
				})
				if err != nil {
					t.Fatal(err)
				}
				return exec
			}
			allocate := compile(func(t pagetable.Table, arg *Node) []*Node {
				after, pages, short := t.Allocate(ConvertDType(arg, dtypes.Bool))
				return []*Node{after.RefCounts, pages, short, after.NumFree()}
			})
			share := compile(func(t pagetable.Table, arg *Node) []*Node {
				after, invalid := t.Share(arg)
				return []*Node{after.RefCounts, invalid, after.NumFree()}
			})
			release := compile(func(t pagetable.Table, arg *Node) []*Node {
				after, doubleFree, invalid := t.Release(arg)
				return []*Node{after.RefCounts, doubleFree, invalid, after.NumFree()}
			})
			rapid.Check(t, func(t *rapid.T) {
				host := pagetable.NewHost(pages)
				state := make([]int32, pages)
				apply := func(exec *Exec, arg any, want []int32) {
					out, err := exec.Exec(state, arg)
					if err != nil {
						t.Fatal(err)
					}
					state = tensors.MustCopyFlatData[int32](out[0])
					if !slices.Equal(state, host.RefCounts) {
						t.Fatalf("counts:\n got %v\nwant %v", state, host.RefCounts)
					}
					want = append(want, int32(host.NumFree()))
					if got := tensors.MustCopyFlatData[int32](out[1]); !slices.Equal(got, want) {
						t.Fatalf("results %v, want %v", got, want)
					}
				}
				// Mostly pages that are, or may be, in use; duplicates, -1 and ids out of range too.
				drawPages := func() []int32 {
					ids := make([]int32, list)
					for i := range ids {
						ids[i] = rapid.Int32Range(-2, int32(min(pages, 24))).Draw(t, "page")
						if ids[i] > 20 {
							ids[i] = int32(pages) - 1 + ids[i] - 22
						}
					}
					return ids
				}
				for range 15 {
					switch rapid.SampledFrom([]string{"allocate", "allocate", "share", "release"}).Draw(t, "op") {
					case "allocate":
						need := rapid.SliceOfN(rapid.Bool(), list, list).Draw(t, "need")
						ids, short := host.Allocate(need)
						apply(allocate, need, append(ids, int32(short)))
					case "share":
						ids := drawPages()
						apply(share, ids, []int32{int32(host.Share(ids))})
					case "release":
						ids := drawPages()
						doubleFree, invalid := host.Release(ids)
						apply(release, ids, []int32{int32(doubleFree), int32(invalid)})
					}
				}
			})
		}
	})
}

func onBackends(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) { test(t, gobackend.GetBackend()) })
	t.Run("xla", func(t *testing.T) {
		plugin, err := setup.FindPlugin("cpu")
		if err != nil {
			t.Fatal(err)
		}
		backend, err := xla.New(xla.Options{Plugin: plugin})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Finalize()
		test(t, backend)
	})
}
