// Registers of float32 for the code of linear layers, at the level that Q_V16 names.
#ifndef QUIRE_GEMM_VEC_H
#define QUIRE_GEMM_VEC_H

// vec is one register of LANES float32 numbers. A bf16 panel has pairs of inputs: the first in the low halves of 32
// bits.
#if Q_V16 == 512
typedef __m512 vec;
enum { LANES = 16 };
ALWAYS vec vec_set(float x) { return _mm512_set1_ps(x); }
ALWAYS vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
ALWAYS void vec_store(float *p, vec x) { _mm512_storeu_ps(p, x); }
ALWAYS vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
ALWAYS vec vec_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
ALWAYS vec vec_bf16_first(const uint16_t *p) {
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
ALWAYS vec vec_bf16_second(const uint16_t *p) {
	return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(0xffff0000)));
}
#elif Q_V16 == 256
typedef __m256 vec;
enum { LANES = 8 };
ALWAYS vec vec_set(float x) { return _mm256_set1_ps(x); }
ALWAYS vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
ALWAYS void vec_store(float *p, vec x) { _mm256_storeu_ps(p, x); }
ALWAYS vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
ALWAYS vec vec_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
ALWAYS vec vec_bf16_first(const uint16_t *p) {
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)p), 16));
}
ALWAYS vec vec_bf16_second(const uint16_t *p) {
	return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi32(0xffff0000)));
}
#else
typedef float vec __attribute__((vector_size(16)));
enum { LANES = 4 };
ALWAYS vec vec_set(float x) { return (vec){x, x, x, x}; }
ALWAYS vec vec_load(const float *p) {
	vec x;
	memcpy(&x, p, sizeof x);
	return x;
}
ALWAYS void vec_store(float *p, vec x) { memcpy(p, &x, sizeof x); }
ALWAYS vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
ALWAYS vec vec_f16(const uint16_t *p) {
	return (vec){q_from_f16(p[0]), q_from_f16(p[1]), q_from_f16(p[2]), q_from_f16(p[3])};
}
ALWAYS vec vec_bf16_first(const uint16_t *p) {
	return (vec){q_from_bf16(p[0]), q_from_bf16(p[2]), q_from_bf16(p[4]), q_from_bf16(p[6])};
}
ALWAYS vec vec_bf16_second(const uint16_t *p) { return vec_bf16_first(p + 1); }
#endif

#endif
