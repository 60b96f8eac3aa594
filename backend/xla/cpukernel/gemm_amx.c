// Linear layers by tiles of AMX: sixteen rows of activations times sixteen columns of a panel, 64 bytes of each row at
// a time. Activations are packed as the tiles read them, [in/step][16][step], with zeros behind the last row and input.
#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#include "gemm_emulate.h"
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,amx-tile,amx-bf16,amx-int8")
#define Q_V16 512
#include <immintrin.h>
#endif

enum {
	Q_WIDE = 2,
	PANEL = 32,
	MAX_TILES = 8,  // whose sums are kept at a time
	TILE = 16 * 16, // sums of a tile
	SUMS = 0,       // results are made of one panel at a time
	MAX_PANELS = 4, // a task's
};
#include "gemm_finish.h"

// The inputs a step, of 64 bytes.
static int64_t step_of(int dtype) { return dtype == Q_S8 ? 64 : 32; }

typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} tile_config;

static float *row_scales(const q_linear_job *j) {
	return (float *)((char *)j->l->scratch + j->tiles * 16 * j->padded_in);
}

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

// multiply adds steps of a block to the sums of a pair of tiles of rows (or of one), a kilobyte for each tile of sums,
// and the 32 columns of a panel. Tiles 0 to 3 are sums, 4 and 5 of activations, 6 and 7 of weights. a_stride is the
// bytes between the two tiles of rows. out, if there, takes the sums in the end, by rows of a panel. lines is how many
// lines of what is ahead are read each step.
#define MULTIPLY(name, product) \
	ALWAYS void name(const int two, const int lines, const char *a, int64_t a_stride, const char *b, int64_t steps, \
		float *sums, int first, float *out, const char *ahead) { \
		if (first) { \
			_tile_zero(0); \
			_tile_zero(1); \
			if (two) _tile_zero(2); \
			if (two) _tile_zero(3); \
		} else { \
			_tile_loadd(0, sums, 64); \
			_tile_loadd(1, sums + TILE, 64); \
			if (two) _tile_loadd(2, sums + 2 * TILE, 64); \
			if (two) _tile_loadd(3, sums + 3 * TILE, 64); \
		} \
		for (; steps > 0; steps--, a += 1024, b += 2048) { \
			_tile_loadd(6, b, 128); \
			_tile_loadd(4, a, 64); \
			EACH(i, lines) __builtin_prefetch(ahead + i * 64, 0, 2); \
			ahead += lines * 64; \
			product(0, 4, 6); \
			_tile_loadd(7, b + 64, 128); \
			product(1, 4, 7); \
			if (!two) continue; \
			_tile_loadd(5, a + a_stride, 64); \
			product(2, 5, 6); \
			product(3, 5, 7); \
		} \
		if (out) { \
			_tile_stored(0, out, PANEL * 4); \
			_tile_stored(1, out + 16, PANEL * 4); \
			if (two) _tile_stored(2, out + 16 * PANEL, PANEL * 4); \
			if (two) _tile_stored(3, out + 16 * PANEL + 16, PANEL * 4); \
		} else { \
			_tile_stored(0, sums, 64); \
			_tile_stored(1, sums + TILE, 64); \
			if (two) _tile_stored(2, sums + 2 * TILE, 64); \
			if (two) _tile_stored(3, sums + 3 * TILE, 64); \
		} \
	}
MULTIPLY(multiply_bf16, _tile_dpbf16ps)
MULTIPLY(multiply_s8, _tile_dpbssd)

// The code of each kind of block.
typedef void (*block_code)(const char *, int64_t, const char *, int64_t, float *, int, float *, const char *);
#define CODE(name, kind, two, lines) \
	static __attribute__((noinline)) void name(const char *a, int64_t a_stride, const char *b, int64_t steps, \
		float *sums, int first, float *out, const char *ahead) { \
		multiply_##kind(two, lines, a, a_stride, b, steps, sums, first, out, ahead); \
	}
// clang-format off
#define CODES(kind) \
	CODE(kind##_one, kind, 0, 0) CODE(kind##_one_32, kind, 0, 32) \
	CODE(kind##_two, kind, 1, 0) CODE(kind##_two_8, kind, 1, 8) CODE(kind##_two_16, kind, 1, 16) \
	CODE(kind##_two_32, kind, 1, 32)
CODES(bf16)
CODES(s8)
#define ROW(kind) \
	{{kind##_one, kind##_one_32, kind##_one_32, kind##_one_32}, \
	 {kind##_two, kind##_two_8, kind##_two_16, kind##_two_32}}
// By type, by tiles of rows, by lines ahead: none, 8, 16, 32.
static const block_code codes[2][2][4] = {ROW(bf16), ROW(s8)};
// clang-format on

// block_steps is how many steps a block has, of a few tiles of rows: activations and weights of a block of up to 4
// tiles fit into the first cache together. With more tiles they do not, which costs less than storing sums more often.
static int64_t block_steps(int64_t steps, int64_t tiles) {
	if (tiles == 1) return least(steps, 16); // several streams of weights at once
	const int64_t most = tiles > 4 ? 6 : 36 / (tiles + 2), blocks = (steps + most - 1) / most;
	return (steps + blocks - 1) / blocks;
}

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int s8 = l->weights_dtype == Q_S8;
	const int64_t steps = j->padded_in / step_of(l->weights_dtype), panel = steps * 2048, row_tile = steps * 1024;
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	const char *weights = (const char *)l->weights + from * panel, *end = (const char *)l->weights + j->panels * panel;
	float sums[MAX_PANELS][MAX_TILES][2 * TILE] __attribute__((aligned(64)));
	float out[2 * 16 * PANEL] __attribute__((aligned(64)));
	tile_config config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = 16;
	}
	_tile_loadconfig(&config);
	for (int64_t t0 = 0; t0 < j->tiles; t0 += MAX_TILES) {
		const int64_t t1 = least(t0 + MAX_TILES, j->tiles), a_block = block_steps(steps, t1 - t0);
		for (int64_t k = 0; k < steps; k += a_block) {
			const int64_t some = least(a_block, steps - k);
			for (int64_t p = 0; p < n; p++) {
				const char *b = weights + p * panel + k * 2048;
				// What follows: the same block of the next panel, or the next block of the first, or the next task's
				// begin.
				const char *next = p + 1 < n          ? b + panel
				                   : k + some < steps ? weights + (k + some) * 2048
				                                      : weights + n * panel;
				int left = next + some * 2048 > end ? 0 : 32; // lines of it to read ahead, a step
				const int share = t1 - t0 > 6 ? 1 : t1 - t0 > 2 ? 2 : 3, lines = 4 << share;
				for (int64_t t = t0; t < t1; t += 2) {
					const char *a = (const char *)l->scratch + t * row_tile + k * 1024;
					const int two = t + 1 < t1;
					codes[s8][two][left > 0 ? share : 0](
						a, row_tile, b, some, sums[p][t - t0], k == 0, k + some == steps ? out : NULL, next);
					next += some * 64 * lines;
					left -= two ? lines : 32;
					if (k + some < steps) continue;
					const int64_t row = t * 16, rows = least(32, l->rows - row);
					if (s8) float_sums(out, rows, row_scales(j) + row);
					finish_panels(j, out, row, rows, from + p, 1);
				}
			}
		}
	}
	_tile_release();
}

const q_linear_code q_linear_amx = {16, pack_tile, panels};
#endif
