// How long the kernels run: each handler is replaced by one that takes the time around it.
#ifndef QUIRE_CLOCK_H
#define QUIRE_CLOCK_H

#include <stdint.h>

#include "ffi.h"

enum { Q_CLOCKS = 64 };

// q_clock returns the handler that calls the given one on clock i, 0 <= i < Q_CLOCKS. One clock is for one handler.
q_handler q_clock(int i, q_handler handler);

// q_clock_ns is the wall-clock time in nanoseconds that calls on clock i have taken so far.
int64_t q_clock_ns(int i);

#endif
