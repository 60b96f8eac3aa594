// The loops of peak.h, to be included by a file for one instruction set, which defines
//	LANES     float32 numbers in a register
//	SUFFIX(x) the name of this level's x
#include "peak.h"

enum { ACCUMULATORS = 12 }; // more than latency times throughput of any multiply-add unit, fewer than the registers

typedef float vector __attribute__((vector_size(4 * LANES)));

#ifndef FMA
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

static float loop(int64_t n) {
	vector acc[ACCUMULATORS] = {{0}}, one = {0};
	one += 1.0f;
	// Nor that the accumulators are equal, or it would keep one, and count it for all.
#pragma GCC unroll 16
	for (int k = 0; k < ACCUMULATORS; k++) __asm__ volatile("" : "+x"(acc[k]));
	for (int64_t i = 0; i < n; i++) {
		// The compiler must not know the number. The product is of the accumulator, or it would be computed once for
		// all.
		__asm__ volatile("" : "+x"(one));
#pragma GCC unroll 16
		for (int k = 0; k < ACCUMULATORS; k++) acc[k] = FMA(acc[k], one, one);
	}
	float sum = 0;
	for (int k = 0; k < ACCUMULATORS; k++) {
		for (int l = 0; l < LANES; l++) sum += acc[k][l];
	}
	return sum;
}

q_peak SUFFIX(q_peak)(void) { return (q_peak){loop, 2.0 * LANES * ACCUMULATORS, LANES * ACCUMULATORS}; }

#ifdef READ
uint64_t SUFFIX(q_peak_read)(const uint64_t *from, int64_t n) {
	typedef uint64_t words __attribute__((vector_size(4 * LANES)));
	enum { EACH = LANES / 2, AT_ONCE = 8 };
	words acc[AT_ONCE] = {{0}};
	for (int64_t i = 0; i + AT_ONCE * EACH <= n; i += AT_ONCE * EACH) {
#pragma GCC unroll 8
		for (int k = 0; k < AT_ONCE; k++) {
			words w;
			__builtin_memcpy(&w, from + i + k * EACH, sizeof w);
			acc[k] += w;
		}
	}
	uint64_t sum = 0;
	for (int k = 0; k < AT_ONCE; k++) {
		for (int l = 0; l < EACH; l++) sum += acc[k][l];
	}
	return sum;
}
#endif
