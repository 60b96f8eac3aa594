#include "amx_config.h"
#include "cpu.h"
#include "peak.h"
#if defined(Q_X86)
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,amx-tile,amx-bf16")
#include <immintrin.h>
#include <string.h>

enum { ACCUMULATORS = 16, LANES = 16, ONE = 0x3f80 }; // 1 in bfloat16

static float pairs(int64_t n) {
	__m512 acc[ACCUMULATORS];
	for (int k = 0; k < ACCUMULATORS; k++) acc[k] = _mm512_setzero_ps();
	__m512i ones = _mm512_set1_epi16(ONE);
	for (int k = 0; k < ACCUMULATORS; k++) __asm__ volatile("" : "+v"(acc[k])); // equal ones would be merged
	for (int64_t i = 0; i < n; i++) {
		__asm__ volatile("" : "+v"(ones));
#pragma GCC unroll 16
		for (int k = 0; k < ACCUMULATORS; k++) acc[k] = _mm512_dpbf16_ps(acc[k], (__m512bh)ones, (__m512bh)ones);
	}
	float sum = 0;
	for (int k = 0; k < ACCUMULATORS; k++) sum += _mm512_reduce_add_ps(acc[k]);
	return sum;
}

q_peak q_peak_avx512bf16(void) { return (q_peak){pairs, 4.0 * LANES * ACCUMULATORS, 2.0 * LANES * ACCUMULATORS}; }

enum { TILES = 4, ROWS = 16, PAIRS = 16 }; // tiles 0 to 3 gain the product of tiles 4 and 5

static float tiles(int64_t n) {
	amx_config config = {.palette = 1};
	for (int t = 0; t < TILES + 2; t++) config.row_bytes[t] = 64, config.rows[t] = ROWS;
	amx_reads(&config);
	_tile_loadconfig(&config);
	uint16_t ones[ROWS * 32];
	float out[ROWS * 16];
	for (int i = 0; i < ROWS * 32; i++) ones[i] = ONE;
	amx_reads(ones);
	_tile_loadd(4, ones, 64);
	_tile_loadd(5, ones, 64);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int64_t i = 0; i < n; i++) {
		_tile_dpbf16ps(0, 4, 5);
		_tile_dpbf16ps(1, 4, 5);
		_tile_dpbf16ps(2, 4, 5);
		_tile_dpbf16ps(3, 4, 5);
	}
	float sum = 0;
#define ADD(t) \
	_tile_stored(t, out, 64); \
	for (int i = 0; i < ROWS * 16; i++) sum += out[i];
	ADD(0) ADD(1) ADD(2) ADD(3) _tile_release();
	return sum;
}

q_peak q_peak_amx(void) { return (q_peak){tiles, 2.0 * TILES * ROWS * 16 * 32, (double)TILES * ROWS * 16 * 32}; }
#else
q_peak q_peak_avx512bf16(void) { return (q_peak){0}; }
q_peak q_peak_amx(void) { return (q_peak){0}; }
#endif
