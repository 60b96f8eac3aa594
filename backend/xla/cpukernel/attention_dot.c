// Attention for processors with AVX-512's dot products of bf16 numbers: as for AVX-512, and with the same bits.
#define Q_NAME(name) name##_dot
#define Q_DOTS
#ifdef Q_EMULATE
#define Q_SIMD Q_AVX2
#include "simd.h"
#else
#define Q_SIMD Q_AVX512
#include "simd.h"
#ifndef Q_SIMD_MISSING
#pragma GCC target("avx512bf16")
#endif
#endif
#include "attention_impl.h"
