// A clock within a program: how long the rounds of a loop took, by what they did.
#ifndef QUIRE_STEP_CLOCK_H
#define QUIRE_STEP_CLOCK_H

#include "ffi.h"

// quire_step_clock(clock s64[2 + K], kind s32[]) -> clock, in place, and kind. The clock has the time of the last
// call in nanoseconds (0: there was none), the kind that call passed, and for each kind from 0 to K - 1 the sum of
// the times from a call to the next one. Other kinds are not counted.
//
// From call to call it also decides how many threads kernels use: see crowd.h.
q_error *quire_step_clock(q_frame *f);

// q_step_fewer_ns returns the time so far, in nanoseconds, in which kernels used fewer threads than allowed.
int64_t q_step_fewer_ns(void);

#endif
