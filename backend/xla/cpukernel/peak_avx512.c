#include "cpu.h"
#include "peak.h"
#if defined(Q_X86)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#include <immintrin.h>
#define LANES 16
#define SUFFIX(x) x##_avx512
#define FMA(a, b, c) ((vector)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "peak_loop.h"
#else
q_peak q_peak_avx512(void) { return (q_peak){0}; }
#endif
