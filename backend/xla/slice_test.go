package xla_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/fakeplugin"
)

// process is one of several that never speak to each other.
type process struct{ id, count int }

func (p process) NumProcesses() int { return p.count }
func (p process) ProcessID() int    { return p.id }
func (p process) Exchange(int, uint64, []byte) ([][]byte, error) {
	return nil, errors.New("a TPU's program needs no exchange")
}

// A host of a slice runs the slice's program on its own devices; a group that is not the slice is refused.
func TestProcessOfASlice(t *testing.T) {
	b, err := xla.New(xla.Options{Platform: "tpu", Kernels: xla.KernelsOff, Plugin: fakeplugin.New(t, "platform=tpu",
		"kind=TPU v5 lite", "devices=16", "processes=4", "process=2")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	if b.NumDevices() != 4 {
		t.Fatalf("%d devices are here", b.NumDevices())
	}
	for _, p := range []process{{1, 2}, {2, 8}} {
		if _, err := b.GroupOver(p, 0, 1, 2, 3); !errors.Is(err, xla.ErrHosts) ||
			!strings.Contains(err.Error(), "the slice has 16 devices on 4 hosts") {
			t.Errorf("%+v: %v", p, err)
		}
	}
	g, err := b.GroupOver(process{2, 4}, 3, 1, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if g.Partitions() != 16 {
		t.Errorf("%d partitions", g.Partitions())
	}
	shape := shapes.Make(dtypes.Int32, 2)
	builder := g.Builder("copy")
	x, err := builder.Main().Parameter("x", shape, nil)
	if err == nil {
		err = builder.Main().Return([]compute.Value{x}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := builder.Compile()
	if err != nil {
		t.Fatal(err)
	}
	in, err := g.BufferFromFlatData(0, []int32{7, 8}, shape)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Execute([]compute.Buffer{in}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]int32, 2)
	if err := out[0].ToFlatData(got); err != nil || !slices.Equal(got, []int32{7, 8}) {
		t.Errorf("%v, %v", got, err)
	}
}
