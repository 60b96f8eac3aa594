package xla_test

import (
	"errors"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
)

func TestTopologyPlatform(t *testing.T) {
	for name, want := range map[string]string{
		"h200": "cuda", "h200:1": "cuda", "a100:8": "cuda", "l40s:2": "cuda", "b200:16": "cuda",
		"v5e:2x4": "tpu", "h200:0": "tpu", "h200:2x2": "tpu", "h300:1": "tpu", "": "tpu", "H200": "tpu",
	} {
		if got := xla.TopologyPlatform(name); got != want {
			t.Errorf("%q is of %q, want %q", name, got, want)
		}
	}
}

// A GPU that is not there: what the plugin says of it, and that nothing runs on it.
func TestGPUTopology(t *testing.T) {
	b := testenv.Topology(t, "h100:4")
	top, ok := b.Topology()
	if want := (xla.Topology{Name: "h100:4", DeviceKind: "NVIDIA H100 80GB HBM3", NumDevices: 4,
		MemoryBytes: 76_968_728_985}); !ok || top != want {
		t.Errorf("topology %+v, want %+v", top, want)
	}
	if b.Platform() != "cuda" || b.NumDevices() != 4 {
		t.Errorf("%d devices of %q", b.NumDevices(), b.Platform())
	}
	if _, err := b.BufferFromFlatData(0, []float32{1}, shapes.Make(dtypes.Float32, 1)); !errors.Is(err,
		xla.ErrNoDevice) {
		t.Errorf("a buffer on it: %v", err)
	}
}
