// The part of gemm_blocks_code.h for AMX. A tile multiplies the integers of a block; vectors scale the products and
// add them. The vectors take longer, so sums stay in registers: 16 rows by 16 columns, or 8 rows by both halves of a
// panel. Storing a tile of 8 rows takes as long as storing one of 16.

#include "amx_config.h"
#include "gemm_blocks_step.h"

enum { FEW_ROWS = 8 };

// begin_tiles configures the tiles: 0 to 3 are products, 4 activations of a block's inputs, 5 and 6 their weights.
static void begin_tiles(const q_linear *l) {
	const int inputs = l->blocks.size == 16 ? 16 : 32;
	amx_config config = {.palette = 1};
	for (int i = 0; i < 7; i++) {
		config.row_bytes[i] = i == 4 ? inputs : 64;
		config.rows[i] = i > 4 ? inputs / 4 : l->rows <= FEW_ROWS ? FEW_ROWS : Q_ROWS;
	}
	amx_reads(&config);
	_tile_loadconfig(&config);
}

static void end_tiles(void) { _tile_release(); }

// TIMES starts products of 16 columns. Weights are signed, unless there are minima.
#define TIMES(tile, minima, weights, w) \
	do { \
		_tile_zero(tile); \
		_tile_loadd(weights, w, STEP); \
		if (minima) _tile_dpbsud(tile, 4, weights); \
		else _tile_dpbssd(tile, 4, weights); \
	} while (0)

// add_products adds products of 16 columns of a block, [n][16], to the sums y of n rows.
ALWAYS void add_products(const int n, const int minima, const int32_t *products, const float *scales,
	const float *minimum, const float *row_scales, const float *row_sums, vec y[][16 / LANES]) {
	EACH(j, 16 / LANES) {
		const vec scale = vec_load(scales + j * LANES), lowest = minima ? vec_load(minimum + j * LANES) : scale;
		EACH(r, n) {
			const vec whole = ints_float(ints_load(products + r * 16 + j * LANES));
			y[r][j] = vec_fma(whole, vec_mul(scale, vec_set(row_scales[r])), y[r][j]);
			if (minima) y[r][j] = vec_fma(lowest, vec_set(row_sums[r]), y[r][j]);
		}
	}
}

ALWAYS void load_sums(const int n, vec y[][16 / LANES], const float *sums) {
	EACH(r, n)
		EACH(j, 16 / LANES) y[r][j] = vec_load(sums + r * PANEL + j * LANES);
}

ALWAYS void store_sums(const int n, vec y[][16 / LANES], float *sums) {
	EACH(r, n)
		EACH(j, 16 / LANES) vec_store(sums + r * PANEL + j * LANES, y[r][j]);
}

// PART is the position of the activations of block i, or of a half, and WEIGHTS the position of its weights from a
// column on.
#define PART(i) (a.x + (i) / halves * 32 * Q_ROWS + (i) % halves * 16)
#define WEIGHTS(i, column) (w->quants + (i) * (BLOCK / halves) + 4 * (column))

// many adds the products of some blocks to the sums of 16 rows. The tiles of one are stored, and the next started,
// while the previous one is added.
ALWAYS void many(const int halves, const int minima, activations a, const chunk *w, int64_t blocks, float *sums) {
	const int64_t all = blocks * halves;
	int32_t products[2][Q_ROWS * 16] __attribute__((aligned(64)));
	for (int column = 0; column < PANEL; column += 16) {
		vec y[Q_ROWS][16 / LANES];
		load_sums(Q_ROWS, y, sums + column);
		_tile_loadd(4, PART(0), 32);
		TIMES(0, minima, 5, WEIGHTS(0, column));
		for (int64_t i = 0; i < all; i += 2) {
			EACH(odd, 2) {
				const int64_t at = i + odd;
				if (at == all) break;
				if (odd) _tile_stored(1, products[1], 64);
				else _tile_stored(0, products[0], 64);
				if (at + 1 < all) {
					_tile_loadd(4, PART(at + 1), 32);
					if (odd) TIMES(0, minima, 5, WEIGHTS(at + 1, column));
					else TIMES(1, minima, 5, WEIGHTS(at + 1, column));
				}
				add_products(Q_ROWS, minima, products[odd], w->scales + at * PANEL + column,
					w->minima + at * PANEL + column, a.scales + at / halves * Q_ROWS, a.sums + at / halves * Q_ROWS, y);
			}
		}
		store_sums(Q_ROWS, y, sums + column);
	}
}

// few_tiles is many for up to 8 rows, whose activations a tile reads once for a whole panel.
ALWAYS void few_tiles(const int halves, const int minima, activations a, const chunk *w, int64_t blocks, float *sums) {
	const int64_t all = blocks * halves;
	int32_t products[2][Q_ROWS * 16] __attribute__((aligned(64)));
	vec y[2][FEW_ROWS][16 / LANES];
	EACH(half, 2) load_sums(FEW_ROWS, y[half], sums + 16 * half);
	_tile_loadd(4, PART(0), 32);
	TIMES(0, minima, 5, WEIGHTS(0, 0));
	TIMES(1, minima, 6, WEIGHTS(0, 16));
	for (int64_t i = 0; i < all; i++) {
		_tile_stored(0, products[0], 64);
		_tile_stored(1, products[1], 64);
		if (i + 1 < all) {
			_tile_loadd(4, PART(i + 1), 32);
			TIMES(0, minima, 5, WEIGHTS(i + 1, 0));
			TIMES(1, minima, 6, WEIGHTS(i + 1, 16));
		}
		EACH(half, 2)
			add_products(FEW_ROWS, minima, products[half], w->scales + i * PANEL + 16 * half,
				w->minima + i * PANEL + 16 * half, a.scales + i / halves * Q_ROWS, a.sums + i / halves * Q_ROWS,
				y[half]);
	}
	EACH(half, 2) store_sums(FEW_ROWS, y[half], sums + 16 * half);
}

typedef void (*tiles_code)(activations, const chunk *, int64_t, float *);

#define CODE(name, code, halves, minima) \
	static __attribute__((noinline)) void name(activations a, const chunk *w, int64_t blocks, float *sums) { \
		code(halves, minima, a, w, blocks, sums); \
	}
CODE(scales_many, many, 1, 0)
CODE(minima_many, many, 1, 1)
CODE(halves_many, many, 2, 0)
CODE(scales_few, few_tiles, 1, 0)
CODE(minima_few, few_tiles, 1, 1)
CODE(halves_few, few_tiles, 2, 0)

static void multiply(int64_t n, int kind, activations a, const chunk *w, int64_t blocks, float *sums) {
	static const tiles_code codes[KINDS][2] = {[SCALES] = {scales_many, scales_few},
		[MINIMA] = {minima_many, minima_few},
		[HALVES] = {halves_many, halves_few},
		[BYTES] = {scales_many, scales_few},
		[BYTES_MINIMA] = {minima_many, minima_few}};
	codes[kind][n <= FEW_ROWS](a, w, blocks, sums);
}
