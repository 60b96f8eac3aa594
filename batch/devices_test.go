package batch

import "testing"

func TestDevicesOfTheCPU(t *testing.T) {
	e := Engine{Backend: "xla:cpu", TP: 4, DP: 2}
	if o := e.clientOptions(nil); o["cpu_device_count"] != 8 {
		t.Errorf("options %v", o)
	}
	if o := e.clientOptions(&Hosts{Processes: 2}); o["cpu_device_count"] != 4 {
		t.Errorf("options of one of two processes %v", o)
	}
	e.Backend = "xla:tpu"
	if o := e.clientOptions(nil); o != nil {
		t.Errorf("options %v", o)
	}
	one := DefaultSpec().Engine
	if o := one.clientOptions(nil); o != nil {
		t.Errorf("options %v", o)
	}
}
