#include "amx_config.h"
#include "cpu.h"
#include "peak.h"
#if defined(Q_X86)
#include <immintrin.h>
#include <string.h>

enum { ACCUMULATORS = 12 };

#define UNROLLED(k) _Pragma("GCC unroll 16") for (int k = 0; k < ACCUMULATORS; k++)

// SUM_LOOP defines a loop for registers of type vector: dot adds to a register of sums, int32, the products of two
// registers of ones.
#define SUM_LOOP(name, instructions, vector, dot) \
	__attribute__((target(instructions))) static float name(int64_t n) { \
		vector acc[ACCUMULATORS], ones, ends[ACCUMULATORS]; \
		FILL(&ones, sizeof ones); \
		UNROLLED(k) { \
			acc[k] = ones - ones; \
			__asm__ volatile("" : "+x"(acc[k])); /* equal ones would be kept as one */ \
		} \
		for (int64_t i = 0; i < n; i++) { \
			UNROLLED(k) { \
				__asm__ volatile("" : "+x"(ones)); /* products of the same numbers would be made once */ \
				acc[k] = dot; \
			} \
		} \
		/* Sums with an address would be stored in each round. */ \
		UNROLLED(k) { \
			__asm__ volatile("" : "+x"(acc[k])); \
			ends[k] = acc[k]; \
		} \
		int32_t sums[sizeof ends / 4]; \
		memcpy(sums, ends, sizeof ends); \
		int64_t sum = 0; \
		for (unsigned k = 0; k < sizeof sums / 4; k++) sum += sums[k]; \
		return sum; \
	}

// PEAK is that loop, whose registers have so many products.
#define PEAK(name, products) ((q_peak){name, 2.0 * (products) * ACCUMULATORS, (double)(products) * ACCUMULATORS})

#define FILL(to, size) memset(to, 1, size)
#define DOT2 _mm256_add_epi32(acc[k], _mm256_madd_epi16(_mm256_maddubs_epi16(ones, ones), _mm256_set1_epi16(1)))
#define DOT3 _mm512_add_epi32(acc[k], _mm512_madd_epi16(_mm512_maddubs_epi16(ones, ones), _mm512_set1_epi16(1)))
SUM_LOOP(avx2, "avx2", __m256i, DOT2)
SUM_LOOP(avx512, "avx512f,avx512bw", __m512i, DOT3)
SUM_LOOP(vnni, "avx512f,avx512vnni", __m512i, _mm512_dpbusd_epi32(acc[k], ones, ones))
#undef FILL

// SSE2 multiplies numbers of 16 bits.
static void fill16(int16_t *to, size_t size) {
	for (size_t i = 0; i < size / 2; i++) to[i] = 1;
}
#define FILL(to, size) fill16((int16_t *)(to), size)
SUM_LOOP(sse2, "sse2", __m128i, _mm_add_epi32(acc[k], _mm_madd_epi16(ones, ones)))

enum { TILES = 4, ROWS = 16, BYTES = 64 }; // tiles 0 to 3 gain the product of tiles 4 and 5

__attribute__((target("amx-tile,amx-int8"))) static float tiles(int64_t n) {
	amx_config config = {.palette = 1};
	for (int t = 0; t < TILES + 2; t++) config.row_bytes[t] = BYTES, config.rows[t] = ROWS;
	amx_reads(&config);
	_tile_loadconfig(&config);
	int8_t ones[ROWS * BYTES];
	int32_t out[ROWS * 16];
	memset(ones, 1, sizeof ones);
	amx_reads(ones);
	_tile_loadd(4, ones, BYTES);
	_tile_loadd(5, ones, BYTES);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int64_t i = 0; i < n; i++) {
		_tile_dpbssd(0, 4, 5);
		_tile_dpbssd(1, 4, 5);
		_tile_dpbssd(2, 4, 5);
		_tile_dpbssd(3, 4, 5);
	}
	int64_t sum = 0;
	// clang-format off
#define ADD(t) _tile_stored(t, out, 64); for (int i = 0; i < ROWS * 16; i++) sum += out[i];
	ADD(0) ADD(1) ADD(2) ADD(3)
		// clang-format on
		_tile_release();
	return sum;
}

q_peak q_peak_int8_plain(void) { return PEAK(sse2, 8); }
q_peak q_peak_int8_avx2(void) { return PEAK(avx2, 32); }
q_peak q_peak_int8_avx512(void) { return PEAK(avx512, 64); }
q_peak q_peak_int8_vnni(void) { return PEAK(vnni, 64); }
q_peak q_peak_int8_amx(void) {
	return (q_peak){tiles, 2.0 * TILES * ROWS * 16 * BYTES, (double)TILES * ROWS * 16 * BYTES};
}
#else
q_peak q_peak_int8_plain(void) { return q_peak_plain(); } // the plain kernels compute in float32 anyway
q_peak q_peak_int8_avx2(void) { return (q_peak){0}; }
q_peak q_peak_int8_avx512(void) { return (q_peak){0}; }
q_peak q_peak_int8_vnni(void) { return (q_peak){0}; }
q_peak q_peak_int8_amx(void) { return (q_peak){0}; }
#endif
