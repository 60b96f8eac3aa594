// Loops that do nothing but the fastest arithmetic of a level, or reading. Each returns a known sum, so that skipped
// work is detected.
#ifndef QUIRE_PEAK_H
#define QUIRE_PEAK_H

#include <stddef.h>
#include <stdint.h>

// A loop of n rounds on registers: each of its accumulators gains a known number per round.
typedef struct {
	float (*run)(int64_t n); // returns the sum of all accumulators' elements; exact while it is below 2^24 for each
	double flops;            // floating point operations per round: a multiplication and an addition are two
	double sum;              // what run returns per round
} q_peak;

// q_peak_f32 and q_peak_bf16 return the loop at q_level() for products of float32 and of bfloat16 with sums in
// float32. If a level has no instruction for bfloat16, its kernels widen it, and the loop is float32's.
q_peak q_peak_f32(void);
q_peak q_peak_bf16(void);

// q_peak_int8 is the same for products of bytes with sums in int32.
q_peak q_peak_int8(void);

// q_peak_read returns the sum of n numbers. n is a multiple of 64.
uint64_t q_peak_read(const uint64_t *from, int64_t n);

// The loops of the levels; a q_peak without run is one that the compiler or the machine has no code for.
q_peak q_peak_plain(void), q_peak_avx2(void), q_peak_avx512(void), q_peak_avx512bf16(void), q_peak_amx(void);
q_peak q_peak_int8_plain(void), q_peak_int8_avx2(void), q_peak_int8_avx512(void), q_peak_int8_vnni(void),
	q_peak_int8_amx(void);
uint64_t q_peak_read_plain(const uint64_t *from, int64_t n), q_peak_read_avx2(const uint64_t *from, int64_t n);

// q_peak_memory returns n bytes for q_peak_read, on large pages like weights and caches, or NULL. Release them with
// free.
uint64_t *q_peak_memory(size_t n);

#endif
