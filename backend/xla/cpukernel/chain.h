// Several kernels in one custom call. XLA takes 1.5 to 2 us per call, and a small model has hundreds in a step.
#ifndef QUIRE_CHAIN_H
#define QUIRE_CHAIN_H

#include "ffi.h"

// quire_chain(operands...) -> results... calls kernels one after the other. Arrays are numbered: first the operands,
// then the results, then those that are a part of another one. Attributes:
//
//	kernels  a dictionary. An entry has the attributes of calls of one kernel; its name is "kNNN." and the kernel's,
//	         with NNN from 000 on
//	parts    s64[]: of each part the number of an operand or result, the offset in it in bytes, the element type as
//	         in ffi.h, the rank, and the dimensions
//	calls    s64[]: of each call the number of its entry in kernels, the numbers of its operands and of its results,
//	         and then the numbers of these arrays
q_error *quire_chain(q_frame *f);

// q_chain_add registers a kernel under a name, which is kept. All are added before the first call.
void q_chain_add(const char *name, q_handler kernel);

#endif
