// Tiles of attention: the products of some rows, which are queries of heads, with keys, and their weighted sums of
// values, in registers. Included once for each instruction set, by attention_impl.h.
#ifndef QUIRE_ATTENTION_TILES_H
#define QUIRE_ATTENTION_TILES_H

#include "attention_numbers.h"

enum { BLOCK = Q_ATTENTION_BLOCK, BLOCK_VECTORS = BLOCK / Q_WIDTH };

// A vector multiplies LANES dimensions of KEYS keys.
enum { LANES = Q_WIDTH < 8 ? Q_WIDTH : 8, KEYS = Q_WIDTH / LANES };

// tokens_of is where a block's keys or values of one head are: those of token j at tokens[j] + offset.
struct tokens_of {
	const char *const *tokens;
	int64_t offset;
};

// ahead is what to have in the first cache next: pieces of so many bytes, or none.
struct ahead {
	const char *const *pieces;
	int64_t bytes;
};

Q_INLINE void prefetch(struct ahead a, int64_t piece) {
	enum { LINE = 64 };
	const char *p = a.pieces[piece];
	for (int64_t i = 0; i < a.bytes; i += LINE) __builtin_prefetch(p + i, 0, 3);
}

// Tiles are at most 6 rows by 8 vectors, 12 together; the bounds of their loops are constants where they are called, so
// that sums live in registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 8 };
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int c = 0; c < columns; c++)

// read_keys reads LANES dimensions, from d on, of the keys of token j and, where KEYS is 2, of token j + other.
Q_INLINE vf read_keys(struct tokens_of keys, int64_t j, int64_t other, const int dtype, int64_t d) {
	const int size = dtype == Q_F32 ? 4 : dtype == Q_S8 || dtype == Q_U8 ? 1 : 2;
	const char *p = keys.tokens[j] + keys.offset + d * size;
#if Q_SIMD == Q_AVX512
	const char *q = keys.tokens[j + other] + keys.offset + d * size;
	if (size == 1)
		return numbers16(
			_mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)q)), dtype);
	if (dtype == Q_F32)
		return (vf)_mm512_insertf32x8(
			_mm512_castps256_ps512(_mm256_loadu_ps((const float *)p)), _mm256_loadu_ps((const float *)q), 1);
	__m256i both = _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)), _mm_loadu_si128((const __m128i *)q), 1);
	if (dtype == Q_F16) return (vf)_mm512_cvtph_ps(both);
	return (vf)((vu)_mm512_cvtepu16_epi32(both) << 16);
#else
	(void)other;
	return read_numbers(p, dtype, 0);
#endif
}

// read_query reads LANES dimensions of a query, for each of KEYS keys.
Q_INLINE vf read_query(const float *p) {
#if Q_SIMD == Q_AVX512
	return (vf)_mm512_broadcast_f32x8(_mm256_loadu_ps(p));
#else
	return vload(p);
#endif
}

typedef float v4 __attribute__((vector_size(16)));

// lanes4 adds the LANES products of four queries and keys: of the first of KEYS keys in a vector, or of the second.
Q_INLINE v4 lanes4(vf a, vf b, vf c, vf d, const int second) {
#if Q_SIMD == Q_PLAIN
	(void)second;
	return (v4){(a[0] + a[2]) + (a[1] + a[3]), (b[0] + b[2]) + (b[1] + b[3]), (c[0] + c[2]) + (c[1] + c[3]),
		(d[0] + d[2]) + (d[1] + d[3])};
#else
#if Q_SIMD == Q_AVX512
#define Q_PART(x) (second ? _mm512_extractf32x8_ps((__m512)(x), 1) : _mm512_castps512_ps256((__m512)(x)))
#else
#define Q_PART(x) ((__m256)(x))
	(void)second;
#endif
	__m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(Q_PART(a), Q_PART(b)), _mm256_unpackhi_ps(Q_PART(a), Q_PART(b)));
	__m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(Q_PART(c), Q_PART(d)), _mm256_unpackhi_ps(Q_PART(c), Q_PART(d)));
#undef Q_PART
	__m256 sums = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
	return (v4)_mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
#endif
}

// score_tile multiplies rows queries with columns*KEYS keys, those of token j and behind, and reads ahead half as many
// pieces.
Q_INLINE void score_tile(const int rows, const int columns, const int dtype, int64_t dim, int64_t padded,
	const float *query, struct tokens_of keys, int64_t j, struct ahead ahead, float *scores) {
	int64_t piece = j / 2, pieces = piece + columns * KEYS / 2;
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = (vf){};
	for (int64_t d = 0; d < dim; d += LANES) {
		if (piece < pieces) prefetch(ahead, piece++);
		vf q[TILE_ROWS], k[TILE_VECTORS];
		if (rows < columns) {
			EACH_ROW q[r] = read_query(query + r * padded + d);
			EACH_VECTOR {
				vf one = read_keys(keys, j + c, columns, dtype, d);
				EACH_ROW sum[r][c] = vfma(q[r], one, sum[r][c]);
			}
		} else {
			EACH_VECTOR k[c] = read_keys(keys, j + c, columns, dtype, d);
			EACH_ROW {
				vf one = read_query(query + r * padded + d);
				EACH_VECTOR sum[r][c] = vfma(one, k[c], sum[r][c]);
			}
		}
	}
	while (piece < pieces) prefetch(ahead, piece++);
	for (int half = 0; half < KEYS; half++) {
		float *to = scores + j + half * columns;
		if (columns % 4 == 0) {
			EACH_ROW _Pragma("GCC unroll 2") for (int c = 0; c < columns; c += 4) {
				v4 s = lanes4(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3], half);
				memcpy(to + r * BLOCK + c, &s, sizeof s);
			}
		} else {
			_Pragma("GCC unroll 3") for (int r = 0; r < rows; r += 2) {
				int next = r + 1 < rows ? r + 1 : r;
				v4 s = lanes4(sum[r][0], sum[r][1], sum[next][0], sum[next][1], half);
				memcpy(to + r * BLOCK, &s, 8);
				memcpy(to + next * BLOCK, (const char *)&s + (next > r ? 8 : 0), 8);
			}
		}
	}
}

// value_tile scales columns*Q_WIDTH dimensions of rows sums, from dimension d on, and adds n values, weighted.
Q_INLINE void value_tile(const int rows, const int columns, const int dtype, int64_t d, int64_t n, int64_t padded,
	const float *weights, const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = vload(sums + r * padded + d + c * Q_WIDTH) * vset(keep[r]);
	for (int64_t j = 0; j < n; j++) {
		const char *value = values.tokens[j] + values.offset;
		if (j % 2 == 0) prefetch(ahead, j / 2);
		vf x[TILE_ROWS], v[TILE_VECTORS];
		if (rows < columns) {
			EACH_ROW x[r] = vset(weights[r * BLOCK + j]);
			EACH_VECTOR {
				vf one = read_numbers(value, dtype, d + c * Q_WIDTH);
				EACH_ROW sum[r][c] = vfma(x[r], one, sum[r][c]);
			}
		} else {
			EACH_VECTOR v[c] = read_numbers(value, dtype, d + c * Q_WIDTH);
			EACH_ROW {
				vf one = vset(weights[r * BLOCK + j]);
				EACH_VECTOR sum[r][c] = vfma(one, v[c], sum[r][c]);
			}
		}
	}
	EACH_ROW EACH_VECTOR vstore(sums + r * padded + d + c * Q_WIDTH, sum[r][c]);
}

// score_rows multiplies rows queries with n keys, and up to a tile more: tokens[j] behind the last are some token.
Q_INLINE void score_rows(const int rows, const int dtype, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	const int columns = rows == 1 ? 8 : rows <= 3 ? 4 : 2;
	for (int64_t j = 0; j < n; j += columns * KEYS)
		score_tile(rows, columns, dtype, dim, padded, query, keys, j, ahead, scores);
}

Q_INLINE void value_rows(const int rows, const int dtype, int64_t n, int64_t padded, const float *weights,
	const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	const int columns = rows <= 3 ? 4 : 2;
	int64_t d = 0;
	for (; d + columns * Q_WIDTH <= padded; d += columns * Q_WIDTH, ahead.bytes = 0) {
		value_tile(rows, columns, dtype, d, n, padded, weights, keep, values, ahead, sums);
	}
	for (; d < padded; d += Q_WIDTH, ahead.bytes = 0)
		value_tile(rows, 1, dtype, d, n, padded, weights, keep, values, ahead, sums);
}

// BY_ROWS runs call, which uses the row number r and the constant R, for all rows in tiles of 6 and the rest.
// clang-format off
#define BY_ROWS(rows, call) \
	do { \
		int64_t r = 0; \
		for (; r + 6 <= (rows); r += 6) { enum { R = 6 }; call; } \
		switch ((rows) - r) { \
		case 5: { enum { R = 5 }; call; break; } \
		case 4: { enum { R = 4 }; call; break; } \
		case 3: { enum { R = 3 }; call; break; } \
		case 2: { enum { R = 2 }; call; break; } \
		case 1: { enum { R = 1 }; call; break; } \
		} \
	} while (0)
// clang-format on

// Only the first rows have to read ahead.
#define NONE_BEHIND(ahead, r) ((struct ahead){(ahead).pieces, (r) ? 0 : (ahead).bytes})

Q_INLINE void score_all_as(const int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	BY_ROWS(rows,
		score_rows(R, dtype, dim, n, padded, query + r * padded, keys, NONE_BEHIND(ahead, r), scores + r * BLOCK));
}

static void score_all(int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	switch (dtype) {
	case Q_BF16: score_all_as(Q_BF16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_F16: score_all_as(Q_F16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_S8: score_all_as(Q_S8, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_U8: score_all_as(Q_U8, rows, dim, n, padded, query, keys, ahead, scores); break;
	default: score_all_as(Q_F32, rows, dim, n, padded, query, keys, ahead, scores); break;
	}
}

Q_INLINE void value_all_as(const int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights,
	const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	BY_ROWS(rows, value_rows(R, dtype, n, padded, weights + r * BLOCK, keep + r, values, NONE_BEHIND(ahead, r),
					  sums + r * padded));
}

static void value_all(int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights, const float *keep,
	struct tokens_of values, struct ahead ahead, float *sums) {
	switch (dtype) {
	case Q_BF16: value_all_as(Q_BF16, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_F16: value_all_as(Q_F16, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_S8: value_all_as(Q_S8, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_U8: value_all_as(Q_U8, rows, n, padded, weights, keep, values, ahead, sums); break;
	default: value_all_as(Q_F32, rows, n, padded, weights, keep, values, ahead, sums); break;
	}
}

#endif
