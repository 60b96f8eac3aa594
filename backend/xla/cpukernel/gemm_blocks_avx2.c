#include "cpu.h"

#if defined(Q_X86)
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#define Q_CODE q_blocks_avx2
#define Q_WIDE 1
#define Q_ROWS 4
#include "gemm_blocks_code.h"
#endif
