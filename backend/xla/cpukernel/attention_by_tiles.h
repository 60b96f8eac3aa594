// Attention by tiles of AMX, for queries, keys and values in bf16: products of queries and keys, and weighted sums of
// values. Keys are read as they are in the cache, sixteen tokens at a time. Queries are packed,
// [rows/16][dim/2][16][2]. Scores are summed over 32 dimensions at a time, and values over the 32 tokens of a block,
// in the order of the instruction. Values are interleaved first, as turn_values does: [BLOCK/2][dim][2].
#ifndef QUIRE_ATTENTION_BY_TILES_H
#define QUIRE_ATTENTION_BY_TILES_H

#include "attention_tiles.h"

#ifdef Q_SCORE_TILES
#include "amx_config.h"

Q_INLINE int by_tiles(const struct q_attention *a) { return q_attention_by_tiles(q_attend_amx, a); }

// tile_floats is the size of a head's packed queries.
static int64_t tile_floats(const struct q_attention *a, int64_t rows) { return (rows + 15) / 16 * a->dim / 32 * 256; }

// rows_by_tiles returns the number of a head's rows for which there is room: whole tiles, or one tile of fewer rows.
static int64_t rows_by_tiles(const struct q_attention *a, int64_t rows) {
	return by_tiles(a) && rows > 16 ? (rows + 15) / 16 * 16 : rows;
}

// begin_tiles configures the tiles. 0 and 1 are scores, [keys][rows]; 2 and 3 sums of values, [rows][dimensions]; 4
// and 5 keys or values; 6 queries, [pairs of dimensions][rows][2]; 7 weights, [rows][tokens].
static void begin_tiles(int64_t rows) {
	amx_config config = {.palette = 1};
	const int some = rows < 16 ? (int)rows : 16;
	for (int i = 0; i < 8; i++) {
		const int by_rows = i == 2 || i == 3 || i == 7;
		config.row_bytes[i] = i < 2 || i == 6 ? 4 * some : 64;
		config.rows[i] = by_rows ? some : 16;
	}
	amx_reads(&config);
	_tile_loadconfig(&config);
}

static void end_tiles(void) { _tile_release(); }

// pack_query puts row r of a head's queries among the packed ones.
static void pack_query(const char *from, int64_t dim, int64_t r, char *to) {
	to += r / 16 * dim / 32 * 1024 + r % 16 * 4;
	for (int64_t d = 0; d < dim; d += 2) memcpy(to + d / 2 * 64, from + 2 * d, 4);
}

// turn_sums writes a tile of sums, [keys][rows], as [rows][BLOCK].
static void turn_sums(const float *sums, int64_t rows, float *to) {
#if Q_SIMD == Q_AVX512
	if (rows < 6) { // sooner one by one
		const __m512i at = _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
		for (int64_t r = 0; r < rows; r++) vstore(to + r * BLOCK, (vf)_mm512_i32gather_ps(at, sums + r, 4));
		return;
	}
	// Each quarter of a vector has four rows of a key; a key's quarter is joined by the keys 4, 8 and 12 after it. Then
	// four of these vectors are turned within their quarters.
	for (int64_t q = 0; q < 4 && 4 * q < rows; q++, sums += 4) {
		__m512 keys[4], pairs[4];
		for (int k = 0; k < 4; k++) {
			__m512 x = _mm512_castps128_ps512(_mm_load_ps(sums + k * 16));
			x = _mm512_insertf32x4(x, _mm_load_ps(sums + (k + 4) * 16), 1);
			x = _mm512_insertf32x4(x, _mm_load_ps(sums + (k + 8) * 16), 2);
			keys[k] = _mm512_insertf32x4(x, _mm_load_ps(sums + (k + 12) * 16), 3);
		}
		for (int k = 0; k < 2; k++) {
			pairs[2 * k] = _mm512_unpacklo_ps(keys[2 * k], keys[2 * k + 1]);
			pairs[2 * k + 1] = _mm512_unpackhi_ps(keys[2 * k], keys[2 * k + 1]);
		}
		for (int64_t r = 0; r < 4 && 4 * q + r < rows; r++) {
			const __m512d low = _mm512_castps_pd(pairs[r / 2]), high = _mm512_castps_pd(pairs[2 + r / 2]);
			const __m512d row = r % 2 ? _mm512_unpackhi_pd(low, high) : _mm512_unpacklo_pd(low, high);
			vstore(to + (4 * q + r) * BLOCK, (vf)_mm512_castpd_ps(row));
		}
	}
#else
	for (int64_t r = 0; r < rows; r++)
		for (int i = 0; i < 16; i++) to[r * BLOCK + i] = sums[i * 16 + r];
#endif
}

// score_tiles multiplies rows queries, starting with the first of a tile, with n keys: scores [rows][BLOCK]. After
// the n there are keys of the same page, or none are read.
static void score_tiles(const struct q_attention *a, int64_t rows, int64_t n, const char *queries,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	const int64_t steps = a->dim / 32;
	float sums[2][256] __attribute__((aligned(64)));
	// Sixteen tokens are in one page, or their keys are copied.
	const int whole = a->page_size % 16 == 0;
	char copies[2][16][64] __attribute__((aligned(64)));
	const char *first = keys.tokens[0] + keys.offset, *second = keys.tokens[16] + keys.offset;
	const int64_t stride = whole ? a->lies.token_stride : 64, step = whole ? 64 : 0;
	if (!whole) first = copies[0][0], second = copies[1][0];
	for (int64_t r0 = 0, piece = 0; r0 < rows; r0 += 16, queries += steps * 1024) {
		_tile_zero(0);
		_tile_zero(1);
		for (int64_t d = 0; d < steps; d++) {
			for (int64_t j = 0; !whole && j < BLOCK; j++)
				memcpy(copies[j / 16][j % 16], keys.tokens[j] + keys.offset + d * 64, 64);
			amx_reads(copies);
			_tile_loadd(6, queries + d * 1024, 64);
			_tile_loadd(4, first + d * step, stride);
			_tile_dpbf16ps(0, 4, 6);
			if (n <= 16) continue;
			_tile_loadd(5, second + d * step, stride);
			_tile_dpbf16ps(1, 5, 6);
		}
		_tile_stored(0, sums[0], 64);
		_tile_stored(1, sums[1], 64);
		const int64_t some = rows - r0 < 16 ? rows - r0 : 16;
		for (int64_t r = 0; r < some && r0 == 0; r++)
			for (; piece < (r + 1) * (BLOCK / 2) / some; piece++) prefetch(ahead, piece);
		for (int64_t i = 0; i < BLOCK / 16; i++) turn_sums(sums[i], some, scores + r0 * BLOCK + i * 16);
	}
}

// turn_block interleaves n values for value_tiles, with zeros up to BLOCK, and prefetches.
static void turn_block(
	const struct q_attention *a, int64_t n, struct tokens_of values, struct ahead ahead, float *to) {
	for (int64_t j = 0; j < BLOCK; j += 2, to += a->dim) {
		if (j >= n) {
			memset(to, 0, a->dim * sizeof *to);
			continue;
		}
		prefetch(ahead, j / 2);
		turn_values(values.tokens[j] + values.offset, values.tokens[j + 1] + values.offset, a->dim, to);
	}
}

// value_tiles multiplies the sums [rows][dim] of whole tiles of rows, or of all, by keep and adds the weighted values
// of a block, in the order of turn_block. Weights are packed, [rows][BLOCK] of 32 bits, with zeros if a row does not
// see a token.
static void value_tiles(const struct q_attention *a, int64_t rows, const float *weights, const float *keep,
	const float *values, float *sums) {
	const int64_t dim = a->dim, row = dim * sizeof *sums;
	for (int64_t r = 0; r < rows; r++) {
		if (keep[r] == 1) continue;
		for (int64_t d = 0; d < dim; d += Q_WIDTH)
			vstore(sums + r * dim + d, vload(sums + r * dim + d) * vset(keep[r]));
	}
	amx_reads(values);
	for (int64_t r = 0; r < rows; r += 16, weights += 16 * BLOCK, sums += 16 * dim) {
		_tile_loadd(7, weights, BLOCK * sizeof *weights);
		for (int64_t d = 0; d < dim; d += 32) {
			_tile_loadd(2, sums + d, row);
			_tile_loadd(4, values + d, row);
			_tile_dpbf16ps(2, 7, 4);
			_tile_loadd(3, sums + d + 16, row);
			_tile_loadd(5, values + d + 16, row);
			_tile_dpbf16ps(3, 7, 5);
			_tile_stored(2, sums + d, row);
			_tile_stored(3, sums + d + 16, row);
		}
	}
}
#else
Q_INLINE int by_tiles(const struct q_attention *a) { return 0; }
Q_INLINE int64_t rows_by_tiles(const struct q_attention *a, int64_t rows) { return rows; }
Q_INLINE int64_t tile_floats(const struct q_attention *a, int64_t rows) { return 0; }
Q_INLINE void begin_tiles(int64_t rows) {}
Q_INLINE void end_tiles(void) {}
Q_INLINE void pack_query(const char *from, int64_t dim, int64_t r, char *to) {}
Q_INLINE void score_tiles(const struct q_attention *a, int64_t rows, int64_t n, const char *queries,
	struct tokens_of keys, struct ahead ahead, float *scores) {}
Q_INLINE void turn_block(
	const struct q_attention *a, int64_t n, struct tokens_of values, struct ahead ahead, float *to) {}
Q_INLINE void value_tiles(const struct q_attention *a, int64_t rows, const float *weights, const float *keep,
	const float *values, float *sums) {}
#endif

#endif
