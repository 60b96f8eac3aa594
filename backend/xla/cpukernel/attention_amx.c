// Attention for processors with AMX: as for AVX-512, but if all types are bf16, tiles multiply queries with keys and
// weights with values.
#define Q_NAME(name) name##_amx
#define Q_SCORE_TILES
#define Q_DOTS
#ifdef Q_EMULATE
#define Q_SIMD Q_AVX2
#include "simd.h"
#ifndef Q_SIMD_MISSING
#include "gemm_emulate.h"
#endif
#else
#define Q_SIMD Q_AVX512
#include "simd.h"
#ifndef Q_SIMD_MISSING
#pragma GCC target("amx-tile,amx-bf16,avx512bf16")
#endif
#endif
#include "attention_impl.h"
