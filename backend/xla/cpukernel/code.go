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

// sameAsAVX2 says that the code of these levels computes what AVX2's does, bit by bit, for some inputs that are always
// the same. Only AMX's attention to bf16 may round otherwise.
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

// useCode settles the level of the code in code.h: the one given, or AVX2 where there is code for more and it isn't
// right on this machine. Tests run on few processors that have more. It returns the level.
func useCode(level int, right func() bool) int {
	if level > C.Q_AVX2 && !right() {
		slog.Warn("kernels beside linear layers are wrong with what this processor has, and run with less",
			"has", Levels[level], "runs", Levels[C.Q_AVX2])
		level = C.Q_AVX2
	}
	C.q_code_use(C.int(level))
	return level
}
