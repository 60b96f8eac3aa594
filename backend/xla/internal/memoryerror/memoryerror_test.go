package memoryerror

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

func TestCompilerErrors(t *testing.T) {
	for text, want := range map[string][2]int64{
		"E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (16.00G) " +
			"exceeds available HBM (15.75G). HLO module: m.": {16 << 30, 63 << 28},
		"... the total memory required (512.50M) exceeds available HBM (95.75G)": {1025 << 19, 383 << 28},
		"E1000: CompileTimeHbmOom: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used " +
			"15.75G of 15.75G hbm. Exceeded hbm capacity by 2.50M.\n\nTotal hbm usage >= 16.00G:": {63<<28 + 5<<19,
			63 << 28},
		"RESOURCE_EXHAUSTED: out of something": {0, 0},
	} {
		err := Compiling("run", &pjrtc.Error{Call: "PJRT_Compile", Code: pjrtc.CodeResourceExhausted, Message: text})
		var oom *Device
		var cause *pjrtc.Error
		if !errors.As(err, &oom) || oom.Needed != want[0] || oom.Available != want[1] || oom.Program != "run" ||
			!errors.As(err, &cause) {
			t.Errorf("%q is read as %v", text, err)
		}
	}
	for text, want := range map[string][2]int64{
		"RESOURCE_EXHAUSTED: Attempting to allocate 2.00G. That was not possible. There are 1.50G free.; " +
			"(0x0x0_HBM0)": {2 << 30, 3 << 29},
		"Attempting to reserve 12.50GiB at the bottom of memory. That was not possible. There are 5.25GiB free, 0B " +
			"reserved": {25 << 29, 21 << 28},
		"RESOURCE_EXHAUSTED: no more": {0, 0},
	} {
		err := Running("run", errors.New(text))
		var oom *Device
		if !errors.As(err, &oom) || !oom.Running || oom.Needed != want[0] || oom.Available != want[1] {
			t.Errorf("%q is read as %v", text, err)
		}
	}
	var oom *Device
	if err := Running("run", errors.New("the device is gone")); errors.As(err, &oom) {
		t.Errorf("a lost device is read as %v", err)
	}
	if err := Compiling("run", &pjrtc.Error{Code: pjrtc.CodeInvalidArgument,
		Message: "no such operation"}); errors.As(err, &oom) {
		t.Errorf("a wrong program is read as %v", err)
	}
}

// What libtpu 0.0.51 reports if a kernel has too little of a core's memory. The first two are from the kernels for
// attention with a limit of 1 MiB of VMEM (scoped_memory_configs); the last is from one with a page table of 96 x 8192.
func TestKernelMemoryErrors(t *testing.T) {
	for file, want := range map[string]Kernel{
		"vmem-attention": {Space: VMEM, Needed: compilerBytes("3.54M"), Limit: 1 << 20, Operation: "bf16[128,32,128]"},
		"vmem-update": {Space: VMEM, Needed: compilerBytes("3.50M"), Limit: 1 << 20,
			Operation: "bf16[8,128,2,2,128]"},
		"smem": {Space: SMEM, Needed: 3 << 20, Limit: 1 << 20},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "memory", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		err = Compiling("run", &pjrtc.Error{Code: pjrtc.CodeResourceExhausted, Message: string(text)})
		var lack *Kernel
		var oom *Device
		if !errors.As(err, &lack) || errors.As(err, &oom) || lack.Space != want.Space || lack.Needed != want.Needed ||
			lack.Limit != want.Limit || !strings.Contains(lack.Operation, want.Operation) || lack.TryAgain() != "" {
			t.Errorf("%s is read as %v: %+v", file, err, lack)
		}
	}
}
