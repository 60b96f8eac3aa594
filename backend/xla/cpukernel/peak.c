#include "peak.h"

#include "cpu.h"

q_peak q_peak_f32(void) {
	int level = q_level();
	return level >= Q_AVX512 ? q_peak_avx512() : level >= Q_AVX2 ? q_peak_avx2() : q_peak_plain();
}

q_peak q_peak_bf16(void) {
	int level = q_level();
	return level >= Q_AMX ? q_peak_amx() : level >= Q_AVX512BF16 ? q_peak_avx512bf16() : q_peak_f32();
}

uint64_t q_peak_read(const uint64_t *from, int64_t n) {
	return q_level() >= Q_AVX2 ? q_peak_read_avx2(from, n) : q_peak_read_plain(from, n);
}
