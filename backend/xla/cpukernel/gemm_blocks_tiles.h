// The part of gemm_blocks_code.h for AMX: 16 rows times the 32 columns of a panel, a block at a time. A block's
// products are stored as integers and then added to the sums as other levels do, so that rows have the same bits.

#include "amx_config.h"

// begin_tiles shapes the tiles: 0 to 3 are products, 4 activations of a block's inputs, 5 and 6 weights of them.
static void begin_tiles(q_blocks b) {
	amx_config config = {.palette = 1};
	for (int i = 0; i < 7; i++) {
		const int inputs = b.size == 16 ? 16 : 32;
		config.row_bytes[i] = i == 4 ? inputs : 64;
		config.rows[i] = i < 5 ? Q_ROWS : inputs / 4;
	}
	_tile_loadconfig(&config);
}

static void end_tiles(void) { _tile_release(); }

// add_tile adds the products of a block to the sums of n rows.
ALWAYS void add_tile(const int kind, int64_t n, const int32_t *products, activations a, const float *scales,
	const float *minima, float *sums) {
	for (int64_t r = 0; r < n; r++) {
		EACH(j, WIDE) {
			ints y = ints_load(products + r * PANEL + j * LANES);
			if (kind != MINIMA) y = ints_add(y, ints_set(a.begins[r]));
			add_products(y, scales + j * LANES, a.scales[r], kind == MINIMA ? minima + j * LANES : NULL, a.sums[r],
				sums + r * PANEL + j * LANES);
		}
	}
}

// products stores those of 16 rows and a block, by one of two pairs of tiles, so that a pair is free while the other is
// stored.
#define PRODUCTS(first, second) \
	do { \
		_tile_zero(first); \
		_tile_zero(second); \
		_tile_loadd(4, a.x + h * 16, 32); \
		_tile_loadd(5, q, STEP); \
		_tile_dpbsud(first, 4, 5); \
		_tile_loadd(6, q + 64, STEP); \
		_tile_dpbsud(second, 4, 6); \
		_tile_stored(first, to, PANEL * 4); \
		_tile_stored(second, to + 16, PANEL * 4); \
	} while (0)

ALWAYS void blocks_of(const int kind, int64_t n, activations a, const chunk *w, int64_t blocks, float *sums) {
	const int halves = kind == HALVES ? 2 : 1;
	const uint8_t *q = w->quants;
	const float *scales = w->scales, *minima = w->minima;
	int32_t products[2][Q_ROWS * PANEL] __attribute__((aligned(64)));
	for (int64_t b = 0; b < blocks; b++) {
		for (int h = 0; h < halves; h++) {
			const int odd = (b * halves + h) % 2;
			int32_t *to = products[odd];
			if (odd) PRODUCTS(0, 1);
			else PRODUCTS(2, 3);
			add_tile(kind, n, to, a, scales, minima, sums);
			q += BLOCK / halves;
			scales += PANEL;
			a.begins += Q_ROWS;
		}
		minima += PANEL;
		a.x += Q_ROWS * 32;
		a.scales += Q_ROWS;
		a.sums += Q_ROWS;
	}
}

static void multiply(int64_t n, int kind, activations a, const chunk *w, int64_t blocks, float *sums) {
	switch (kind) {
	case MINIMA:
	case BYTES_MINIMA: blocks_of(MINIMA, n, a, w, blocks, sums); break;
	case HALVES: blocks_of(HALVES, n, a, w, blocks, sums); break;
	default: blocks_of(SCALES, n, a, w, blocks, sums);
	}
}
