package pagetable_test

import (
	"math"
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
	"github.com/quire/quire/pagetable"
)

const list = 16 // Needs, or pages, a call.

// device is a table on the device: its arrays in order.
type device struct {
	state []int32
	verbs map[string]*Exec
}

type verb func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node)

var verbs = map[string]verb{
	"allocate": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) {
		t, pages, short := t.Allocate(ConvertDType(args[0], dtypes.Bool))
		return t.Mark(pages, args[1]), []*Node{pages, short}
	},
	"share": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) {
		t, invalid := t.Share(args[0])
		return t, []*Node{invalid}
	},
	"pin": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) {
		t, invalid := t.Pin(args[0])
		return t, []*Node{invalid}
	},
	"release": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) {
		t, doubleFree, invalid := t.Release(args[0])
		return t, []*Node{doubleFree, invalid}
	},
	"release old": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) {
		ages := Where(GreaterOrEqual(args[1], ZerosLike(args[1])), t.Age(args[1], 100), ZerosLike(args[1]))
		t, doubleFree, invalid := t.ReleaseAll(t.NewTally().WithAges().AddOld(args[0], ages))
		return t, []*Node{doubleFree, invalid}
	},
	"begin": func(t pagetable.Table, args []*Node) (pagetable.Table, []*Node) { return t.Begin(), nil },
}

func newDevice(t *testing.T, backend compute.Backend, pages int, keeps bool) *device {
	d := &device{verbs: map[string]*Exec{}}
	for name, v := range verbs {
		if !keeps && (name == "release old" || name == "begin") {
			continue
		}
		exec, err := NewExec(backend, func(inputs []*Node) []*Node {
			part := func(i, n int) *Node { return SliceAxis(inputs[0], 0, AxisRange(i*pages, i*pages+n)) }
			table := pagetable.Table{RefCounts: part(0, pages)}
			if keeps {
				table.Ages, table.Takers, table.Clock = part(1, pages), part(2, pages), Reshape(part(3, 1))
			}
			after, results := v(table, inputs[1:])
			return []*Node{flatten(tree.Leaves(after)), flatten(append(results, after.NumFree()))}
		})
		if err != nil {
			t.Fatal(err)
		}
		d.verbs[name] = exec
	}
	return d
}

func flatten(nodes []*Node) *Node {
	flat := make([]*Node, len(nodes))
	for i, n := range nodes {
		flat[i] = Reshape(n, n.Shape().Size())
	}
	return Concatenate(flat, 0)
}

// vector is the twin as the device has it.
func vector(h *pagetable.Host) []int32 {
	if !h.Keeps() {
		return slices.Clone(h.RefCounts)
	}
	return append(slices.Concat(h.RefCounts, h.Ages, h.Takers), h.Clock)
}

// TestAgainstHost compares random operations, step by step, with the plain-Go twin: with few pages, and with so many
// that free ones are searched by words; of a table that keeps pages, and of one that does not.
func TestAgainstHost(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		for _, keeps := range []bool{false, true} {
			for _, pages := range []int{20, 300} {
				testAgainstHost(t, newDevice(t, backend, pages, keeps), pages, keeps)
			}
		}
	})
}

func testAgainstHost(t *testing.T, d *device, pages int, keeps bool) {
	ops := []string{"allocate", "allocate", "share", "release", "pin"}
	if keeps {
		ops = append(ops, "release old", "release old", "begin")
	}
	reclaimed := 0
	rapid.Check(t, func(t *rapid.T) {
		host := pagetable.NewHost(pages)
		if keeps {
			host = pagetable.NewKeepingHost(pages)
		}
		d.state = vector(host)
		apply := func(op string, want []int32, args ...any) {
			out, err := d.verbs[op].Exec(append([]any{d.state}, args...)...)
			if err != nil {
				t.Fatal(err)
			}
			d.state = tensors.MustCopyFlatData[int32](out[0])
			if want := vector(host); !slices.Equal(d.state, want) {
				t.Fatalf("%s: state:\n got %v\nwant %v", op, d.state, want)
			}
			want = append(want, int32(host.NumFree()))
			if got := tensors.MustCopyFlatData[int32](out[1]); !slices.Equal(got, want) {
				t.Fatalf("%s: results %v, want %v", op, got, want)
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
		for range 25 {
			switch op := rapid.SampledFrom(ops).Draw(t, "op"); op {
			case "allocate":
				need := rapid.SliceOfN(rapid.Bool(), list, list).Draw(t, "need")
				by := rapid.SliceOfN(rapid.Int32Range(0, 9), list, list).Draw(t, "by")
				before, kept := slices.Clone(host.RefCounts), slices.Clone(host.Ages)
				ids, short := host.Allocate(need)
				for i, id := range ids {
					host.Mark(id, by[i])
				}
				reclaimed += oldestGo(t, before, kept, host)
				apply(op, append(ids, int32(short)), need, by)
			case "share":
				ids := drawPages()
				apply(op, []int32{int32(host.Share(ids))}, ids)
			case "pin":
				ids := drawPages()
				apply(op, []int32{int32(host.Pin(ids))}, ids)
			case "release":
				ids := drawPages()
				doubleFree, invalid := host.Release(ids)
				apply(op, []int32{int32(doubleFree), int32(invalid)}, ids)
			case "release old":
				ids := drawPages()
				places := rapid.SliceOfN(rapid.Int32Range(-1, 99), list, list).Draw(t, "places")
				ages := make([]int32, list)
				for i, place := range places {
					if place >= 0 {
						ages[i] = host.Age(int(place), 100)
					}
				}
				doubleFree, invalid := host.ReleaseOld(ids, ages)
				apply(op, []int32{int32(doubleFree), int32(invalid)}, ids, places)
			case "begin":
				host.Begin()
				apply(op, nil)
			}
		}
	})
	if keeps && pages == 20 && reclaimed == 0 {
		t.Error("no page was ever reclaimed: the test does not reach what it is for")
	}
}

// oldestGo checks that no kept page was blanked or taken while one of a lower age stayed, and returns how many were.
func oldestGo(t *rapid.T, refs, ages []int32, after *pagetable.Host) (gone int) {
	oldest, youngest := int32(math.MaxInt32), int32(0)
	for p, age := range ages {
		switch {
		case refs[p] > 0 || age == 0:
		case after.Ages[p] == 0:
			gone, youngest = gone+1, max(youngest, age)
		default:
			oldest = min(oldest, age)
		}
	}
	if youngest >= oldest {
		t.Fatalf("a page of age %d went while one of age %d stayed", youngest, oldest)
	}
	return gone
}

func onBackends(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) { test(t, gobackend.GetBackend()) })
	t.Run("xla", func(t *testing.T) { test(t, testenv.XLA(t)) })
}
