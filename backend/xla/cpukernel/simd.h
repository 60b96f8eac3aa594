// Vectors of float32 for the level of the file that includes this. Such a file begins with
//
//	#define Q_SIMD Q_AVX2 // or Q_PLAIN, Q_AVX512
//	#define Q_NAME(name) name##_avx2
//	#include "simd.h"
//
// and is compiled to nothing if Q_SIMD_MISSING is then defined: this processor family or compiler lacks the level.
//
// A lane is one element of a result all along, and sums are chains of vfma: results do not depend on the width, and
// Q_AVX512 gives the bytes of Q_AVX2. Q_PLAIN rounds twice when the others fuse.
#ifndef QUIRE_SIMD_H
#define QUIRE_SIMD_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

#ifndef Q_SIMD
#error "define Q_SIMD"
#endif

#if Q_SIMD != Q_PLAIN && !defined(Q_X86)
#define Q_SIMD_MISSING
#endif

#if defined(Q_SIMD_MISSING)
#elif Q_SIMD == Q_AVX512
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define Q_WIDTH 16
#elif Q_SIMD == Q_AVX2
#pragma GCC target("avx2,fma,f16c")
#define Q_WIDTH 8
#else
#define Q_WIDTH 4
#endif

#if !defined(Q_SIMD_MISSING)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns") // otherwise loops over a few vectors become calls of memcpy
#endif
#if Q_SIMD != Q_PLAIN
#include <immintrin.h>
#endif

#include "convert.h"
#include "ffi.h"

#define Q_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * Q_WIDTH)));
typedef int32_t vi __attribute__((vector_size(4 * Q_WIDTH)));
typedef uint32_t vu __attribute__((vector_size(4 * Q_WIDTH)));
typedef uint16_t vh __attribute__((vector_size(2 * Q_WIDTH)));

Q_INLINE vf vload(const float *p) {
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

Q_INLINE void vstore(float *p, vf v) { memcpy(p, &v, sizeof v); }

// Nothing is computed: x - 0 is x, also for -0, unlike x + 0.
Q_INLINE vf vset(float x) { return x - (vf){}; }

Q_INLINE vi viset(int32_t x) { return (vi){} + x; }

// vselect returns a if mask is all ones, b if it is 0.
Q_INLINE vf vselect(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

#if Q_SIMD == Q_AVX512
Q_INLINE vf vfma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
Q_INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
Q_INLINE vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
Q_INLINE vf vfrom_f16(const uint16_t *p) { return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
Q_INLINE void vto_f16(uint16_t *p, vf v) {
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
#elif Q_SIMD == Q_AVX2
Q_INLINE vf vfma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
Q_INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
Q_INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
Q_INLINE vf vfrom_f16(const uint16_t *p) { return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
Q_INLINE void vto_f16(uint16_t *p, vf v) {
	_mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
#else
Q_INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; }
Q_INLINE vf vmax(vf a, vf b) { return vselect((vi)(a > b), a, b); }
Q_INLINE vf vmin(vf a, vf b) { return vselect((vi)(a < b), a, b); }
Q_INLINE vf vfrom_f16(const uint16_t *p) {
	vf v;
	for (int i = 0; i < Q_WIDTH; i++) v[i] = q_from_f16(p[i]);
	return v;
}
Q_INLINE void vto_f16(uint16_t *p, vf v) {
	for (int i = 0; i < Q_WIDTH; i++) p[i] = q_to_f16(v[i]);
}
#endif

Q_INLINE vf vfrom_bf16(const uint16_t *p) {
#if Q_SIMD == Q_AVX512
	return (vf)((vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)) << 16);
#elif Q_SIMD == Q_AVX2
	return (vf)((vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)) << 16);
#else
	vh v;
	memcpy(&v, p, sizeof v);
	return (vf)(__builtin_convertvector(v, vu) << 16);
#endif
}

// vround_bf16 rounds v to bf16.
Q_INLINE vf vround_bf16(vf v) {
	vu b = (vu)v, rounded = b + 0x7fff + ((b >> 16) & 1);
	vi nan = (vi)(v != v);
	return (vf)((((vu)nan & (b | 0x400000)) | (~(vu)nan & rounded)) & 0xffff0000);
}

Q_INLINE void vto_bf16(uint16_t *p, vf v) {
	vh h = __builtin_convertvector((vu)vround_bf16(v) >> 16, vh);
	memcpy(p, &h, sizeof h);
}

// vread and vwrite convert Q_WIDTH elements, starting with number i, of an array of float32, bf16 or f16.
Q_INLINE vf vread(const void *p, int dtype, int64_t i) {
	switch (dtype) {
	case Q_BF16: return vfrom_bf16((const uint16_t *)p + i);
	case Q_F16: return vfrom_f16((const uint16_t *)p + i);
	default: return vload((const float *)p + i);
	}
}

Q_INLINE void vwrite(void *p, int dtype, int64_t i, vf v) {
	switch (dtype) {
	case Q_BF16: vto_bf16((uint16_t *)p + i, v); break;
	case Q_F16: vto_f16((uint16_t *)p + i, v); break;
	default: vstore((float *)p + i, v); break;
	}
}

// vhighest returns the largest element.
Q_INLINE float vhighest(vf v) {
#if Q_SIMD == Q_AVX512
	return _mm512_reduce_max_ps((__m512)v);
#elif Q_SIMD == Q_AVX2
	__m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
#else
	float highest = v[0];
	for (int i = 1; i < Q_WIDTH; i++) highest = v[i] > highest ? v[i] : highest;
	return highest;
#endif
}

// vabove reports whether some element of v is above bound.
Q_INLINE int vabove(vf v, float bound) {
#if Q_SIMD == Q_AVX512
	return _mm512_cmp_ps_mask((__m512)v, (__m512)vset(bound), _CMP_GT_OQ) != 0;
#elif Q_SIMD == Q_AVX2
	return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)vset(bound), _CMP_GT_OQ)) != 0;
#else
	for (int i = 0; i < Q_WIDTH; i++) {
		if (v[i] > bound) return 1;
	}
	return 0;
#endif
}

// vtotal adds the elements: the upper half to the lower one, and so on.
Q_INLINE float vtotal(vf v) {
#if Q_SIMD == Q_PLAIN
	return (v[0] + v[2]) + (v[1] + v[3]);
#else
#if Q_SIMD == Q_AVX512
	__m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
	__m256 half = (__m256)v;
#endif
	__m128 q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
	q = _mm_add_ps(q, _mm_movehl_ps(q, q));
	return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
#endif
}

// Q_ROUND is 1.5 * 2^23: adding it to a number, and subtracting it again, rounds the number to an integer.
#define Q_ROUND 12582912.0f

// vexp is e^x: within 1.1 units in the last place from -87 to 88, 0 below and e^88 above; vexp(0) is 1. The
// polynomial is Cephes' for expf.
Q_INLINE vf vexp(vf x) {
	const vf magic = vset(Q_ROUND);
	vi low = (vi)(x < vset(-87.0f));
	x = vmax(vmin(x, vset(88.0f)), vset(-87.0f));
	vf t = vfma(x, vset(1.44269504088896341f), magic);
	vf n = t - magic;
	vf r = vfma(n, vset(-0.693359375f), x);
	r = vfma(n, vset(2.12194440e-4f), r);
	vf p = vset(1.9875691500e-4f);
	p = vfma(p, r, vset(1.3981999507e-3f));
	p = vfma(p, r, vset(8.3334519073e-3f));
	p = vfma(p, r, vset(4.1665795894e-2f));
	p = vfma(p, r, vset(1.6666665459e-1f));
	p = vfma(p, r, vset(5.0000001201e-1f));
	p = vfma(p, r * r, r) + vset(1.0f);
	vf scale = (vf)(((vi)t - (vi)magic + viset(127)) << 23);
	return (vf)(~low & (vi)(p * scale));
}

// vexp2 is 2^x for x < 127: within one unit in the last place from -125 on, 0 below, NaN for NaN; exact for integers.
// The polynomial has the smallest relative error for |r| <= 0.5, by Lawson's method.
Q_INLINE vf vexp2(vf x) {
	const vf magic = vset(Q_ROUND), lowest = vset(-125.0f);
	const vf y = vmax(lowest, x), t = y + magic, r = y - (t - magic);
	vf p = vset(0x1.41fbbcp-13f);
	p = vfma(p, r, vset(0x1.5f3e52p-10f));
	p = vfma(p, r, vset(0x1.3b2d4cp-7f));
	p = vfma(p, r, vset(0x1.c6aee8p-5f));
	p = vfma(p, r, vset(0x1.ebfbdcp-3f));
	p = vfma(p, r, vset(0x1.62e430p-1f));
	p = vfma(p, r, vset(1.0f));
	// The lowest bits of t are an integer, which is added to the exponent.
	const vi n = (vi)t << 23;
#if Q_SIMD == Q_AVX512
	const __mmask16 some = _mm512_cmp_ps_mask((__m512)x, (__m512)lowest, _CMP_NLT_UQ);
	return (vf)_mm512_maskz_add_epi32(some, (__m512i)p, (__m512i)n);
#else
	return (vf)(~(vi)(x < lowest) & ((vi)p + n));
#endif
}

// vtanh is the hyperbolic tangent within 1.4 units in the last place, after Cephes' tanhf.
Q_INLINE vf vtanh(vf x) {
	const vi sign_bit = viset(INT32_MIN);
	vf a = (vf)((vi)x & ~sign_bit);
	vf s = x * x;
	vf p = vset(-5.70498872745e-3f);
	p = vfma(p, s, vset(2.06390887954e-2f));
	p = vfma(p, s, vset(-5.37397155531e-2f));
	p = vfma(p, s, vset(1.33314422036e-1f));
	p = vfma(p, s, vset(-3.33332819422e-1f));
	p = vfma(p * s, x, x);
	vf big = vset(1.0f) - vset(2.0f) / (vexp(a + a) + vset(1.0f));
	return vselect((vi)(a < vset(0.625f)), p, (vf)((vi)big | ((vi)x & sign_bit)));
}

#endif
#endif
