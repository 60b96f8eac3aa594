// The code of linear layers for one level. A file that includes this defines, in addition to Q_V16: Q_CODE, the name
// of its q_linear_code; Q_WIDE, the panel's width in v16; and Q_ROWS, the rows of a tile, so that a tile's sums stay
// in registers.
//
// The activations are packed in tiles of up to Q_ROWS rows, each [in/4][rows of the tile][4]. A task computes some
// panels for all rows: for each block of inputs, and each panel, the block of the panel stays in the first cache
// while the tiles pass, in float32 from the first on.
#include "convert.h"
#include "gemm.h"

enum {
	BLOCK_IN = Q_WIDE == 1 ? 320 : 256, // inputs per block: 20 or 32 kB of a panel
	BLOCK_TILES = 96 / Q_ROWS,          // tiles whose sums are kept at a time
	MAX_ROWS = BLOCK_TILES * Q_ROWS,    // rows in these tiles
	PANEL = 16 * Q_WIDE,
	MAX_PANELS = 8 / Q_WIDE, // panels of a task
	SUMS = MAX_ROWS * PANEL, // sums of a panel
	AHEAD = 4096,            // how many bytes ahead a stream of weights is prefetched
	OWN = 1 << 13,            // how many numbers of rows each thread packs for itself, at most
};

#include "gemm_finish.h"

#include "gemm_vec.h"

enum { WIDE = PANEL / LANES };

// weights4 loads LANES of a panel's numbers for one of four inputs, starting with column.
ALWAYS vec weights4(const char *b, const int input, const int column, const int dtype) {
	if (dtype == Q_F32) return vec_load((const float *)b + input * PANEL + column);
	if (dtype == Q_F16) return vec_f16((const uint16_t *)b + input * PANEL + column);
	const uint16_t *pairs = (const uint16_t *)b + input / 2 * 2 * PANEL + 2 * column;
	return input % 2 ? vec_bf16_second(pairs) : vec_bf16_first(pairs);
}

// tile adds the products of `in` inputs, a multiple of four, to the sums of n rows, the second of each two inputs
// first, as dot products of bf16 do. a is [in/4][n][4], b a block of a panel of the dtype, sums [MAX_ROWS][PANEL] at
// the first row. With keep, the block is also written to wide in float32, [in][PANEL].
ALWAYS void tile(const int n, const int dtype, const int keep, const float *a, const char *b, float *wide, int64_t in,
	float *sums, int first, const char *ahead, int64_t step) {
	vec s[Q_ROWS][WIDE];
	EACH(r, n)
		EACH(j, WIDE) s[r][j] = vec_set(0);
	if (!first) {
		EACH(r, n)
			EACH(j, WIDE) s[r][j] = vec_load(sums + r * PANEL + j * LANES);
	}
	for (; in > 0; in -= 4) {
		EACH(i, 4) {
			const int input = i ^ 1;
			vec w[WIDE];
			EACH(j, WIDE) w[j] = weights4(b, input, j * LANES, dtype);
			if (keep)
				EACH(j, WIDE) vec_store(wide + input * PANEL + j * LANES, w[j]);
			EACH(r, n) {
				vec x = vec_set(a[r * 4 + input]);
				EACH(j, WIDE) s[r][j] = vec_fma(x, w[j], s[r][j]);
			}
		}
		a += 4 * n;
		b += 4 * PANEL * (dtype == Q_F32 ? 4 : 2);
		if (keep) wide += 4 * PANEL;
		// Of float32, the first of four lines is enough: the processor reads on by itself.
		for (int64_t line = 0; line < (dtype == Q_F32 ? 64 : step); line += 64) __builtin_prefetch(ahead + line, 0, 2);
		ahead += step;
	}
	EACH(r, n)
		EACH(j, WIDE) vec_store(sums + r * PANEL + j * LANES, s[r][j]);
}

// tiles by rows and kind, so that each has its loops unrolled.
typedef void (*tile_code)(const float *, const char *, float *, int64_t, float *, int, const char *, int64_t);
enum { FLOATS, BF16, F16, KEEP }; // kinds of tiles; KEEP is added if the block must be kept in float32

#define TILE(name, n, dtype, keep) \
	static __attribute__((noinline)) void name(const float *a, const char *b, float *wide, int64_t in, float *sums, \
		int first, const char *ahead, int64_t step) { \
		tile(n, dtype, keep, a, b, wide, in, sums, first, ahead, step); \
	}
#define COMMA ,
#if Q_ROWS == 3
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3)
#elif Q_ROWS == 6
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4) _ f(5) _ f(6)
#else
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4) _ f(5) _ f(6) _ f(7) _ f(8) _ f(9) _ f(10) _ f(11) _ f(12)
#endif
// clang-format off
#define TILES(n) \
	TILE(f32_##n, n, Q_F32, 0) TILE(bf16_##n, n, Q_BF16, 0) TILE(f16_##n, n, Q_F16, 0) \
	TILE(keep_bf16_##n, n, Q_BF16, 1) TILE(keep_f16_##n, n, Q_F16, 1)
// clang-format on
#define ROW(n) {f32_##n, bf16_##n, f16_##n, NULL, keep_bf16_##n, keep_f16_##n}
FOR_ROWS(TILES, )
static const tile_code codes[Q_ROWS][6] = {FOR_ROWS(ROW, COMMA)};

static int64_t tile_begin(const q_linear_job *j, int64_t tile) { return j->l->rows * tile / j->tiles; }

#include "gemm_int8.h"

#include "gemm_e4m3.h"

// pack_tile puts the activations of a tile side by side: [in/4][rows of the tile][4], with zeros after the last input.
static void pack_tile(void *job, int64_t t) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	int64_t begin = tile_begin(j, t), n = tile_begin(j, t + 1) - begin;
	if (l->weights_dtype == Q_S8) {
		pack_tile_s8(j, begin, n);
		return;
	}
	float *to = (float *)j->rows + begin * j->padded_in;
	for (int64_t r = 0; r < n; r++) {
		for (int64_t i = 0; i < j->padded_in; i += 16) {
			float x[16];
			int64_t some = least(16, j->padded_in - i), there = least(16, l->in - i);
			v16_store(x, load16(l->x, (begin + r) * l->in + i, l->dtype, there < 0 ? 0 : there));
			for (int64_t k = 0; k < some; k += 4) memcpy(to + (i + k) * n + r * 4, x + k, 16);
		}
	}
}

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	if (l->blocks.e4m3) {
		panels_e4m3(j, task);
		return;
	}
	const int64_t in = j->padded_in, size = q_size(l->weights_dtype);
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	const int kind = l->weights_dtype == Q_F32 ? FLOATS : l->weights_dtype == Q_BF16 ? BF16 : F16;
	const int64_t blocks = j->tiles == 1 ? 1 : (in + BLOCK_IN - 1) / BLOCK_IN,
				  a_block = ((in + blocks - 1) / blocks + 3) / 4 * 4;
	const int64_t passes = (j->tiles + BLOCK_TILES - 1) / BLOCK_TILES,
				  a_pass = (j->tiles + passes - 1) / passes; // of tiles
	const char *weights = (const char *)l->weights + from * in * PANEL * size;
	const char *end = (const char *)l->weights + j->panels * in * PANEL * size;
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	float wide[BLOCK_IN * PANEL] __attribute__((aligned(64)));
	int64_t begins[BLOCK_TILES + 1]; // of tiles: their first rows
	for (int64_t t0 = 0; t0 < j->tiles; t0 += a_pass) {
		const int64_t tiles = least(a_pass, j->tiles - t0);
		for (int64_t t = 0; t <= tiles; t++) begins[t] = tile_begin(j, t0 + t);
		for (int64_t k = 0; k < in; k += a_block) {
			const int64_t some = least(a_block, in - k), lines = some / 4;
			for (int64_t p = 0; p < n; p++) {
				const char *b = weights + (p * in + k) * PANEL * size;
				// What follows: the same block of the next panel, or the next block of the first, or the start of the
				// next task.
				const char *next = p + 1 < n       ? b + in * PANEL * size
				                   : k + some < in ? weights + (k + some) * PANEL * size
				                                   : weights + n * in * PANEL * size;
				int64_t left =
					next + some * PANEL * size <= end ? some * PANEL * size / 64 : 0; // lines of it to read ahead
				if (l->weights_dtype == Q_S8 && j->tiles > 1) widen_s8((int16_t *)wide, (const int8_t *)b, some);
				for (int64_t t = 0; t < tiles; t++) {
					const int64_t begin = begins[t], rows = begins[t + 1] - begin;
					const char *ahead = next;
					int64_t step = 0;
					if (j->tiles == 1) {
						ahead = b + AHEAD; // one pass: the stream itself is ahead
						step = PANEL * size * 4;
					} else if (left > 0) {
						step = 64;
						next += lines * 64;
						left -= lines;
					}
					float *sum = sums + p * SUMS + (begin - begins[0]) * PANEL;
					if (l->weights_dtype == Q_S8) {
						const int direct = j->tiles == 1;
						const float *last = k + some == in ? row_scales(j) + begin : NULL;
						codes_s8[rows - 1][direct](packed_s8(j, begin) + k * rows, direct ? b : (const char *)wide,
							some, sum, k == 0, last, ahead, step);
						continue;
					}
					// The first of several tiles keeps the block for the others.
					const int reuse = kind != FLOATS && t > 0, keep = kind != FLOATS && t == 0 && tiles > 1;
					const tile_code code = codes[rows - 1][reuse ? FLOATS : keep ? KEEP + kind : kind];
					code((const float *)j->rows + begin * in + k * rows, reuse ? (const char *)wide : b, wide, some,
						sum, k == 0, ahead, step);
				}
			}
		}
		finish_panels(j, sums, NULL, begins[0], begins[tiles] - begins[0], from, n);
	}
}

const q_linear_code Q_CODE = {Q_ROWS, pack_tile, panels, OWN, OWN, Q_PART_ROWS};
