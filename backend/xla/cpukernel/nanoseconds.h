// Reads a clock of the system. Files that include this define _POSIX_C_SOURCE before anything else.
#ifndef QUIRE_NANOSECONDS_H
#define QUIRE_NANOSECONDS_H

#include <stdint.h>
#include <time.h>

static inline int64_t q_nanoseconds(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
