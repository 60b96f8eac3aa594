#define _GNU_SOURCE // madvise
#include "peak.h"

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cpu.h"

q_peak q_peak_f32(void) {
	int level = q_level();
	return level >= Q_AVX512 ? q_peak_avx512() : level >= Q_AVX2 ? q_peak_avx2() : q_peak_plain();
}

q_peak q_peak_bf16(void) {
	int level = q_level();
	return level >= Q_AMX ? q_peak_amx() : level >= Q_AVX512BF16 ? q_peak_avx512bf16() : q_peak_f32();
}

q_peak q_peak_int8(void) {
	switch (q_level()) {
	case Q_PLAIN: return q_peak_int8_plain();
	case Q_AVX2: return q_peak_int8_avx2();
	case Q_AVX512: return q_peak_int8_avx512();
	case Q_AVX512BF16: return q_peak_int8_vnni();
	}
	return q_peak_int8_amx();
}

uint64_t q_peak_read(const uint64_t *from, int64_t n) {
	return q_level() >= Q_AVX2 ? q_peak_read_avx2(from, n) : q_peak_read_plain(from, n);
}

uint64_t *q_peak_memory(size_t n) {
	enum { LARGE = 1 << 21 };
	void *p = aligned_alloc(LARGE, (n + LARGE - 1) / LARGE * LARGE);
#if defined(__linux__)
	if (p) madvise(p, n, MADV_HUGEPAGE); // advice
#endif
	return p;
}
