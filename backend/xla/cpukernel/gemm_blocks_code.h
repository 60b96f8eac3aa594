// The code of linear layers in blocks for one level: see gemm_blocks.h. A file that includes this defines, in addition
// to Q_V16: Q_CODE; Q_WIDE, the panel's width in v16; Q_ROWS, the rows of a tile; Q_VNNI if an instruction multiplies
// groups of four bytes; and Q_TILES if AMX does, 16 rows at a time.
#include "gemm_blocks_step.h"

#ifdef Q_TILES
#include "gemm_blocks_tiles.h"
#else
// add_products adds integer products of a row and LANES columns to their sums.
ALWAYS void add_products(ints products, const float *scales, float scale, const float *minima, float sum, float *to) {
	vec y = vec_fma(ints_float(products), vec_mul(vec_load(scales), vec_set(scale)), vec_load(to));
	if (minima) y = vec_fma(vec_load(minima), vec_set(sum), y);
	vec_store(to, y);
}

// tile adds the products of some blocks to the sums of n rows, [rows][PANEL] at the first row. halves is 2 for blocks
// of 16; min reports that there are minima, and wide that weights have 8 bits, with an offset if there are no minima.
ALWAYS void tile(const int n, const int halves, const int min, const int wide, activations a, const chunk *w,
	int64_t blocks, float *sums) {
	const uint8_t *q = w->quants;
	const float *scales = w->scales, *minima = w->minima;
	for (; blocks > 0; blocks--) {
		for (int h = 0; h < halves; h++) {
			__asm__ volatile("" ::: "memory"); // otherwise the compiler keeps a copy of the sums on the stack
			ints s[Q_ROWS][WIDE];
			EACH(r, n)
				EACH(j, WIDE) s[r][j] = wide ? whole_begin(a.begins[r], !min) : ints_set(a.begins[r]);
			for (int step = 0; step < 8 / halves; step++, q += STEP, a.x += 4 * n) {
				ints b[WIDE];
				EACH(j, WIDE) b[j] = ints_load(q + j * LANES * 4);
				EACH(r, n) {
					int32_t four;
					memcpy(&four, a.x + 4 * r, 4);
					ints x = ints_set(four);
					EACH(j, WIDE)
						s[r][j] = wide ? ints_whole(s[r][j], b[j], x, !min) : ints_dot(s[r][j], b[j], x);
				}
			}
			EACH(r, n)
				EACH(j, WIDE) {
					const float *m = min && h == halves - 1 ? minima + j * LANES : NULL;
					add_products(s[r][j], scales + j * LANES, a.scales[r], m, a.sums[r], sums + r * PANEL + j * LANES);
				}
			scales += PANEL;
			a.begins += n;
		}
		minima += PANEL;
		a.scales += n;
		a.sums += n;
	}
}

// tiles by rows and kind, so that the loops of each are unrolled.
typedef void (*tile_code)(activations, const chunk *, int64_t, float *);

#define TILE(name, n, halves, min, wide) \
	static __attribute__((noinline)) void name(activations a, const chunk *w, int64_t blocks, float *sums) { \
		tile(n, halves, min, wide, a, w, blocks, sums); \
	}
// clang-format off
#define TILES(n) \
	TILE(scales_##n, n, 1, 0, 0) TILE(minima_##n, n, 1, 1, 0) TILE(halves_##n, n, 2, 0, 0) \
	TILE(bytes_##n, n, 1, 0, 1) TILE(bytes_minima_##n, n, 1, 1, 1)
// clang-format on
#define COMMA ,
#if Q_ROWS == 4
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4)
#else
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4) _ f(5) _ f(6) _ f(7) _ f(8) _ f(9) _ f(10) _ f(11) _ f(12)
#endif
#define CODES(n) {scales_##n, minima_##n, halves_##n, bytes_##n, bytes_minima_##n}
FOR_ROWS(TILES, )
static const tile_code codes[Q_ROWS][KINDS] = {FOR_ROWS(CODES, COMMA)};
static void multiply(int64_t n, int kind, activations a, const chunk *w, int64_t blocks, float *sums) {
	codes[n - 1][kind](a, w, blocks, sums);
}
static void begin_tiles(const q_linear *l) {}
static void end_tiles(void) {}
#endif

#if Q_V16 >= 256 && !defined(Q_TILES)
#include "gemm_blocks_few.h"

// few_panels computes panels for few rows; it reports whether there is code for that.
static int few_panels(const q_linear_job *j, int64_t from, int64_t n) {
	const q_linear *l = j->l;
	const few_code code = few(l->blocks, l->rows);
	if (!code) return 0;
	const int64_t units = l->in / q_unit_in(l->blocks), bytes = units * q_unit_bytes(l->blocks, PANEL);
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	for (int64_t p = 0; p < n; p++)
		code(activations_of(j, 0), (const uint8_t *)l->weights + (from + p) * bytes, units, sums + p * SUMS);
	finish_panels(j, sums, NULL, 0, l->rows, from, n);
	return 1;
}
#else
static int few_panels(const q_linear_job *j, int64_t from, int64_t n) { return 0; }
#endif

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const q_blocks f = l->blocks;
	const int64_t unit = q_unit_in(f), unit_bytes = q_unit_bytes(f, PANEL), unit_blocks = unit / Q_BLOCK_IN,
				  units = l->in / unit;
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	if (few_panels(j, from, n)) return;
	const int64_t passes = (j->tiles + BLOCK_TILES - 1) / BLOCK_TILES,
				  a_pass = (j->tiles + passes - 1) / passes; // tiles per pass
	const int64_t a_chunk = CHUNK / unit_blocks;
	const int kind = f.bits == 8 && f.zero ? BYTES_MINIMA
	                 : f.zero              ? MINIMA
	                 : q_blocks_wide(f)    ? BYTES
	                 : f.size == 16        ? HALVES
	                 : f.min               ? MINIMA
	                                       : SCALES;
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	chunk w __attribute__((aligned(64)));
	begin_tiles(l);
	for (int64_t t0 = 0; t0 < j->tiles; t0 += a_pass) {
		const int64_t t1 = least(t0 + a_pass, j->tiles), row = tile_begin(j, t0), rows = tile_begin(j, t1) - row;
		for (int64_t p = 0; p < n; p++) {
			memset(sums + p * SUMS, 0, (t1 - t0) * Q_ROWS * PANEL * sizeof *sums);
			const uint8_t *b = (const uint8_t *)l->weights + (from + p) * units * unit_bytes;
			for (int64_t u = 0; u < units; u += a_chunk) {
				const int64_t some = least(a_chunk, units - u), block = u * unit_blocks;
				for (int64_t i = 0; i < some; i++, b += unit_bytes) unpack_unit(&w, i * unit_blocks, b, f);
				for (int64_t t = t0; t < t1; t++) {
					const int64_t begin = tile_begin(j, t), count = tile_begin(j, t + 1) - begin,
								  pitch = pitch_of(count);
					activations a = activations_of(j, begin);
					a.x += block * 32 * pitch;
					a.scales += block * pitch;
					a.sums += block * pitch;
					a.begins += block * q_halves(f) * pitch;
					multiply(count, kind, a, &w, some * unit_blocks, sums + p * SUMS + (begin - row) * PANEL);
				}
			}
		}
		finish_panels(j, sums, NULL, row, rows, from, n);
	}
	end_tiles();
}

const q_linear_code Q_CODE = {Q_ROWS, pack_tile, panels, 0, OWN, PART_ROWS};
