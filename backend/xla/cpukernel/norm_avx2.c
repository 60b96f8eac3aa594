#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#define Q_NORM_ROWS q_norm_rows_avx2
#define Q_ROPE_ROWS q_rope_rows_avx2
#include "norm_rows.h"
#endif
