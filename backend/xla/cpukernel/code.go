package cpukernel

/*
#include "code.h"
#include "cpu.h"
*/
import "C"

import "log/slog"

// Code is the level of each kernel's code in code.h, an index of [Levels].
type Code struct {
	Attend, Quantize, NormRows, RopeRows, SampleRow, LogprobsRow, EntropyRow, Recurrences int
}

// CodeAt returns code that is all of one level.
func CodeAt(level int) Code { return Code{level, level, level, level, level, level, level, level} }

// SameAsAVX2 reports whether the code of these levels computes the same as AVX2's, bit by bit, for some fixed inputs.
// Only AMX's attention to bf16 may round differently.
func (c Code) SameAsAVX2() bool {
	code := C.q_code{
		attend:       C.q_code_at(C.int(c.Attend)).attend,
		quantize:     C.q_code_at(C.int(c.Quantize)).quantize,
		norm_rows:    C.q_code_at(C.int(c.NormRows)).norm_rows,
		rope_rows:    C.q_code_at(C.int(c.RopeRows)).rope_rows,
		sample_row:   C.q_code_at(C.int(c.SampleRow)).sample_row,
		logprobs_row: C.q_code_at(C.int(c.LogprobsRow)).logprobs_row,
		entropy_row:  C.q_code_at(C.int(c.EntropyRow)).entropy_row,
		recurrences:  C.q_code_at(C.int(c.Recurrences)).recurrences,
	}
	return C.q_code_same(&code) != 0
}

// UseCode chooses the level of the code in code.h: the given one, or AVX2 if code for a higher level is not right on
// this machine. Tests run on few processors that have more than AVX2. It returns the level.
func UseCode(level int, right func() bool) int {
	if level > C.Q_AVX2 && !right() {
		slog.Warn("kernels other than linear layers are wrong with this processor's instructions, and use fewer",
			"has", Levels[level], "runs", Levels[C.Q_AVX2])
		level = C.Q_AVX2
	}
	C.q_code_use(C.int(level))
	return level
}
