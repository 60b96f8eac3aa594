package plan

import (
	"strings"
	"testing"

	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/plan/speed"
)

func TestFaults(t *testing.T) {
	fine := Report{DeviceMemory: 100 << 30, Temporary: 1 << 30, Matrix: 64 << 20,
		Kernels: []xla.KernelUse{{Composite: "attention", For: "32 heads", Kernel: "ragged"}},
		Programs: []Program{{Name: "init"},
			{Name: "run", Copied: &hlo.Copy{Bytes: 32 << 20, Array: "f32[64,131072]", In: "a step"}}}}
	for want, change := range map[string]func(r *Report){
		"": func(*Report) {},
		"temporaries: temporaries take 3.0 GiB, 3.0 % of the memory": func(r *Report) { r.Temporary = 3 << 30 },
		"copy: a layer of program run copies u8[64,2048], 96 MiB; the largest matrix has 64 MiB": func(r *Report) {
			copied := &hlo.Copy{Bytes: 96 << 20, Array: "u8[64,2048]", In: "a layer"}
			r.Programs = []Program{{Name: "run", Copied: copied}}
		},
		"attention: attention runs without a kernel, in ordinary operations, for 9 heads: none": func(r *Report) {
			r.Kernels = []xla.KernelUse{{Composite: "attention", For: "9 heads", Reason: "none"}}
		},
		"attention: attention runs without a kernel": func(r *Report) { r.Expected = &speed.Expected{} },
	} {
		r := fine
		change(&r)
		var got []string
		for _, f := range r.Faults() {
			got = append(got, f.Name+": "+f.Text)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("the faults are %q, want %q", got, want)
		}
	}
}
