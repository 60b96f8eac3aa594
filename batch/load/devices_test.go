package load

import (
	"slices"
	"testing"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
)

func TestDevicesOfTheCPU(t *testing.T) {
	e := spec.Engine{Backend: "xla:cpu", TP: 4, DP: 2}
	if o := clientOptions(&e, nil); o["cpu_device_count"] != 8 {
		t.Errorf("options %v", o)
	}
	if o := clientOptions(&e, &process.Hosts{Processes: 2}); o["cpu_device_count"] != 4 {
		t.Errorf("options of one of two processes %v", o)
	}
	e.Backend = "xla:cuda" // a client would take all GPUs of the host
	if o := clientOptions(&e, nil); !slices.Equal(o["visible_devices"].([]int64), []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("options %v", o)
	}
	e.Backend = "xla:tpu"
	if o := clientOptions(&e, nil); o != nil {
		t.Errorf("options %v", o)
	}
	one := spec.Default().Engine
	if o := clientOptions(&one, nil); o != nil {
		t.Errorf("options %v", o)
	}
}
