// Scores by tiles of AMX: the products of queries and keys that are bf16. Keys are read as they lie in the cache, those
// of sixteen tokens at a time. Queries are packed, [rows/16][dim/2][16][2]. Scores are summed over 32 dimensions at a
// time, in the order of the instruction.
#ifndef QUIRE_ATTENTION_SCORES_H
#define QUIRE_ATTENTION_SCORES_H

#include "attention_tiles.h"

#ifdef Q_SCORE_TILES
#include "amx_config.h"

Q_INLINE int by_tiles(const struct q_attention *a) { return q_attention_by_tiles(q_attend_amx, a); }

// tile_floats is the room of a head's packed queries.
static int64_t tile_floats(const struct q_attention *a, int64_t rows) { return (rows + 15) / 16 * a->dim / 32 * 256; }

// begin_tiles shapes the tiles: 0 and 1 are scores, 4 and 5 keys, 6 queries.
static void begin_tiles(int64_t rows) {
	amx_config config = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = i < 4 || i == 6 ? 4 * (rows < 16 ? rows : 16) : 64;
		config.rows[i] = 16;
	}
	_tile_loadconfig(&config);
}

static void end_tiles(void) { _tile_release(); }

// pack_query puts row r of a head's queries among the packed ones.
static void pack_query(const char *from, int64_t dim, int64_t r, char *to) {
	to += r / 16 * dim / 32 * 1024 + r % 16 * 4;
	for (int64_t d = 0; d < dim; d += 2) memcpy(to + d / 2 * 64, from + 2 * d, 4);
}

// score_tiles multiplies rows queries, from the first of a tile on, with n keys: scores [rows][BLOCK]. Behind the n
// there are keys of the same page, or none are read.
static void score_tiles(const struct q_attention *a, int64_t rows, int64_t n, const char *queries,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	const int64_t steps = a->dim / 32;
	float sums[2][256] __attribute__((aligned(64)));
	// Sixteen tokens lie in one page, or their keys are copied.
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
		for (int64_t r = 0; r < some; r++) {
			for (; r0 == 0 && piece < (r + 1) * (BLOCK / 2) / some; piece++) prefetch(ahead, piece);
			float *to = scores + (r0 + r) * BLOCK;
#if Q_SIMD == Q_AVX512
			const __m512i at =
				_mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
			vstore(to, (vf)_mm512_i32gather_ps(at, sums[0] + r, 4));
			vstore(to + 16, (vf)_mm512_i32gather_ps(at, sums[1] + r, 4));
#else
			for (int i = 0; i < BLOCK; i++) to[i] = sums[i / 16][i % 16 * 16 + r];
#endif
		}
	}
}
#else
Q_INLINE int by_tiles(const struct q_attention *a) { return 0; }
Q_INLINE int64_t tile_floats(const struct q_attention *a, int64_t rows) { return 0; }
Q_INLINE void begin_tiles(int64_t rows) {}
Q_INLINE void end_tiles(void) {}
Q_INLINE void pack_query(const char *from, int64_t dim, int64_t r, char *to) {}
Q_INLINE void score_tiles(const struct q_attention *a, int64_t rows, int64_t n, const char *queries,
	struct tokens_of keys, struct ahead ahead, float *scores) {}
#endif

#endif
