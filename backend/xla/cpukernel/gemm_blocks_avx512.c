#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
// The same tiles, in pairs of registers of AVX2.
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define Q_V16 512
#endif
#define Q_CODE q_blocks_avx512
#define Q_WIDE 2
#define Q_ROWS 12
#include "gemm_blocks_code.h"
#endif
