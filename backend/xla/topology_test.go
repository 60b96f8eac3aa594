package xla_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
)

// openTopology opens a TPU topology on the libtpu that is installed, and leaves the test to machines that have one.
func openTopology(t *testing.T, o xla.TopologyOptions) *xla.Backend {
	t.Helper()
	var err error
	if o.Plugin, err = setup.FindPlugin("tpu"); err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is compiled for TPU`)
	}
	b, err := xla.OpenTopology(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

func TestTopologies(t *testing.T) {
	for _, want := range []xla.Topology{
		{Name: "v4:2x2x1", DeviceKind: "TPU v4", NumDevices: 8, MemoryBytes: 32745971712},
		{Name: "v5e:1x1", DeviceKind: "TPU v5 lite", NumDevices: 1, MemoryBytes: 16909336064},
		{Name: "v5e:2x4", DeviceKind: "TPU v5 lite", NumDevices: 8, MemoryBytes: 16909332480},
		{Name: "v6e:4x4", DeviceKind: "TPU v6 lite", NumDevices: 16, MemoryBytes: 33546035200},
		{Name: "v5p:2x2x1", DeviceKind: "TPU v5", NumDevices: 4, MemoryBytes: 102786660352},
		{Name: "tpu7x:2x2x1", DeviceKind: "TPU7x", NumDevices: 8, MemoryBytes: 101724450816},
	} {
		b := openTopology(t, xla.TopologyOptions{Name: want.Name})
		if got, ok := b.Topology(); !ok || got != want || b.NumDevices() != want.NumDevices || b.Platform() != "tpu" {
			t.Errorf("the topology is %+v of %s, want %+v", got, b.Platform(), want)
		}
		if free, err := b.FreeMemory(0); err != nil || free != want.MemoryBytes {
			t.Errorf("%s has %d bytes free (%v), want all of %d", want.Name, free, err, want.MemoryBytes)
		}
	}
	plugin, _ := setup.FindPlugin("tpu")
	for _, name := range []string{"", "v5e", "v9z:1x1", "v5e:3x9", "1x1"} {
		if _, err := xla.OpenTopology(xla.TopologyOptions{Plugin: plugin, Name: name}); !errors.Is(err,
			xla.ErrUnknownTopology) {
			t.Errorf("topology %q gives %v, want ErrUnknownTopology", name, err)
		}
	}
}

// A program for a topology is what it is for a device, but that it can't run.
func TestCompilingForATopology(t *testing.T) {
	cache := t.TempDir()
	b := openTopology(t, xla.TopologyOptions{Name: "v5e:1x1", CacheDir: cache})
	view := b.Donating(map[string]int{"cache": 0}).(*xla.View)
	cacheProgram(t, view)
	e := view.Executables()[0]
	m, err := e.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if m.Aliased != cacheBytes || m.Arguments < cacheBytes || m.Temporary > cacheBytes/8 || m.Total < cacheBytes ||
		m.Total > cacheBytes+cacheBytes/8 || m.Code == 0 {
		t.Errorf("the memory is %+v, want a cache of %d bytes in place and little else", m, cacheBytes)
	}
	if c, err := e.Cost(); err != nil || c.BytesAccessed <= 0 || c.OptimalSeconds <= 0 {
		t.Errorf("the cost is %+v (%v)", c, err)
	}
	hlo, err := e.OptimizedHLO()
	if err != nil || !strings.Contains(hlo, "while(") || !strings.Contains(hlo, "alias{output 0 = parameter 0}") ||
		!strings.Contains(hlo, ", cycles=") {
		t.Errorf("the optimized form (%v) has no loop in place, or no cycles:\n%.2000s", err, hlo)
	}
	if kept, err := filepath.Glob(filepath.Join(cache, "*.pjrt")); err != nil || len(kept) != 1 {
		t.Errorf("%d programs are kept, want 1 (%v)", len(kept), err)
	} else if st, err := os.Stat(kept[0]); err != nil || st.Size() < 1000 {
		t.Errorf("the kept program has %d bytes (%v)", st.Size(), err)
	}

	if _, err := e.Execute(nil, nil, 0); !errors.Is(err, xla.ErrNoDevice) {
		t.Errorf("executing gives %v", err)
	}
	if _, err := b.BufferFromFlatData(0, []float32{1}, shapes.Make(dtypes.Float32, 1)); !errors.Is(err,
		xla.ErrNoDevice) {
		t.Errorf("a buffer gives %v", err)
	}
	e.Finalize()
	if _, err := e.Memory(); err == nil {
		t.Error("a finalized program has a memory")
	}
}

func TestOutOfMemoryOfATopology(t *testing.T) {
	b := openTopology(t, xla.TopologyOptions{Name: "v5e:1x1"})
	g := NewGraph(b, "too large")
	x := Parameter(g, "x", shapes.Make(dtypes.BFloat16, 4<<10, 1<<20))
	err := g.Compile(AddScalar(x, 1))
	var oom *xla.OutOfMemoryError
	if !errors.As(err, &oom) {
		t.Fatalf("the error is %v", err)
	}
	if oom.Program != "too large" || oom.Needed != 16<<30 || oom.Available != 63<<28 {
		t.Errorf("the error says %+v", oom)
	}
	if text := err.Error(); !strings.Contains(text, `"too large" needs 16.00 GiB`) ||
		!strings.Contains(text, "15.75 GiB") {
		t.Errorf("the text is %q", text)
	}
}

func TestMemoryAndCostOnTheCPU(t *testing.T) {
	view := newBackend(t, xla.Options{}).Donating(map[string]int{"cache": 0}).(*xla.View)
	cacheProgram(t, view)
	e := view.Executables()[0]
	m, err := e.Memory()
	if err != nil || m.Aliased != cacheBytes || m.Total < cacheBytes || m.Total > cacheBytes+cacheBytes/8 {
		t.Errorf("the memory is %+v (%v)", m, err)
	}
	if _, err := e.Cost(); !errors.Is(err, xla.ErrNoCost) {
		t.Errorf("the cost on the CPU gives %v", err)
	}
	if kind, err := view.DeviceKind(); err != nil || kind != "cpu" {
		t.Errorf("the device is a %q (%v)", kind, err)
	}
	if _, ok := view.Topology(); ok {
		t.Error("a backend with devices has a topology")
	}
}
