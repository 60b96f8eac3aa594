package xla

import (
	"errors"
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
		err := compileError("run", &pjrtc.Error{Call: "PJRT_Compile", Code: pjrtc.CodeResourceExhausted, Message: text})
		var oom *OutOfMemoryError
		var cause *pjrtc.Error
		if !errors.As(err, &oom) || oom.Needed != want[0] || oom.Available != want[1] || oom.Program != "run" ||
			!errors.As(err, &cause) {
			t.Errorf("%q is read as %v", text, err)
		}
	}
	var oom *OutOfMemoryError
	if err := compileError("run", &pjrtc.Error{Code: pjrtc.CodeInvalidArgument,
		Message: "no such operation"}); errors.As(err, &oom) {
		t.Errorf("a wrong program is read as %v", err)
	}
}
