// Tiles of attention: the products of some rows, which are queries of heads, with keys, and the weighted sums of
// values, in registers. Included once per instruction set, by attention_impl.h.
#ifndef QUIRE_ATTENTION_TILES_H
#define QUIRE_ATTENTION_TILES_H

#include "attention_pairs.h"

enum { BLOCK = Q_ATTENTION_BLOCK, BLOCK_VECTORS = BLOCK / Q_WIDTH };

// tokens_of has the positions of a block's keys or values of one head: token j's is at tokens[j] + offset.
struct tokens_of {
	const char *const *tokens;
	int64_t offset;
};

// ahead is what to prefetch next: pieces of so many bytes, or none, and equal pieces at a distance after them (0 if
// values are keys). Prefetches go into the second cache: into the first they are slower if the memory is read, see
// bench/kernels.md.
struct ahead {
	const char *const *pieces;
	int64_t bytes, behind;
};

enum { LOCALITY = 2, LEAD_BYTES = 1 << 15 };

// lead_of returns how many heads ahead the keys and values of a block, up to LEAD_BYTES, are prefetched.
Q_INLINE int64_t lead_of(int64_t piece_bytes, int64_t heads) {
	const int64_t most = LEAD_BYTES / (BLOCK * piece_bytes);
	return most < 1 ? 1 : most < heads ? most : heads;
}

Q_INLINE void prefetch(struct ahead a, int64_t piece) {
	enum { LINE = 64 };
	const char *p = a.pieces[piece];
	// A line in which no piece starts is prefetched with the piece before it.
	for (int64_t i = -(uintptr_t)p & (LINE - 1); i < a.bytes; i += LINE) {
		__builtin_prefetch(p + i, 0, LOCALITY);
		__builtin_prefetch(p + i + a.behind, 0, LOCALITY);
	}
}

// Tiles are at most 6 rows by 8 vectors, 12 together; callers pass the bounds of their loops as constants, so that sums
// live in registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 8 };
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int c = 0; c < columns; c++)

// read_keys reads LANES dimensions, starting with d, of the keys of token j and, if KEYS is 2, of token j + other.
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

#if Q_SIMD == Q_AVX512
// lanes4 adds the LANES products of four queries and keys, for both of the KEYS keys in a vector: a part of 128 bits
// has the sums of half the products of the first keys, the next one the sums of the other half, the last two those
// for the second keys.
Q_INLINE __m512 lanes4(vf a, vf b, vf c, vf d) {
	__m512 w = (__m512)a, x = (__m512)b, y = (__m512)c, z = (__m512)d;
	__m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(w, x), _mm512_unpackhi_ps(w, x));
	__m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(y, z), _mm512_unpackhi_ps(y, z));
	return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}

// halves adds the halves in the results of lanes4 for two groups of four: the sums for the first and the second keys of
// a, then the sums for b.
Q_INLINE __m512 halves(__m512 a, __m512 b) {
	return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

// store_scores adds the products of each row and key.
Q_INLINE void store_scores(const int rows, const int columns, vf sum[TILE_ROWS][TILE_VECTORS], float *to) {
	if (columns == 8) {
		EACH_ROW {
			const vf *s = sum[r];
			__m512 all = halves(lanes4(s[0], s[1], s[2], s[3]), lanes4(s[4], s[5], s[6], s[7]));
			_mm512_storeu_ps(to + r * BLOCK, _mm512_shuffle_f32x4(all, all, 0xd8));
		}
		return;
	}
	_Pragma("GCC unroll 3") for (int r = 0; r < rows; r += 2) {
		const int next = r + 1 < rows ? r + 1 : r;
		const vf *s = sum[r], *t = sum[next];
		float *first = to + r * BLOCK, *second = to + next * BLOCK;
		if (columns == 4) {
			__m512 both = halves(lanes4(s[0], s[1], s[2], s[3]), lanes4(t[0], t[1], t[2], t[3]));
			_mm256_storeu_ps(first, _mm512_castps512_ps256(both));
			if (next > r) _mm256_storeu_ps(second, _mm512_extractf32x8_ps(both, 1));
			continue;
		}
		__m512 four = lanes4(s[0], s[1], t[0], t[1]);
		__m256 both = _mm512_castps512_ps256(halves(four, four));
		__m128d low = _mm_castps_pd(_mm256_castps256_ps128(both)), high = _mm_castps_pd(_mm256_extractf128_ps(both, 1));
		_mm_storeu_ps(first, _mm_castpd_ps(_mm_unpacklo_pd(low, high)));
		if (next > r) _mm_storeu_ps(second, _mm_castpd_ps(_mm_unpackhi_pd(low, high)));
	}
}
#else
typedef float v4 __attribute__((vector_size(16)));

// lanes4 adds the LANES products of four queries and keys.
Q_INLINE v4 lanes4(vf a, vf b, vf c, vf d) {
#if Q_SIMD == Q_PLAIN
	return (v4){(a[0] + a[2]) + (a[1] + a[3]), (b[0] + b[2]) + (b[1] + b[3]), (c[0] + c[2]) + (c[1] + c[3]),
		(d[0] + d[2]) + (d[1] + d[3])};
#else
	__m256 w = (__m256)a, x = (__m256)b, y = (__m256)c, z = (__m256)d;
	__m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(w, x), _mm256_unpackhi_ps(w, x));
	__m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(y, z), _mm256_unpackhi_ps(y, z));
	__m256 sums = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
	return (v4)_mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
#endif
}

// store_scores adds the products of each row and key.
Q_INLINE void store_scores(const int rows, const int columns, vf sum[TILE_ROWS][TILE_VECTORS], float *to) {
	if (columns % 4 == 0) {
		EACH_ROW _Pragma("GCC unroll 2") for (int c = 0; c < columns; c += 4) {
			v4 s = lanes4(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]);
			memcpy(to + r * BLOCK + c, &s, sizeof s);
		}
		return;
	}
	_Pragma("GCC unroll 3") for (int r = 0; r < rows; r += 2) {
		const int next = r + 1 < rows ? r + 1 : r;
		v4 s = lanes4(sum[r][0], sum[r][1], sum[next][0], sum[next][1]);
		memcpy(to + r * BLOCK, &s, 8);
		memcpy(to + next * BLOCK, (const char *)&s + (next > r ? 8 : 0), 8);
	}
}
#endif

// add_products adds the products of LANES dimensions, starting with d, of rows queries and columns*KEYS keys.
Q_INLINE void add_products(const int rows, const int columns, const int dtype, int64_t padded, const float *query,
	struct tokens_of keys, int64_t j, int64_t d, vf sum[TILE_ROWS][TILE_VECTORS]) {
	vf q[TILE_ROWS], k[TILE_VECTORS];
	if (rows < columns) {
		EACH_ROW q[r] = lanes_of(query + r * padded + d);
		EACH_VECTOR {
			vf one = read_keys(keys, j + c, columns, dtype, d);
			EACH_ROW sum[r][c] = vfma(q[r], one, sum[r][c]);
		}
		return;
	}
	EACH_VECTOR k[c] = read_keys(keys, j + c, columns, dtype, d);
	EACH_ROW {
		vf one = lanes_of(query + r * padded + d);
		EACH_VECTOR sum[r][c] = vfma(one, k[c], sum[r][c]);
	}
}

// add_pairs is add_products for LANES pairs.
Q_INLINE void add_pairs(const int rows, const int columns, const int dtype, int64_t padded, const float *query,
	struct tokens_of keys, int64_t j, int64_t d, vf sum[TILE_ROWS][TILE_VECTORS]) {
	const int64_t at = keys.offset + 2 * d;
	vu k[TILE_VECTORS];
	if (dtype == DOTS && rows < columns) {
		vu q[TILE_ROWS];
		EACH_ROW q[r] = (vu)lanes_of((const char *)(query + r * padded) + 2 * d);
		EACH_VECTOR {
			vu one = pairs_of(keys.tokens[j + c] + at, keys.tokens[j + c + (KEYS - 1) * columns] + at);
			EACH_ROW sum[r][c] = dots(sum[r][c], q[r], one);
		}
		return;
	}
	EACH_VECTOR k[c] = pairs_of(keys.tokens[j + c] + at, keys.tokens[j + c + (KEYS - 1) * columns] + at);
	EACH_ROW {
		const float *row = query + r * padded;
		if (dtype == DOTS) {
			vu both = (vu)lanes_of((const char *)row + 2 * d);
			EACH_VECTOR sum[r][c] = dots(sum[r][c], both, k[c]);
		} else {
			vf odd = lanes_of(row + d), even = lanes_of(row + d + LANES);
			EACH_VECTOR sum[r][c] = vfma(even, even_of(k[c]), vfma(odd, odd_of(k[c]), sum[r][c]));
		}
	}
}

// score_tile multiplies rows queries with columns*KEYS keys, starting with token j's, and prefetches half as many
// pieces.
Q_INLINE void score_tile(const int rows, const int columns, const int dtype, int64_t dim, int64_t padded,
	const float *query, struct tokens_of keys, int64_t j, struct ahead ahead, float *scores) {
	const int pairs = dtype == PAIRS || dtype == DOTS;
	int64_t piece = j / 2, pieces = piece + columns * KEYS / 2;
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = (vf){};
	for (int64_t d = 0; d < dim; d += pairs ? 2 * LANES : LANES) {
		if (piece < pieces) prefetch(ahead, piece++);
		if (pairs) add_pairs(rows, columns, dtype, padded, query, keys, j, d, sum);
		else add_products(rows, columns, dtype, padded, query, keys, j, d, sum);
	}
	while (piece < pieces) prefetch(ahead, piece++);
	store_scores(rows, columns, sum, scores + j);
}

// read_value reads vector c of the numbers that start at dimension d.
Q_INLINE vf read_value(const char *value, const int dtype, int64_t d, const int c) {
	if (dtype != PAIRS) return read_numbers(value, dtype, d + c * Q_WIDTH);
	vu both;
	memcpy(&both, value + 2 * (d + (c & ~1) * Q_WIDTH), sizeof both);
	return c & 1 ? odd_of(both) : even_of(both);
}

#ifdef Q_DOTS
// interleave returns pairs of the same dimension of two tokens, the first one's in the lower bits. From each 128 bits
// of both it takes the lower halves, or the upper ones if c is odd.
Q_INLINE vu interleave(const char *first, const char *second, const int c) {
#if Q_SIMD == Q_AVX512
	const __m512i a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(second);
	return (vu)(c & 1 ? _mm512_unpackhi_epi16(a, b) : _mm512_unpacklo_epi16(a, b));
#else
	const __m256i a = _mm256_loadu_si256((const __m256i *)first), b = _mm256_loadu_si256((const __m256i *)second);
	return (vu)(c & 1 ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b));
#endif
}

// turn_values interleaves the values of two tokens for DOTS_TURNED.
Q_INLINE void turn_values(const char *first, const char *second, int64_t padded, float *to) {
	for (int64_t d = 0; d < padded; d += 2 * Q_WIDTH) {
		vstore(to + d, (vf)interleave(first + 2 * d, second + 2 * d, 0));
		vstore(to + d + Q_WIDTH, (vf)interleave(first + 2 * d, second + 2 * d, 1));
	}
}
#endif

// unpair brings the sums of PAIRS, or of DOTS, into the order of the dimensions.
Q_INLINE void unpair(float *sums, int64_t padded, const int dots) {
	for (int64_t d = 0; d < padded; d += 2 * Q_WIDTH) {
		vf even = vload(sums + d), odd = vload(sums + d + Q_WIDTH);
#if Q_SIMD == Q_AVX512
		if (dots) {
			__m512 low = _mm512_shuffle_f32x4((__m512)even, (__m512)odd, 0x44);
			__m512 high = _mm512_shuffle_f32x4((__m512)even, (__m512)odd, 0xee);
			vstore(sums + d, (vf)_mm512_shuffle_f32x4(low, low, 0xd8));
			vstore(sums + d + Q_WIDTH, (vf)_mm512_shuffle_f32x4(high, high, 0xd8));
			continue;
		}
		__m512 low = _mm512_unpacklo_ps((__m512)even, (__m512)odd);
		__m512 high = _mm512_unpackhi_ps((__m512)even, (__m512)odd);
		__m512i order = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
		vstore(sums + d, (vf)_mm512_permutex2var_ps(low, order, high));
		order = _mm512_add_epi32(order, _mm512_set1_epi32(8));
		vstore(sums + d + Q_WIDTH, (vf)_mm512_permutex2var_ps(low, order, high));
#elif Q_SIMD == Q_AVX2
		__m256 low = dots ? (__m256)even : _mm256_unpacklo_ps((__m256)even, (__m256)odd);
		__m256 high = dots ? (__m256)odd : _mm256_unpackhi_ps((__m256)even, (__m256)odd);
		vstore(sums + d, (vf)_mm256_permute2f128_ps(low, high, 0x20));
		vstore(sums + d + Q_WIDTH, (vf)_mm256_permute2f128_ps(low, high, 0x31));
#else
		for (int i = 0; i < Q_WIDTH; i++) {
			sums[d + 2 * i] = even[i];
			sums[d + 2 * i + 1] = odd[i];
		}
#endif
	}
}

#ifdef Q_DOTS
// read_dots reads the vectors of a tile, starting at dimension d, of the values of tokens j and j + 1.
Q_INLINE void read_dots(const int columns, const int dtype, int64_t d, int64_t j, struct tokens_of values, vu *v) {
	const char *first = values.tokens[j] + values.offset, *second = values.tokens[j + 1] + values.offset;
	EACH_VECTOR {
		if (dtype == DOTS_TURNED) v[c] = (vu)vload((const float *)first + d + c * Q_WIDTH);
		else v[c] = interleave(first + 2 * (d + (c & ~1) * Q_WIDTH), second + 2 * (d + (c & ~1) * Q_WIDTH), c);
	}
}
#endif

// value_tile scales columns*Q_WIDTH dimensions of rows sums, starting at dimension d, and adds n weighted values.
// in_pairs is 1 if the second of each two comes first; then an odd number of them is followed by one of weight 0.
Q_INLINE void value_tile(const int rows, const int columns, const int dtype, const int in_pairs, int64_t d, int64_t n,
	int64_t padded, const float *weights, const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = vload(sums + r * padded + d + c * Q_WIDTH) * vset(keep[r]);
#ifdef Q_DOTS
	for (int64_t j = 0; (dtype == DOTS || dtype == DOTS_TURNED) && j < n; j += 2) {
		vu v[TILE_VECTORS];
		prefetch(ahead, j / 2);
		read_dots(columns, dtype, d, j, values, v);
		EACH_ROW {
			int32_t pair; // not a float, because it may look like a subnormal one
			memcpy(&pair, weights + r * BLOCK + j / 2, sizeof pair);
			const vu one = (vu)viset(pair);
			EACH_VECTOR sum[r][c] = dots(sum[r][c], one, v[c]);
		}
	}
#endif
	const int64_t last = in_pairs ? (n + 1) / 2 * 2 : n;
	for (int64_t i = 0; dtype != DOTS && dtype != DOTS_TURNED && i < last; i++) {
		const int64_t j = in_pairs ? i ^ 1 : i;
		const char *value = values.tokens[j] + values.offset;
		if (i % 2 == 0) prefetch(ahead, i / 2);
		vf x[TILE_ROWS], v[TILE_VECTORS];
		if (rows < columns) {
			EACH_ROW x[r] = vset(weights[r * BLOCK + j]);
			EACH_VECTOR {
				vf one = read_value(value, dtype, d, c);
				EACH_ROW sum[r][c] = vfma(x[r], one, sum[r][c]);
			}
		} else {
			EACH_VECTOR v[c] = read_value(value, dtype, d, c);
			EACH_ROW {
				vf one = vset(weights[r * BLOCK + j]);
				EACH_VECTOR sum[r][c] = vfma(one, v[c], sum[r][c]);
			}
		}
	}
	EACH_ROW EACH_VECTOR vstore(sums + r * padded + d + c * Q_WIDTH, sum[r][c]);
}

// score_rows multiplies rows queries with n keys, and up to a tile more: tokens[j] after the last may be any tokens.
Q_INLINE void score_rows(const int rows, const int dtype, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	const int columns = Q_WIDTH == 16 ? (rows <= 3 ? 8 : 4) : rows == 1 ? 8 : rows <= 3 ? 4 : 2;
	for (int64_t j = 0; j < n; j += columns * KEYS)
		score_tile(rows, columns, dtype, dim, padded, query, keys, j, ahead, scores);
}

Q_INLINE void value_rows(const int rows, const int dtype, const int in_pairs, int64_t n, int64_t padded,
	const float *weights, const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	const int columns = rows <= 3 ? 4 : 2;
	int64_t d = 0;
	for (; d + columns * Q_WIDTH <= padded; d += columns * Q_WIDTH, ahead.bytes = 0) {
		value_tile(rows, columns, dtype, in_pairs, d, n, padded, weights, keep, values, ahead, sums);
	}
	const int some = dtype >= PAIRS ? 2 : 1;
	for (; d < padded; d += some * Q_WIDTH, ahead.bytes = 0)
		value_tile(rows, some, dtype, in_pairs, d, n, padded, weights, keep, values, ahead, sums);
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

// Only the first rows have to prefetch.
#define NONE_BEHIND(ahead, r) ((struct ahead){(ahead).pieces, (r) ? 0 : (ahead).bytes, (ahead).behind})

Q_INLINE void score_all_as(const int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	BY_ROWS(rows,
		score_rows(R, dtype, dim, n, padded, query + r * padded, keys, NONE_BEHIND(ahead, r), scores + r * BLOCK));
}

static void score_all(int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query,
	struct tokens_of keys, struct ahead ahead, float *scores) {
	switch (dtype) {
#ifdef Q_DOTS
	case DOTS: score_all_as(DOTS, rows, dim, n, padded, query, keys, ahead, scores); break;
#endif
	case PAIRS: score_all_as(PAIRS, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_BF16: score_all_as(Q_BF16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_F16: score_all_as(Q_F16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_S8: score_all_as(Q_S8, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_U8: score_all_as(Q_U8, rows, dim, n, padded, query, keys, ahead, scores); break;
	default: score_all_as(Q_F32, rows, dim, n, padded, query, keys, ahead, scores); break;
	}
}

Q_INLINE void value_all_as(const int dtype, const int in_pairs, int64_t rows, int64_t n, int64_t padded,
	const float *weights, const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	BY_ROWS(rows, value_rows(R, dtype, in_pairs, n, padded, weights + r * BLOCK, keep + r, values,
					  NONE_BEHIND(ahead, r), sums + r * padded));
}

static void value_all(int dtype, int in_pairs, int64_t rows, int64_t n, int64_t padded, const float *weights,
	const float *keep, struct tokens_of values, struct ahead ahead, float *sums) {
	switch (dtype) {
#ifdef Q_DOTS
	case DOTS: value_all_as(DOTS, 1, rows, n, padded, weights, keep, values, ahead, sums); break;
	case DOTS_TURNED: value_all_as(DOTS_TURNED, 1, rows, n, padded, weights, keep, values, ahead, sums); break;
#endif
	case PAIRS: value_all_as(PAIRS, in_pairs, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_BF16: value_all_as(Q_BF16, in_pairs, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_F16: value_all_as(Q_F16, 0, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_S8: value_all_as(Q_S8, 0, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_U8: value_all_as(Q_U8, 0, rows, n, padded, weights, keep, values, ahead, sums); break;
	default: value_all_as(Q_F32, in_pairs, rows, n, padded, weights, keep, values, ahead, sums); break;
	}
}

#endif
