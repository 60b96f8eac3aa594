#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define Q_V16 512
#define Q_CODE q_linear_avx512
#define Q_WIDE 2
#define Q_ROWS 12
#include "gemm_kernel.h"
#endif
