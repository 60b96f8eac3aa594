package xla_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
)

// newGroup makes a backend on the given ones of 8 virtual devices.
func newGroup(t testing.TB, cache string, devices ...int) *xla.Backend {
	t.Helper()
	b := newBackend(t, xla.Options{ClientOptions: map[string]any{"cpu_device_count": 8}, CacheDir: cache})
	g, err := b.Group(devices...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func exchange(op string, attrs any, x *Node, shape shapes.Shape) *Node {
	return control.Composite(op, attrs, []*Node{x}, []shapes.Shape{shape}, nil)[0]
}

// groupProgram adds in a loop what all devices have of own to a donated state, and puts together what each got.
func groupProgram(t testing.TB, view compute.Backend, devices int) *xla.Executable {
	t.Helper()
	g := NewGraph(view, "group")
	shape := shapes.Make(dtypes.Float32, 4, 8)
	state, own, n := Parameter(g, "state", shape), Parameter(g, "own", shape),
		Parameter(g, "n", shapes.Make(dtypes.Int32))
	type loop struct{ I, State *Node }
	l := control.While(loop{ScalarZero(g, dtypes.Int32), state},
		func(l loop) *Node { return LessThan(l.I, n) },
		func(l loop) loop {
			return loop{AddScalar(l.I, 1), Add(l.State, exchange("all_reduce", struct{}{}, own, shape))}
		})
	first := SliceAxis(own, 1, AxisRange(0, 1))
	all := exchange("all_gather", map[string]int{"axis": 1}, first, shapes.Make(dtypes.Float32, 4, devices))
	if err := g.Compile(l.State, all, l.I); err != nil {
		t.Fatal(err)
	}
	return view.(*xla.View).Executables()[0]
}

// The devices of a group run one program on arrays of their own, exchange what it says, and update state in place. A
// program kept on disk does the same.
func TestGroup(t *testing.T) {
	cache := t.TempDir()
	for _, devices := range [][]int{{0, 1}, {2, 5, 4}, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 5, 4}} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			b := newGroup(t, cache, devices...)
			n := len(devices)
			if b.Partitions() != n || b.NumDevices() != n {
				t.Fatalf("%d partitions, %d devices", b.Partitions(), b.NumDevices())
			}
			e := groupProgram(t, b.Donating(map[string]int{"state": 0}), n)
			m, err := e.Memory()
			if err != nil {
				t.Fatal(err)
			}
			if m.Aliased != 4*8*4 {
				t.Errorf("%d bytes are updated in place, want %d", m.Aliased, 4*8*4)
			}
			shape := shapes.Make(dtypes.Float32, 4, 8)
			var parts []compute.Buffer
			sum := float32(0)
			for i := range n {
				member, err := b.Member(i)
				if err != nil {
					t.Fatal(err)
				}
				part, err := member.BufferFromFlatData(0, slices.Repeat([]float32{float32(i + 1)}, 32), shape)
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, part)
				sum += float32(i + 1)
			}
			own, err := b.Join(parts)
			if err != nil {
				t.Fatal(err)
			}
			state, err := b.BufferFromFlatData(0, slices.Repeat([]float32{100}, 32), shape)
			if err != nil {
				t.Fatal(err)
			}
			rounds, err := b.BufferFromFlatData(0, []int32{3}, shapes.Make(dtypes.Int32))
			if err != nil {
				t.Fatal(err)
			}
			for turn := 1; turn <= 2; turn++ {
				out, err := e.Execute([]compute.Buffer{state, own, rounds}, []bool{true, false, false}, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := state.Shape(); err == nil {
					t.Error("the donated state is still valid")
				}
				state = out[0]
				for i := range n {
					for j, want := range map[int]float32{0: 100 + 3*sum*float32(turn), 1: float32(i + 1)} {
						part := out[j].(*xla.Buffer).Parts()[i]
						got := make([]float32, []int{32, 4 * n}[j])
						if err := part.ToFlatData(got); err != nil {
							t.Fatal(err)
						}
						if at := []int{0, i}[j]; got[at] != want {
							t.Errorf("turn %d, output %d of device %d is %v, want %v", turn, j, i, got[at], want)
						}
					}
				}
			}
		})
	}
}

// Devices exchange parts of their arrays, and sums of 16-bit numbers are rounded once.
func TestExchangesOfGroup(t *testing.T) {
	for _, devices := range [][]int{{0, 1}, {2, 5, 4}} {
		checkExchanges(t, newGroup(t, t.TempDir(), devices...))
	}
}

// checkExchanges compares what the devices of this process get with what they should.
func checkExchanges(t *testing.T, b *xla.Backend) {
	t.Helper()
	n, view := b.Partitions(), b.Donating(nil)
	g := NewGraph(view, "exchanges")
	x, place := Parameter(g, "x", shapes.Make(dtypes.Float32, 2*n, 3)),
		Parameter(g, "place", shapes.Make(dtypes.Int32))
	parts := control.Composite("all_to_all", map[string]int{"split": 0, "concat": 1}, []*Node{x, place},
		[]shapes.Shape{shapes.Make(dtypes.Float32, 2, 3*n)}, nil)[0]
	short := ConvertDType(x, dtypes.BFloat16)
	sum := ConvertDType(exchange("all_reduce", struct{}{}, short, short.Shape()), dtypes.Float32)
	if err := g.Compile(parts, sum); err != nil {
		t.Fatal(err)
	}
	// 256 of the first device and 1 of each other: the sum of three in bfloat16, rounded twice, would be 256.
	value := func(place, row, column int) float32 {
		if row == 0 {
			return map[bool]float32{true: 256, false: 1}[place == 0]
		}
		return float32(100*place + 10*row + column)
	}
	var xs, places []compute.Buffer
	for i, place := range b.Places() {
		member, err := b.Member(i)
		if err != nil {
			t.Fatal(err)
		}
		var flat []float32
		for row := range 2 * n {
			for column := range 3 {
				flat = append(flat, value(place, row, column))
			}
		}
		x, err := member.BufferFromFlatData(0, flat, shapes.Make(dtypes.Float32, 2*n, 3))
		if err != nil {
			t.Fatal(err)
		}
		p, err := member.BufferFromFlatData(0, []int32{int32(place)}, shapes.Make(dtypes.Int32))
		if err != nil {
			t.Fatal(err)
		}
		xs, places = append(xs, x), append(places, p)
	}
	in := make([]compute.Buffer, 2)
	for i, parts := range [][]compute.Buffer{xs, places} {
		var err error
		if in[i], err = b.Join(parts); err != nil {
			t.Fatal(err)
		}
	}
	out, err := view.(*xla.View).Executables()[0].Execute(in, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, place := range b.Places() {
		parts, sums := make([]float32, 2*3*n), make([]float32, 2*n*3)
		if err := errors.Join(out[0].(*xla.Buffer).Parts()[i].ToFlatData(parts),
			out[1].(*xla.Buffer).Parts()[i].ToFlatData(sums)); err != nil {
			t.Fatal(err)
		}
		for at, got := range parts {
			row, column := at/(3*n), at%(3*n)
			if want := value(column/3, 2*place+row, column%3); got != want {
				t.Errorf("device %d of %d has %v at %d, %d, want %v", place, n, got, row, column, want)
			}
		}
		want := bfloat16.FromFloat32(float32(256 + n - 1)).Float32()
		if sums[0] != want {
			t.Errorf("device %d of %d: the sum is %v, want %v", place, n, sums[0], want)
		}
	}
}

// Two groups on one client run at the same time.
func TestGroupsSideBySide(t *testing.T) {
	b := newBackend(t, xla.Options{ClientOptions: map[string]any{"cpu_device_count": 8}})
	failures := make(chan error)
	for first := range 4 {
		g, err := b.Group(2*first, 2*first+1)
		if err != nil {
			t.Fatal(err)
		}
		e := groupProgram(t, g.Donating(map[string]int{"state": 0}), 2)
		go func() {
			failures <- func() error {
				in := make([]compute.Buffer, 3)
				for i, x := range []any{make([]float32, 32), slices.Repeat([]float32{float32(first)}, 32),
					[]int32{50}} {
					shape := shapes.Make(dtypes.Float32, 4, 8)
					if i == 2 {
						shape = shapes.Make(dtypes.Int32)
					}
					var err error
					if in[i], err = g.BufferFromFlatData(0, x, shape); err != nil {
						return err
					}
				}
				for range 20 {
					out, err := e.Execute(in, []bool{true, false, false}, 0)
					if err != nil {
						return err
					}
					in[0] = out[0]
				}
				got := make([]float32, 32)
				if err := in[0].ToFlatData(got); err != nil {
					return err
				}
				if want := float32(20 * 50 * 2 * first); got[31] != want {
					return fmt.Errorf("group %d got %v, want %v", first, got[31], want)
				}
				return nil
			}()
		}()
	}
	for range 4 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

func TestGroupErrors(t *testing.T) {
	b := newBackend(t, xla.Options{ClientOptions: map[string]any{"cpu_device_count": 2}})
	for _, devices := range [][]int{{}, {0, 2}, {-1}, {1, 1}} {
		if _, err := b.Group(devices...); err == nil {
			t.Errorf("devices %v are a group", devices)
		}
	}
	g, err := b.Group(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, err := b.BufferFromFlatData(0, []float32{1}, shapes.Make(dtypes.Float32, 1))
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.BufferFromFlatData(1, []float32{1, 2}, shapes.Make(dtypes.Float32, 2))
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]compute.Buffer{"one part": {x}, "the same device": {x, x},
		"another shape": {x, y}, "another order": {y, x}} {
		if _, err := g.Join(parts); err == nil {
			t.Errorf("%s: joined", name)
		}
	}
	if g.ReplacesComposite("all_reduce") != true || b.ReplacesComposite("all_reduce") {
		t.Error("a group exchanges numbers, and one device does not")
	}
	g.Finalize()
	if b.IsFinalized() || !g.IsFinalized() {
		t.Error("the end of a group is not that of its backend")
	}
}

// The same program compiles for a TPU's topology, also for one of several hosts.
func TestGroupForTPU(t *testing.T) {
	for name, devices := range map[string]int{"v5e:2x4": 8, "v5e:4x4": 16} {
		topology := testenv.Topology(t, name)
		list := make([]int, devices)
		for i := range list {
			list[i] = i
		}
		g, err := topology.Group(list...)
		if err != nil {
			t.Fatal(err)
		}
		e := groupProgram(t, g.Donating(map[string]int{"state": 0}), devices)
		m, err := e.Memory()
		if err != nil {
			t.Fatal(err)
		}
		hlo, err := e.OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		if m.Aliased < 4*8*4 || !strings.Contains(hlo, "all-reduce") {
			t.Errorf("%s: %+v\n%s", name, m, hlo)
		}
	}
}
