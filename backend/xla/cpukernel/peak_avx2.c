#include "cpu.h"
#include "peak.h"
#if defined(Q_X86)
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#define LANES 8
#define SUFFIX(x) x##_avx2
#define FMA(a, b, c) ((vector)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define READ
#include "peak_loop.h"
#else
q_peak q_peak_avx2(void) { return (q_peak){0}; }
uint64_t q_peak_read_avx2(const uint64_t *from, int64_t n) { return q_peak_read_plain(from, n); }
#endif
