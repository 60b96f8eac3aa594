#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#include "gemm_emulate.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,amx-tile,amx-int8")
#define Q_V16 512
#define Q_VNNI
#endif
#define Q_TILES
#define Q_CODE q_blocks_amx
#define Q_WIDE 2
#define Q_ROWS 16
#include "gemm_blocks_code.h"
#endif
