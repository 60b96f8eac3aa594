// AVX-512 for panels of 16 columns, which bf16 matrices have on processors with AMX: for activations of other types.
#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define Q_V16 512
#endif
#define Q_CODE q_linear_avx512_16
#define Q_WIDE 1
#define Q_ROWS 12
#include "gemm_kernel.h"
#endif
