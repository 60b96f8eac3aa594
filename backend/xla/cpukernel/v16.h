// Sixteen float32 numbers at a time, in one register of AVX-512, two of AVX2, or sixteen plain variables. A file that
// includes this defines Q_V16 as the bits of a register, 512, 256 or 0, after the #pragma GCC target that allows it.
// AVX2 and AVX-512 give the same bits; plain code has no fused multiply-add, so that it may differ by rounding.
#ifndef QUIRE_V16_H
#define QUIRE_V16_H

#include "convert.h"

// The larger of two numbers is the second if either is NaN. v16_ge has bit i for lane i, and none for NaN. v16_keep
// is x if x >= bound, else 0; v16_only is x in the lanes whose bits are set. v16_int rounds towards zero.
// v16i_shift23 shifts the bits left by 23. v16_store_s8 writes integers as bytes, and 0 for those outside -127 to
// 127.
#if Q_V16 == 512
#include <immintrin.h>

typedef __m512 v16;
typedef __m512i v16i;

static inline v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
static inline __m256 v16_low(v16 x) { return _mm512_castps512_ps256(x); }
static inline __m256 v16_high(v16 x) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)); }
static inline void v16_store(float *p, v16 x) { _mm512_storeu_ps(p, x); }
static inline v16i v16i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void v16i_store(int32_t *p, v16i x) { _mm512_storeu_si512(p, x); }
static inline v16 v16_set(float x) { return _mm512_set1_ps(x); }
static inline v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
static inline v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v16_fnma(v16 a, v16 b, v16 c) { return _mm512_fnmadd_ps(a, b, c); }
static inline unsigned v16_ge(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline v16 v16_only(unsigned bits, v16 x, v16 other) { return _mm512_mask_mov_ps(other, bits, x); }
static inline v16 v16_keep(v16 x, v16 bound) {
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_GE_OQ), x);
}
static inline v16i v16_int(v16 x) { return _mm512_cvttps_epi32(x); }
static inline v16 v16i_float(v16i x) { return _mm512_cvtepi32_ps(x); }
static inline v16i v16i_zero(void) { return _mm512_setzero_si512(); }
static inline v16i v16i_add(v16i a, v16i b) { return _mm512_add_epi32(a, b); }
static inline v16 v16_shift23(v16 x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23)); }
static inline v16 v16_load_bf16(const uint16_t *p) {
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline v16 v16_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline void v16_store_f16(uint16_t *p, v16 x) {
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void v16_store_s8(int8_t *p, v16 x) {
	__mmask16 fits = _mm512_cmp_ps_mask(x, v16_set(-127), _CMP_GE_OQ) & _mm512_cmp_ps_mask(x, v16_set(127), _CMP_LE_OQ);
	_mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(fits, x)));
}
#if defined(__AVX512BF16__)
// The same numbers: this code runs with subnormal numbers as zero, as the instruction takes them.
static inline void v16_store_bf16(uint16_t *p, v16 x) {
	_mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x));
}
#else
static inline void v16_store_bf16(uint16_t *p, v16 x) {
	__m512i b = _mm512_castps_si512(x);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
	__m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
	__m512i nan = _mm512_or_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(0x40));
	rounded = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(rounded));
}
#endif

#elif Q_V16 == 256
#include <immintrin.h>

typedef struct {
	__m256 a, b;
} v16;
typedef struct {
	__m256i a, b;
} v16i;

static inline v16 v16_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline __m256 v16_low(v16 x) { return x.a; }
static inline __m256 v16_high(v16 x) { return x.b; }
static inline void v16_store(float *p, v16 x) {
	_mm256_storeu_ps(p, x.a);
	_mm256_storeu_ps(p + 8, x.b);
}
static inline v16i v16i_load(const void *p) {
	return (v16i){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
static inline void v16i_store(int32_t *p, v16i x) {
	_mm256_storeu_si256((__m256i *)p, x.a);
	_mm256_storeu_si256((__m256i *)(p + 8), x.b);
}
static inline v16 v16_set(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v16_max(v16 x, v16 y) { return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
static inline v16 v16_add(v16 x, v16 y) { return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline v16 v16_sub(v16 x, v16 y) { return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline v16 v16_mul(v16 x, v16 y) { return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline v16 v16_div(v16 x, v16 y) { return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline v16 v16_fma(v16 x, v16 y, v16 z) {
	return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline v16 v16_fnma(v16 x, v16 y, v16 z) {
	return (v16){_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
static inline unsigned v16_ge(v16 x, v16 y) {
	unsigned a = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ)),
			 b = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ));
	return a | b << 8;
}
static inline __m256 v8_only(unsigned bits, __m256 x, __m256 other) {
	const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	__m256i taken = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), lane), lane);
	return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(taken));
}
static inline v16 v16_only(unsigned bits, v16 x, v16 other) {
	return (v16){v8_only(bits, x.a, other.a), v8_only(bits >> 8, x.b, other.b)};
}
static inline v16 v16_keep(v16 x, v16 y) {
	return (v16){_mm256_and_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), x.a),
		_mm256_and_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ), x.b)};
}
static inline v16i v16_int(v16 x) { return (v16i){_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
static inline v16 v16i_float(v16i x) { return (v16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
static inline v16i v16i_zero(void) { return (v16i){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline v16i v16i_add(v16i x, v16i y) { return (v16i){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
static inline v16 v16_shift23(v16 x) {
	return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.a), 23)),
		_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.b), 23))};
}
static inline __m256 v8_load_bf16(const uint16_t *p) {
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline v16 v16_load_bf16(const uint16_t *p) { return (v16){v8_load_bf16(p), v8_load_bf16(p + 8)}; }
static inline v16 v16_load_f16(const uint16_t *p) {
	return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
		_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
static inline void v16_store_f16(uint16_t *p, v16 x) {
	_mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	_mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline __m256i v8_bf16(__m256 x) {
	__m256i b = _mm256_castps_si256(x);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
	__m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
	__m256i nan = _mm256_or_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(0x40));
	return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
static inline void v16_store_bf16(uint16_t *p, v16 x) {
	__m256i packed = _mm256_packus_epi32(v8_bf16(x.a), v8_bf16(x.b));
	_mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline __m256i v8_small(__m256 x) {
	__m256 fits = _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-127), _CMP_GE_OQ),
		_mm256_cmp_ps(x, _mm256_set1_ps(127), _CMP_LE_OQ));
	return _mm256_cvtps_epi32(_mm256_and_ps(x, fits));
}
static inline void v16_store_s8(int8_t *p, v16 x) {
	__m256i all = _mm256_permute4x64_epi64(_mm256_packs_epi32(v8_small(x.a), v8_small(x.b)), 0xd8);
	_mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}

#else

// Sixteen numbers are four vectors of four, because sixteen variables take compilers up to ten times as long. What is
// computed number by number is not inlined for the same reason.
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef struct {
	v4 x[4];
} v16;
typedef struct {
	v4i x[4];
} v16i;

#define V16_EACH(expression) \
	for (int i = 0; i < 4; i++) r.x[i] = (expression)
#define V16_LANES for (int i = 0; i < 16; i++)
#define V16_LANE(v) (v).x[i / 4][i % 4]
#define V16_APART static __attribute__((noinline, unused))
static inline v4 v4_only(v4i taken, v4 x, v4 y) { return (v4)((taken & (v4i)x) | (~taken & (v4i)y)); }
static inline v16 v16_load(const float *p) {
	v16 r;
	memcpy(&r, p, sizeof r);
	return r;
}
static inline void v16_store(float *p, v16 x) { memcpy(p, &x, sizeof x); }
static inline v16i v16i_load(const void *p) {
	v16i r;
	memcpy(&r, p, sizeof r);
	return r;
}
static inline void v16i_store(int32_t *p, v16i x) { memcpy(p, &x, sizeof x); }
static inline v16 v16_set(float x) {
	v16 r;
	V16_EACH(((v4){x, x, x, x}));
	return r;
}
static inline v16 v16_max(v16 x, v16 y) {
	v16 r;
	V16_EACH(v4_only(x.x[i] > y.x[i], x.x[i], y.x[i]));
	return r;
}
static inline v16 v16_add(v16 x, v16 y) {
	v16 r;
	V16_EACH(x.x[i] + y.x[i]);
	return r;
}
static inline v16 v16_sub(v16 x, v16 y) {
	v16 r;
	V16_EACH(x.x[i] - y.x[i]);
	return r;
}
static inline v16 v16_mul(v16 x, v16 y) {
	v16 r;
	V16_EACH(x.x[i] * y.x[i]);
	return r;
}
static inline v16 v16_div(v16 x, v16 y) {
	v16 r;
	V16_EACH(x.x[i] / y.x[i]);
	return r;
}
static inline v16 v16_fma(v16 x, v16 y, v16 z) {
	v16 r;
	V16_EACH(x.x[i] * y.x[i] + z.x[i]);
	return r;
}
static inline v16 v16_fnma(v16 x, v16 y, v16 z) {
	v16 r;
	V16_EACH(z.x[i] - x.x[i] * y.x[i]);
	return r;
}
static inline unsigned v16_ge(v16 x, v16 y) {
	unsigned m = 0;
	V16_LANES m |= (unsigned)(V16_LANE(x) >= V16_LANE(y)) << i;
	return m;
}
static inline v16 v16_only(unsigned bits, v16 x, v16 y) {
	const v4i lanes = {1, 2, 4, 8};
	v16 r;
	V16_EACH(v4_only((lanes << 4 * i & (int32_t)bits) != 0, x.x[i], y.x[i]));
	return r;
}
static inline v16 v16_keep(v16 x, v16 y) {
	v16 r;
	V16_EACH((v4)((v4i)x.x[i] & (x.x[i] >= y.x[i])));
	return r;
}
static inline v16i v16_int(v16 x) {
	v16i r;
	V16_EACH(__builtin_convertvector(x.x[i], v4i));
	return r;
}
static inline v16 v16i_float(v16i x) {
	v16 r;
	V16_EACH(__builtin_convertvector(x.x[i], v4));
	return r;
}
static inline v16i v16i_zero(void) {
	v16i r;
	V16_EACH((v4i){});
	return r;
}
static inline v16i v16i_add(v16i x, v16i y) {
	v16i r;
	V16_EACH(x.x[i] + y.x[i]);
	return r;
}
static inline v16 v16_shift23(v16 x) {
	v16 r;
	V16_EACH((v4)((v4i)x.x[i] << 23));
	return r;
}
V16_APART v16 v16_load_bf16(const uint16_t *p) {
	v16 r;
	V16_LANES V16_LANE(r) = q_from_bf16(p[i]);
	return r;
}
V16_APART void v16_store_bf16(uint16_t *p, v16 x) {
	V16_LANES p[i] = q_to_bf16(V16_LANE(x));
}
V16_APART v16 v16_load_f16(const uint16_t *p) {
	v16 r;
	V16_LANES V16_LANE(r) = q_from_f16(p[i]);
	return r;
}
V16_APART void v16_store_f16(uint16_t *p, v16 x) {
	V16_LANES p[i] = q_to_f16(V16_LANE(x));
}
static inline void v16_store_s8(int8_t *p, v16 x) {
	V16_LANES p[i] = V16_LANE(x) >= -127 && V16_LANE(x) <= 127 ? (int8_t)V16_LANE(x) : 0;
}
#undef V16_EACH
#undef V16_LANES
#undef V16_LANE
#undef V16_APART

#endif

// v16_sum adds the lanes in one order: pairs at distance 8, 4, 2, 1. v16_largest compares them in that order.
#if Q_V16 >= 256
#define V16_FOLD(name, fold) \
	static inline float name(v16 x) { \
		__m256 h = _mm256_##fold##_ps(v16_low(x), v16_high(x)); \
		__m128 q = _mm_##fold##_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)); \
		q = _mm_##fold##_ps(q, _mm_movehl_ps(q, q)); \
		return _mm_cvtss_f32(_mm_##fold##_ss(q, _mm_shuffle_ps(q, q, 1))); \
	}
#else
#define V16_FOLD(name, fold) \
	static inline float name(v16 x) { \
		float lanes[16]; \
		v16_store(lanes, x); \
		for (int n = 8; n; n /= 2) { \
			for (int i = 0; i < n; i++) lanes[i] = v16_##fold##1(lanes[i], lanes[i + n]); \
		} \
		return lanes[0]; \
	}
static inline float v16_add1(float a, float b) { return a + b; }
static inline float v16_max1(float a, float b) { return a > b ? a : b; }
#endif
V16_FOLD(v16_sum, add)
V16_FOLD(v16_largest, max)
#undef V16_FOLD

static inline int64_t v16i_sum(v16i x) {
	int32_t s[16];
	int64_t sum = 0;
	v16i_store(s, x);
	for (int i = 0; i < 16; i++) sum += s[i];
	return sum;
}

// v16_exp2 is 2^n exp(r), given n + 127 in the lowest bits of shifted and |r| <= ln(2) / 2: the polynomial is within
// 4e-9 of exp(r).
static inline v16 v16_exp2(v16 shifted, v16 r) {
	v16 p = v16_fma(v16_set(0x1.6a2434p-10f), r, v16_set(0x1.1239e2p-7f));
	p = v16_fma(p, r, v16_set(0x1.5558f2p-5f));
	p = v16_fma(p, r, v16_set(0x1.555492p-3f));
	p = v16_fma(p, r, v16_set(0x1.fffffcp-2f));
	p = v16_add(v16_fma(p, v16_mul(r, r), r), v16_set(1));
	return v16_mul(p, v16_shift23(shifted));
}

// V16_MAGIC, added to n, moves n + 127 to the lowest bits, and a shift makes it an exponent. Numbers below V16_LOWEST
// count as that: their exponential is almost 0.
#define V16_MAGIC (0x1.8p23f + 127)
#define V16_LOWEST -87.0f

// v16_exp is the exponential function for x <= 0, with a relative error of 1.5e-7: exactly 1 at 0, at most 1, NaN for
// NaN.
static inline v16 v16_exp(v16 x) {
	x = v16_max(v16_set(V16_LOWEST), x);
	v16 shifted = v16_fma(x, v16_set(0x1.715476p0f), v16_set(V16_MAGIC)), n = v16_sub(shifted, v16_set(V16_MAGIC));
	v16 r = v16_fnma(n, v16_set(0x1.63p-1f), x); // exact: both factors are short
	return v16_exp2(shifted, v16_fnma(n, v16_set(-0x1.bd0106p-13f), r));
}

// A temperature t, prepared: exp(x / t) needs no division, as x / t = n ln 2 + (x - n t ln 2) / t.
typedef struct {
	float lowest, log2e, upper, lower, inverse;
} v16_heat;

static inline v16_heat v16_heated(float t) {
	double ln2 = t * 0x1.62e42fefa39efp-1;
	return (v16_heat){V16_LOWEST * t, 1 / ln2, ln2, ln2 - (float)ln2, 1 / t};
}

// v16_exp_heated is exp(x / t), computed as v16_exp computes exp(x).
static inline v16 v16_exp_heated(v16 x, const v16_heat *h) {
	x = v16_max(v16_set(h->lowest), x);
	v16 shifted = v16_fma(x, v16_set(h->log2e), v16_set(V16_MAGIC)), n = v16_sub(shifted, v16_set(V16_MAGIC));
	v16 r = v16_fnma(n, v16_set(h->lower), v16_fnma(n, v16_set(h->upper), x));
	return v16_exp2(shifted, v16_mul(r, v16_set(h->inverse)));
}

#endif
