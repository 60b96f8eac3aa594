// Linear layers by tiles of AMX: sixteen rows of activations times the sixteen columns of a panel, 64 bytes of each
// row at a time. A tile of weights is contiguous, and so are packed tiles of activations, [in/step][16][step], with
// zeros after the last input; values in place of rows after the last one are never used.
//
// Up to 16 rows are multiplied panel by panel, with the weights as one stream. Up to 128 rows are multiplied in blocks
// of inputs: a block's activations stay in the first cache while the panels of a task pass, two at a time. If there are
// more rows, the weights of a block stay there while the rows pass.
//
// Adapters of rows continue the sums of matrices of bf16, by the same instruction: see gemm_amx_adapted.h.
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
	Q_WIDE = 1,
	PANEL = 16,
	TILE = 16 * PANEL, // number of sums in a tile
	SUMS = 2 * TILE,   // results are computed from up to two tiles of rows at a time
	MAX_TILES = 8,     // tiles of rows whose sums are kept at a time
	MAX_PANELS = 8,    // panels of a task
	ROW_TILES = 32,    // tiles of rows that pass a pair of panels
	ROW_STEPS = 8,     // steps of a block, of which the first cache has room for two panels and two tiles of rows
	ROW_BYTES = 3 << 18, // rows that the second cache has room for, besides weights and sums
	AHEAD = 1024,      // how many bytes ahead a stream of weights is prefetched
	OWN_FLOATS = 1 << 19, // numbers of rows that each thread packs for itself: a megabyte
};
#include "amx_config.h"
#include "gemm_finish.h"
#include "gemm_amx_adapted.h"

// The inputs per step of 64 bytes.
static int64_t step_of(int dtype) { return dtype == Q_S8 ? 64 : 32; }

static float *row_scales(const q_linear_job *j) {
	return (float *)((char *)j->rows + j->tiles * 16 * j->padded_in);
}

// round_row rounds a row to int8 numbers.
static void round_row(const q_linear_job *j, int64_t row, int8_t *to) {
	float inverse;
	row_scales(j)[row] = row_scale(j->l, row, &inverse);
	for (int64_t i = 0; i < j->padded_in; i += 16)
		round16(j->l, row, i, least(16, j->l->in - i), inverse, to + i / 64 * 1024 + i % 64);
}

// copy_rows packs the rows of a tile of bf16.
static void copy_rows(const q_linear_job *j, int64_t t, char *to) {
	const int64_t bytes = j->l->in * 2, n = least(16, j->l->rows - t * 16);
	const char *from = (const char *)j->l->x + t * 16 * bytes;
	int64_t at = 0;
	for (; at + 64 <= bytes; at += 64, to += 1024)
		for (int64_t r = 0; r < n; r++) memcpy(to + r * 64, from + r * bytes + at, 64);
	if (at == bytes) return;
	for (int64_t r = 0; r < n; r++) {
		memcpy(to + r * 64, from + r * bytes + at, bytes - at);
		memset(to + r * 64 + bytes - at, 0, 64 - (bytes - at));
	}
}

static void pack_tile(void *job, int64_t t) {
	const q_linear_job *j = job;
	char *to = (char *)j->rows + t * 16 * j->padded_in * q_size(j->l->weights_dtype);
	if (j->l->weights_dtype == Q_BF16) {
		copy_rows(j, t, to);
		if (adapted_by_tiles(j->l)) pack_inner(j, t);
		return;
	}
	for (int64_t r = 0; r < 16 && t * 16 + r < j->l->rows; r++) round_row(j, t * 16 + r, (int8_t *)to + r * 64);
}

// stream computes the sums of a panel and one tile of rows, and continues them with an adapter's if it is not NULL.
// Tile 0 has sums, 4 activations and 6 weights.
#define STREAM(name, product) \
	static __attribute__((noinline)) void name( \
		const char *a, const char *b, int64_t steps, float *sums, const factors *adapter) { \
		_tile_zero(0); \
		for (; steps > 0; steps--, a += 1024, b += 1024) { \
			_tile_loadd(6, b, 64); \
			EACH(i, 16) __builtin_prefetch(b + AHEAD + i * 64, 0, 3); \
			_tile_loadd(4, a, 64); \
			product(0, 4, 6); \
		} \
		for (int64_t i = 0; adapter && i < adapter->steps; i++) { \
			_tile_loadd(6, adapter->b + i * 1024, 64); \
			_tile_loadd(4, adapter->a + i * 1024, 64); \
			product(0, 4, 6); \
		} \
		_tile_stored(0, sums, 64); \
	}
STREAM(stream_bf16, _tile_dpbf16ps)
STREAM(stream_s8, _tile_dpbssd)

// multiply adds steps of a block to the sums of a pair of tiles of rows (or of one), a kilobyte for each tile of
// sums, and of two panels, whose weights are b_stride apart. Tiles 0 to 3 have sums, 4 and 5 activations, 6 and 7
// weights. a_stride is the distance in bytes between the two tiles of rows. out, if not NULL, gets the final sums, as
// finish_panels reads them, and adapters, if not NULL, is what continues the sums of each panel before. lines is how
// many lines of what is ahead, in each of two panels, are prefetched per step.
#define MULTIPLY(name, product) \
	ALWAYS void name(const int two, const int lines, const char *a, int64_t a_stride, const char *b, int64_t b_stride, \
		int64_t steps, float *sums, int first, float *out, const char *ahead, const factors *adapters) { \
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
		for (; steps > 0; steps--, a += 1024, b += 1024) { \
			_tile_loadd(6, b, 64); \
			_tile_loadd(4, a, 64); \
			EACH(i, lines) __builtin_prefetch(ahead + i * 64, 0, 2); \
			EACH(i, lines) __builtin_prefetch(ahead + b_stride + i * 64, 0, 2); \
			ahead += lines * 64; \
			product(0, 4, 6); \
			_tile_loadd(7, b + b_stride, 64); \
			product(1, 4, 7); \
			if (!two) continue; \
			_tile_loadd(5, a + a_stride, 64); \
			product(2, 5, 6); \
			product(3, 5, 7); \
		} \
		for (int64_t i = 0; adapters && i < adapters[0].steps; i++) { \
			_tile_loadd(6, adapters[0].b + i * 1024, 64); \
			_tile_loadd(4, adapters[0].a + i * 1024, 64); \
			product(0, 4, 6); \
			if (two) _tile_loadd(5, adapters[0].a + adapters[0].stride + i * 1024, 64); \
			if (two) product(2, 5, 6); \
		} \
		for (int64_t i = 0; adapters && i < adapters[1].steps; i++) { \
			_tile_loadd(7, adapters[1].b + i * 1024, 64); \
			_tile_loadd(4, adapters[1].a + i * 1024, 64); \
			product(1, 4, 7); \
			if (two) _tile_loadd(5, adapters[1].a + adapters[1].stride + i * 1024, 64); \
			if (two) product(3, 5, 7); \
		} \
		if (!out) out = sums; \
		const int64_t panel = out == sums ? TILE : SUMS, tile = out == sums ? 2 * TILE : TILE; \
		_tile_stored(0, out, 64); \
		_tile_stored(1, out + panel, 64); \
		if (two) _tile_stored(2, out + tile, 64); \
		if (two) _tile_stored(3, out + tile + panel, 64); \
	}
MULTIPLY(multiply_bf16, _tile_dpbf16ps)
MULTIPLY(multiply_s8, _tile_dpbssd)

// The code of each kind of block.
typedef void (*block_code)(
	const char *, int64_t, const char *, int64_t, int64_t, float *, int, float *, const char *, const factors *);
#define CODE(name, kind, two, lines) \
	static __attribute__((noinline)) void name(const char *a, int64_t a_stride, const char *b, int64_t b_stride, \
		int64_t steps, float *sums, int first, float *out, const char *ahead, const factors *adapters) { \
		multiply_##kind(two, lines, a, a_stride, b, b_stride, steps, sums, first, out, ahead, adapters); \
	}
// clang-format off
#define CODES(kind) \
	CODE(kind##_one, kind, 0, 0) CODE(kind##_one_16, kind, 0, 16) \
	CODE(kind##_two, kind, 1, 0) CODE(kind##_two_4, kind, 1, 4) CODE(kind##_two_8, kind, 1, 8) \
	CODE(kind##_two_16, kind, 1, 16)
CODES(bf16)
CODES(s8)
#define ROW(kind) \
	{{kind##_one, kind##_one_16, kind##_one_16, kind##_one_16}, {kind##_two, kind##_two_4, kind##_two_8, kind##_two_16}}
// By type, by tiles of rows, by lines ahead of each panel: none, 4, 8, 16.
static const block_code codes[2][2][4] = {ROW(bf16), ROW(s8)};
// clang-format on

// configure shapes the tiles: whole ones, except that sums and activations have only the rows of a layer with fewer.
static void configure(int64_t rows) {
	amx_config config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = i < 6 ? least(rows, 16) : 16;
	}
	amx_reads(&config);
	_tile_loadconfig(&config);
}

// share is a task: some consecutive panels.
typedef struct {
	const q_linear_job *j;
	const char *weights; // weights of the first panel
	int64_t from, n, steps, panel;
	float out[2 * SUMS] __attribute__((aligned(64)));
	pair_adapters adapters;
} share;

// adapters_of returns the adapters that continue the sums of two panels and some tiles of rows, starting with t, or
// NULL: then results adds them.
static const factors *adapters_of(share *s, int64_t t, int64_t tiles, int64_t panel, int64_t n) {
	if (!s->adapters.l) return NULL;
	return turn_pair(&s->adapters, s->j, t, tiles, s->from + panel, n) ? s->adapters.of : NULL;
}

// results computes the results of n panels, one or two, from the sums of some tiles of rows, starting with t.
static void results(share *s, int64_t t, int64_t tiles, int64_t panel, int64_t n, int adapted) {
	const q_linear_job *j = s->j;
	const int64_t row = t * 16, rows = least(tiles * 16, j->l->rows - row);
	if (s->adapters.l && !adapted) add_adapters(&s->adapters, j, s->out, t, tiles, s->from + panel, n);
	const float *whole = j->l->weights_dtype == Q_S8 ? row_scales(j) + row : NULL;
	finish_panels(j, s->out, whole, row, rows, s->from + panel, n);
}

// stream_panels multiplies n panels, starting with panel, by a tile of rows.
static void stream_panels(share *s, int64_t t, int64_t panel, int64_t n) {
	const char *a = (const char *)s->j->rows + t * s->steps * 1024, *b = s->weights + panel * s->panel;
	for (int64_t p = panel; p < panel + n; p += 2) {
		const int64_t pair = least(2, panel + n - p);
		const factors *adapters = adapters_of(s, t, 1, p, pair);
		for (int64_t i = 0; i < pair; i++, b += s->panel) {
			if (s->j->l->weights_dtype == Q_S8) stream_s8(a, b, s->steps, s->out + i * SUMS, NULL);
			else stream_bf16(a, b, s->steps, s->out + i * SUMS, adapters ? adapters + i : NULL);
		}
		results(s, t, 1, p, pair, adapters != NULL);
	}
}

// block_steps returns the number of steps in a block for some tiles of rows: activations and weights of a block with
// up to 4 tiles fit into the first cache together. With more tiles they do not, which costs less than storing sums
// more often.
static int64_t block_steps(int64_t steps, int64_t tiles) {
	const int64_t most = tiles < 4 ? 4 : 6, blocks = (steps + most - 1) / most;
	return (steps + blocks - 1) / blocks;
}

// block_panels multiplies n panels, an even number, by tiles t0 to t1 of rows, block by block.
static void block_panels(share *s, int64_t t0, int64_t t1, int64_t n) {
	const q_linear_job *j = s->j;
	const int s8 = j->l->weights_dtype == Q_S8;
	const int64_t tile = s->steps * 1024, a_block = block_steps(s->steps, t1 - t0);
	const char *end = (const char *)j->l->weights + j->panels * s->panel;
	float sums[MAX_PANELS / 2][MAX_TILES][2 * TILE] __attribute__((aligned(64)));
	for (int64_t k = 0; k < s->steps; k += a_block) {
		const int64_t some = least(a_block, s->steps - k);
		for (int64_t p = 0; p < n; p += 2) {
			const char *b = s->weights + p * s->panel + k * 1024;
			// What comes next: the same block of the next pair, or the next block of the first, or the start of the
			// next task.
			const char *next = p + 2 < n             ? b + 2 * s->panel
			                   : k + some < s->steps ? s->weights + (k + some) * 1024
			                                         : s->weights + n * s->panel;
			int left = next + s->panel + some * 1024 > end ? 0 : 16; // lines of each panel to prefetch per step
			const int share = t1 - t0 > 6 ? 1 : t1 - t0 > 2 ? 2 : 3, lines = 2 << share;
			for (int64_t t = t0; t < t1; t += 2) {
				const int two = t + 1 < t1, last = k + some == s->steps;
				const factors *adapters = last ? adapters_of(s, t, 1 + two, p, 2) : NULL;
				const char *a = (const char *)s->j->rows + t * tile + k * 1024;
				codes[s8][two][left > 0 ? share : 0](a, tile, b, s->panel, some,
					sums[p / 2][t - t0], k == 0, last ? s->out : NULL, next, adapters);
				next += some * 64 * lines;
				left -= two ? lines : 16;
				if (last) results(s, t, 1 + two, p, 2, adapters != NULL);
			}
		}
	}
}

// row_panels multiplies n panels, an even number, by tiles t0 to t1 of rows, pair of panels by pair: the weights of a
// block of inputs stay in the first cache while the rows pass, which stay in the second one for the next pair.
static void row_panels(share *s, int64_t t0, int64_t t1, int64_t n) {
	const q_linear_job *j = s->j;
	const int s8 = j->l->weights_dtype == Q_S8;
	const int64_t tile = s->steps * 1024, blocks = (s->steps + ROW_STEPS - 1) / ROW_STEPS;
	const int64_t block = (s->steps + blocks - 1) / blocks;
	const char *end = (const char *)j->l->weights + j->panels * s->panel;
	float sums[ROW_TILES][2 * TILE] __attribute__((aligned(64)));
	for (int64_t p = 0; p < n; p += 2)
		for (int64_t k = 0; k < s->steps; k += block) {
			const int64_t some = least(block, s->steps - k);
			const char *b = s->weights + p * s->panel + k * 1024;
			// What comes next: the next block of the pair, or the first of the next pair.
			const char *next = k + some < s->steps ? b + some * 1024 : s->weights + (p + 2) * s->panel;
			int left = next + s->panel + some * 1024 > end ? 0 : 16; // lines of each panel to prefetch per step
			for (int64_t t = t0; t < t1; t += 2) {
				const int two = t + 1 < t1, last = k + some == s->steps;
				const factors *adapters = last ? adapters_of(s, t, 1 + two, p, 2) : NULL;
				const char *a = (const char *)j->rows + t * tile + k * 1024;
				codes[s8][two][two && left > 0](a, tile, b, s->panel, some, sums[t - t0], k == 0,
					last ? s->out : NULL, next, adapters);
				next += some * 64 * 4;
				left -= 4;
				if (last) results(s, t, 1 + two, p, 2, adapters != NULL);
			}
		}
}

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const int64_t steps = j->padded_in / step_of(j->l->weights_dtype);
	const int64_t shares = (j->panels + j->panels_a_task - 1) / j->panels_a_task;
	const int64_t from = task % shares * j->panels_a_task, t0 = task / shares * j->tiles_a_task;
	const int64_t t1 = least(t0 + j->tiles_a_task, j->tiles);
	share s; // too large to be cleared
	s.j = j;
	s.from = from;
	s.steps = steps;
	s.panel = steps * 1024;
	s.adapters.l = NULL;
	q_linear alone;
	q_linear_job other;
	if (j->l->weights_dtype == Q_BF16 && adapted_by_tiles(j->l)) { // results find the adapters in the sums
		s.adapters.l = j->l;
		s.adapters.matrix = NULL;
		alone = *j->l;
		alone.adapted = NULL;
		other = *j;
		other.l = &alone;
		s.j = &other;
	}
	s.n = least(j->panels_a_task, j->panels - from);
	s.weights = (const char *)j->l->weights + from * s.panel;
	configure(j->l->rows);
	const int64_t pairs = j->tiles == 1 ? 0 : s.n / 2 * 2; // panels in pairs; the others are one stream
	if (pairs) (t1 - t0 > MAX_TILES ? row_panels : block_panels)(&s, t0, t1, pairs);
	for (int64_t t = t0; pairs < s.n && t < t1; t++) stream_panels(&s, t, pairs, s.n - pairs);
	_tile_release();
}

const q_linear_code q_linear_amx = {16, pack_tile, panels, OWN_FLOATS, 0, 0, ROW_BYTES, ROW_TILES};
#endif
