// Linear layers by tiles of AMX: sixteen rows of activations times sixteen columns of a panel, 64 bytes of each row at a time. Activations are
// packed as the tiles read them, [in/step][16][step], with zeros behind the last row and input.
#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#include "gemm_emulate.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,amx-tile,amx-bf16,amx-int8")
#define Q_V16 512
#include <immintrin.h>
#endif

enum {
	Q_WIDE = 2,
	PANEL = 32,
	MAX_TILES = 8,              // whose sums are kept at a time
	SUMS = MAX_TILES * 16 * PANEL,
	MAX_PANELS = 4,             // a task's
	BLOCK_STEPS = 16,           // steps a block: 32 kB of a panel
};
#include "gemm_finish.h"

// The inputs a step, of 64 bytes.
static int64_t step_of(int dtype) { return dtype == Q_S8 ? 64 : 32; }

typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} tile_config;

static float *row_scales(const q_linear_job *j) { return (float *)((char *)j->l->scratch + j->tiles * 16 * j->padded_in); }

// round_row sets int8 numbers to a row's.
static void round_row(const q_linear_job *j, int64_t row, int8_t *to) {
	float inverse;
	row_scales(j)[row] = row_scale(j->l, row, &inverse);
	for (int64_t i = 0; i < j->l->in; i += 16) {
		int8_t q[16];
		const int64_t n = least(16, j->l->in - i);
		round16(j->l, row, i, n, inverse, q);
		memcpy(to + i / 64 * 1024 + i % 64, q, n);
	}
}

static void pack_tile(void *job, int64_t t) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int64_t size = q_size(l->weights_dtype), bytes = l->in * size, n = least(16, l->rows - t * 16);
	char *to = (char *)l->scratch + t * 16 * j->padded_in * size;
	memset(to, 0, 16 * j->padded_in * size);
	for (int64_t r = 0; r < n; r++) {
		if (l->weights_dtype == Q_S8) {
			round_row(j, t * 16 + r, (int8_t *)to + r * 64);
			continue;
		}
		const char *from = (const char *)l->x + (t * 16 + r) * bytes;
		for (int64_t i = 0; i < bytes; i += 64) memcpy(to + i * 16 + r * 64, from + i, least(64, bytes - i));
	}
}

// multiply adds steps of a block to the sums of two tiles of rows (or one) and the 32 columns of a panel. Tiles 0 to 3 are sums, 4 and 5 of
// activations, 6 and 7 of weights. a_stride is the bytes between the two tiles of rows.
#define MULTIPLY(name, product) \
	static void name(const char *a, int64_t a_stride, const char *b, int64_t steps, float *sums, int first, int two, const char *ahead, int lines) { \
		if (first) { \
			_tile_zero(0); \
			_tile_zero(1); \
			_tile_zero(2); \
			_tile_zero(3); \
		} else { \
			_tile_loadd(0, sums, PANEL * 4); \
			_tile_loadd(1, sums + 16, PANEL * 4); \
			if (two) _tile_loadd(2, sums + 16 * PANEL, PANEL * 4); \
			if (two) _tile_loadd(3, sums + 16 * PANEL + 16, PANEL * 4); \
		} \
		for (; steps > 0; steps--, a += 1024, b += 2048) { \
			for (int i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2); \
			_tile_loadd(4, a, 64); \
			_tile_loadd(6, b, 128); \
			product(0, 4, 6); \
			_tile_loadd(7, b + 64, 128); \
			product(1, 4, 7); \
			if (!two) continue; \
			_tile_loadd(5, a + a_stride, 64); \
			product(2, 5, 6); \
			product(3, 5, 7); \
		} \
		_tile_stored(0, sums, PANEL * 4); \
		_tile_stored(1, sums + 16, PANEL * 4); \
		if (two) _tile_stored(2, sums + 16 * PANEL, PANEL * 4); \
		if (two) _tile_stored(3, sums + 16 * PANEL + 16, PANEL * 4); \
	}
MULTIPLY(multiply_bf16, _tile_dpbf16ps)
MULTIPLY(multiply_s8, _tile_dpbssd)

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int s8 = l->weights_dtype == Q_S8;
	const int64_t steps = j->padded_in / step_of(l->weights_dtype), panel = steps * 2048, row_tile = steps * 1024;
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	const char *weights = (const char *)l->weights + from * panel, *end = (const char *)l->weights + j->panels * panel;
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	tile_config config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = 16;
	}
	_tile_loadconfig(&config);
	for (int64_t t0 = 0; t0 < j->tiles; t0 += MAX_TILES) {
		const int64_t t1 = least(t0 + MAX_TILES, j->tiles);
		for (int64_t k = 0; k < steps; k += BLOCK_STEPS) {
			const int64_t some = least(BLOCK_STEPS, steps - k);
			for (int64_t p = 0; p < n; p++) {
				const char *b = weights + p * panel + k * 2048;
				// What follows: the same block of the next panel, or the next block of the first, or the next task's begin.
				const char *next = p + 1 < n ? b + panel : k + some < steps ? weights + (k + some) * 2048 : weights + n * panel;
				int lines = next + some * 2048 > end ? 0 : t1 - t0 > 2 ? 16 : 32; // of it to read ahead, a step
				for (int64_t t = t0; t < t1; t += 2) {
					const char *a = (const char *)l->scratch + t * row_tile + k * 1024;
					float *sum = sums + p * SUMS + (t - t0) * 16 * PANEL;
					(s8 ? multiply_s8 : multiply_bf16)(a, row_tile, b, some, sum, k == 0, t + 1 < t1, next, lines);
					if (t > t0) lines = 0;
					else next += some * 64 * lines;
				}
			}
		}
		const int64_t row = t0 * 16, rows = least(t1 * 16, l->rows) - row;
		for (int64_t p = 0; s8 && p < n; p++) float_sums(sums + p * SUMS, rows, row_scales(j) + row);
		finish_panels(j, sums, row, rows, from, n);
	}
	_tile_release();
}

const q_linear_code q_linear_amx = {16, pack_tile, panels};
#endif
