#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define Q_V16 512
#define Q_NORM_ROWS q_norm_rows_avx512
#define Q_ROPE_ROWS q_rope_rows_avx512
#include "norm_rows.h"
#endif
