package load

import (
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
	e.Backend = "xla:tpu"
	if o := clientOptions(&e, nil); o != nil {
		t.Errorf("options %v", o)
	}
	one := spec.Default().Engine
	if o := clientOptions(&one, nil); o != nil {
		t.Errorf("options %v", o)
	}
}
