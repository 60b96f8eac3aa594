// Loops that do nothing but the fastest arithmetic of a level, or reading. Each returns a sum that is known, so that
// what was not done is noticed.
#ifndef QUIRE_PEAK_H
#define QUIRE_PEAK_H

#include <stddef.h>
#include <stdint.h>

// A loop of n rounds on registers: each of its accumulators gains a known number a round.
typedef struct {
	float (*run)(int64_t n); // returns the sum of all accumulators' elements; exact while it is below 2^24 for each
	double flops;            // floating point operations a round: a multiplication and an addition are two
	double sum;              // what run returns, a round
} q_peak;

// q_peak_f32 and q_peak_bf16 give the loop at q_level() for products of float32 and of bfloat16 with sums in float32.
// Where a level has no instruction for bfloat16, its kernels widen it, and the loop is that of float32.
q_peak q_peak_f32(void);
q_peak q_peak_bf16(void);

// q_peak_int8 is that for products of bytes with sums in int32.
q_peak q_peak_int8(void);

// q_peak_read returns the sum of n numbers. n is a multiple of 64.
uint64_t q_peak_read(const uint64_t *from, int64_t n);

// Those of the levels; a q_peak without run is one that the compiler or the machine has no code for.
q_peak q_peak_plain(void), q_peak_avx2(void), q_peak_avx512(void), q_peak_avx512bf16(void), q_peak_amx(void);
q_peak q_peak_int8_plain(void), q_peak_int8_avx2(void), q_peak_int8_avx512(void), q_peak_int8_vnni(void),
	q_peak_int8_amx(void);
uint64_t q_peak_read_plain(const uint64_t *from, int64_t n), q_peak_read_avx2(const uint64_t *from, int64_t n);

// q_peak_memory returns n bytes for q_peak_read, on large pages as weights and caches are, or NULL. free takes them.
uint64_t *q_peak_memory(size_t n);

#endif
