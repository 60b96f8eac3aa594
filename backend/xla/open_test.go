package xla_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
)

func TestOpen(t *testing.T) {
	plugin := cpuPlugin(t)
	find := func(platform string) (string, error) {
		if platform == "cpu" || platform == "cuda" { // a wrong plugin for cuda
			return plugin, nil
		}
		return "", errors.New("put it there")
	}
	for spec, name := range map[string]string{"xla:cpu": "xla", "xla:" + plugin: "xla", "go": "Go Backend"} {
		b, err := xla.Open(spec, xla.OpenOptions{FindPlugin: find})
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if b.Name() != name {
			t.Errorf("%s opens a backend %q, want %q", spec, b.Name(), name)
		}
		b.Finalize()
		if !b.IsFinalized() {
			t.Errorf("%s: not finalized", spec)
		}
	}
	for spec, want := range map[string]string{
		"":                  "xla:/absolute/path/plugin.so or go",
		"xla":               "xla:/absolute/path/plugin.so or go",
		"xla:plugin.so":     "xla:/absolute/path/plugin.so or go",
		"metal":             "xla:/absolute/path/plugin.so or go",
		"xla:/no/such/x.so": "/no/such/x.so",
		"xla:cuda":          `a plugin for "cpu"`,
		"xla:tpu":           "put it there",
	} {
		if _, err := xla.Open(spec, xla.OpenOptions{FindPlugin: find}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", spec, err, want)
		}
	}
	if _, err := xla.Open("xla:cpu", xla.OpenOptions{}); err == nil {
		t.Error("xla:cpu without a finder: no error")
	}
}

func TestDevices(t *testing.T) {
	b := newBackend(t, xla.Options{ClientOptions: map[string]any{"cpu_device_count": 3}})
	if b.NumDevices() != 3 {
		t.Fatalf("%d devices, want 3", b.NumDevices())
	}
	shape := shapes.Make(dtypes.Int32, 2)
	in, err := b.BufferFromFlatData(2, []int32{3, 4}, shape)
	if err != nil {
		t.Fatal(err)
	}
	for _, fixed := range []bool{false, true} {
		builder := b.Builder("devices")
		f := builder.Main()
		x, err := f.Parameter("x", shape, nil)
		if err != nil {
			t.Fatal(err)
		}
		y, err := f.Neg(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Return([]compute.Value{y}, nil); err != nil {
			t.Fatal(err)
		}
		device := compute.DeviceNum(2)
		if fixed {
			if err := builder.DeviceAssignment(2); err != nil {
				t.Fatal(err)
			}
			device = 0 // is ignored then
		}
		e, err := builder.Compile()
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.Execute([]compute.Buffer{in}, nil, device)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := out[0].DeviceNum(); err != nil || d != 2 {
			t.Errorf("the result is on device %d, %v; want 2", d, err)
		}
		moved, err := out[0].CopyToDevice(1)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int32, 2)
		if err := moved.ToFlatData(got); err != nil || got[0] != -3 || got[1] != -4 {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if _, err := b.BufferFromFlatData(3, []int32{3, 4}, shape); err == nil ||
		!strings.Contains(err.Error(), "devices 0 to 2") {
		t.Errorf("a device too many: %v", err)
	}
	if _, err := b.BufferFromFlatData(0, []int32{3, 4, 5}, shape); err == nil {
		t.Error("data of another size: no error")
	}
	if _, err := b.BufferFromFlatData(0, []float32{3, 4}, shape); err == nil {
		t.Error("data of another type: no error")
	}
	if _, err := xla.New(xla.Options{Plugin: cpuPlugin(t),
		ClientOptions: map[string]any{"no_such_option": 1}}); err == nil {
		t.Error("an unknown client option: no error")
	}
	b.Finalize()
	if err := in.ToFlatData(make([]int32, 2)); err == nil {
		t.Error("a buffer of a finalized backend is readable")
	}
}

func TestFreeMemory(t *testing.T) {
	b := newBackend(t, xla.Options{})
	if n, err := b.FreeMemory(0); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := b.FreeMemory(99); err == nil {
		t.Error("a device too many: no error")
	}
}
