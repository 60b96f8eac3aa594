package cpukernel

/*
#include "code.h"
#include "cpu.h"
*/
import "C"

import "log/slog"

// levels is the level of each kernel's code, of those in code.h.
type levels struct {
	attend, quantize, normRows, ropeRows, sampleRow, logprobsRow, entropyRow, recurrences int
}

// allAt is code that is all of one level.
func allAt(level int) levels { return levels{level, level, level, level, level, level, level, level} }

// sameAsAVX2 reports whether the code of these levels computes the same as AVX2's, bit by bit, for some fixed inputs.
// Only AMX's attention to bf16 may round differently.
func sameAsAVX2(l levels) bool {
	code := C.q_code{
		attend:       C.q_code_at(C.int(l.attend)).attend,
		quantize:     C.q_code_at(C.int(l.quantize)).quantize,
		norm_rows:    C.q_code_at(C.int(l.normRows)).norm_rows,
		rope_rows:    C.q_code_at(C.int(l.ropeRows)).rope_rows,
		sample_row:   C.q_code_at(C.int(l.sampleRow)).sample_row,
		logprobs_row: C.q_code_at(C.int(l.logprobsRow)).logprobs_row,
		entropy_row:  C.q_code_at(C.int(l.entropyRow)).entropy_row,
		recurrences:  C.q_code_at(C.int(l.recurrences)).recurrences,
	}
	return C.q_code_same(&code) != 0
}

// useCode chooses the level of the code in code.h: the given one, or AVX2 if code for a higher level is not right on
// this machine. Tests run on few processors that have more than AVX2. It returns the level.
func useCode(level int, right func() bool) int {
	if level > C.Q_AVX2 && !right() {
		slog.Warn("kernels other than linear layers are wrong with this processor's instructions, and use fewer",
			"has", Levels[level], "runs", Levels[C.Q_AVX2])
		level = C.Q_AVX2
	}
	C.q_code_use(C.int(level))
	return level
}
