// How the attention kernels read numbers of queries, keys and values as float32. Included once per instruction set,
// by attention_impl.h, after simd.h.
#ifndef QUIRE_ATTENTION_NUMBERS_H
#define QUIRE_ATTENTION_NUMBERS_H

#include "attention_task.h"

// 8-bit floats are read as float16 with the same bits, which is 2^-8 of their value: the scales compensate for it.
enum { E4M3_UNIT = 256 };

static inline float from_e4m3(uint8_t x) { return q_from_f16((uint16_t)((x & 0x80) << 8 | (x & 0x7f) << 7)); }

static float element(const void *p, int dtype, int64_t i) {
	switch (dtype) {
	case Q_S8: return ((const int8_t *)p)[i];
	case Q_U8: return from_e4m3(((const uint8_t *)p)[i]);
	case Q_BF16: return q_from_bf16(((const uint16_t *)p)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)p)[i]);
	default: return ((const float *)p)[i];
	}
}

#if Q_SIMD == Q_AVX512
// numbers16 converts the bytes of a vector of numbers.
Q_INLINE vf numbers16(__m128i bytes, const int dtype) {
	if (dtype == Q_S8) return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
	__m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
	return (vf)_mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16((short)0xbfff)));
}
#endif

// read_numbers reads Q_WIDTH numbers, from number i on.
Q_INLINE vf read_numbers(const void *p, const int dtype, int64_t i) {
	if (dtype != Q_S8 && dtype != Q_U8) return vread(p, dtype, i);
	const char *from = (const char *)p + i;
#if Q_SIMD == Q_AVX512
	return numbers16(_mm_loadu_si128((const __m128i *)from), dtype);
#elif Q_SIMD == Q_AVX2
	__m128i bytes = _mm_loadl_epi64((const __m128i *)from);
	if (dtype == Q_S8) return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
	return (vf)_mm256_cvtph_ps(
		_mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7), _mm_set1_epi16((short)0xbfff)));
#else
	vf v = {};
	for (int k = 0; k < Q_WIDTH; k++) v[k] = element(from, dtype, k);
	return v;
#endif
}

// unpack converts a row of dim elements to float32, with zeros up to padded.
Q_INLINE void unpack(const char *p, int dtype, int64_t dim, int64_t padded, float *to) {
	int64_t d = 0;
	for (; d + Q_WIDTH <= dim; d += Q_WIDTH) vstore(to + d, read_numbers(p, dtype, d));
	for (; d < dim; d++) to[d] = element(p, dtype, d);
	for (; d < padded; d++) to[d] = 0;
}

#endif
