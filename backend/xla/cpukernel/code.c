#include "code.h"

#include <stdatomic.h>

#include "attention_task.h"
#include "cpu.h"
#include "norm.h"
#include "recurrence_task.h"
#include "sampling.h"

// REST is what follows quantize. It is the same from AVX-512 on.
#define REST(level) \
	q_norm_rows_##level, q_rope_rows_##level, q_sample_row_##level, q_logprobs_row_##level, q_entropy_row_##level, \
		&q_recurrences_##level
static const q_code plain = {q_attend_plain, q_quantize_plain, REST(plain)};
#if defined(Q_X86)
static const q_code avx2 = {q_attend_avx2, q_quantize_avx2, REST(avx2)};
static const q_code avx512 = {q_attend_avx512, q_quantize_avx512, REST(avx512)};
static const q_code dot = {q_attend_dot, q_quantize_avx512, REST(avx512)};
static const q_code amx = {q_attend_amx, q_quantize_avx512, REST(avx512)};
#endif

static _Atomic(const q_code *) in_use = &plain;

const q_code *q_code_at(int level) {
#if defined(Q_X86)
	if (level >= Q_AMX) return &amx;
	if (level >= Q_AVX512BF16) return &dot;
	if (level >= Q_AVX512) return &avx512;
	if (level >= Q_AVX2) return &avx2;
#endif
	return &plain;
}

void q_code_use(int level) {
#ifdef Q_EMULATE
	static const q_code emulated = {
		Q_EMULATE == 4 ? q_attend_amx : q_attend_dot, q_quantize_avx2, REST(avx2)};
	if (level >= Q_AVX2) {
		atomic_store(&in_use, &emulated);
		return;
	}
#endif
	atomic_store(&in_use, q_code_at(level));
}

const q_code *q_code_in_use(void) { return atomic_load_explicit(&in_use, memory_order_relaxed); }
