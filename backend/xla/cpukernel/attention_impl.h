// Ragged paged attention for one instruction set: see attention.h for what it computes. Included by attention_plain.c and the like.
//
// A task is some consecutive tokens of one sequence with one or more KV heads. It goes through the sequence's context in blocks of
// BLOCK tokens at absolute positions. Of a block it multiplies a head's keys with the queries of the head, makes the scores weights and
// adds the values so weighted, and keeps for each row, a query of one head, the running maximum, sum and weighted sum of values. A
// single token's rows read keys and values as they lie in the cache; many rows share one conversion of them to float32.
//
// What a row gets depends on its query, its position and its sequence's keys and values alone: a score is LANES sums over every
// LANES-th dimension in order, added by a fixed tree; weighted sums add over the positions in order, sums of weights by a fixed tree.
// Blocks that a row does not see leave its sums as they are. Of quantized keys and values the numbers of the bytes are used as others are;
// scores are multiplied by the keys' scales, and weights by the values', once they are summed.
#include "simd.h"

#ifndef Q_SIMD_MISSING
#include <math.h>
#include <stdlib.h>

#include "attention_task.h"

enum { BLOCK = Q_ATTENTION_BLOCK, BLOCK_VECTORS = BLOCK / Q_WIDTH };

// A vector multiplies LANES dimensions of KEYS keys.
enum { LANES = Q_WIDTH < 8 ? Q_WIDTH : 8, KEYS = Q_WIDTH / LANES };

// scratch is the memory of one task; rows are per head.
struct scratch {
	float *query;  // [heads][rows][padded], scaled
	float *sum;    // [heads][rows][padded]
	float *max;    // [heads][rows]
	float *total;  // [heads][rows]
	float *scores; // [rows][BLOCK]
	float *keep;   // [rows]
	float *keys;   // [BLOCK][padded]
	float *values; // [BLOCK][padded]
	float *scales; // [BLOCK]
	int64_t padded;
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int allocate(struct scratch *s, const struct q_attention *a, int64_t heads, int64_t rows) {
	int64_t padded = up(a->dim, 16), all = heads * rows;
	int64_t sizes[] = {all * padded, all * padded, all, all, rows * BLOCK, rows, BLOCK * padded, BLOCK * padded, BLOCK};
	float **parts[] = {&s->query, &s->sum, &s->max, &s->total, &s->scores, &s->keep, &s->keys, &s->values, &s->scales};
	enum { PARTS = sizeof sizes / sizeof *sizes };
	int64_t size = 0;
	for (int i = 0; i < PARTS; i++) size += up(sizes[i], 16);
	float *memory = aligned_alloc(64, size * sizeof(float));
	if (!memory) return 0;
	for (int i = 0; i < PARTS; i++) {
		*parts[i] = memory;
		memory += up(sizes[i], 16);
	}
	s->padded = padded;
	return 1;
}

// The numbers of 8-bit floats are read at 2^-8 of what they are, as float16 of the same bits: scales_of makes up for it.
enum { E4M3_UNIT = 256 };

static inline float from_e4m3(uint8_t x) { return q_from_f16((uint16_t)((x & 0x80) << 8 | (x & 0x7f) << 7)); }

static float element(const void *p, int dtype, int64_t i) {
	switch (dtype) {
	case Q_S8: return ((const int8_t *)p)[i];
	case Q_U8: return from_e4m3(((const uint8_t *)p)[i]);
	case Q_BF16: return q_from_bf16(((const uint16_t *)p)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)p)[i]);
	default: return ((const float *)p)[i];
	}
}

#if Q_SIMD == Q_AVX512
// numbers16 converts the bytes of a vector of numbers.
Q_INLINE vf numbers16(__m128i bytes, const int dtype) {
	if (dtype == Q_S8) return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
	__m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
	return (vf)_mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16((short)0xbfff)));
}
#endif

// read_numbers reads Q_WIDTH numbers, from number i on.
Q_INLINE vf read_numbers(const void *p, const int dtype, int64_t i) {
	if (dtype != Q_S8 && dtype != Q_U8) return vread(p, dtype, i);
	const char *from = (const char *)p + i;
#if Q_SIMD == Q_AVX512
	return numbers16(_mm_loadu_si128((const __m128i *)from), dtype);
#elif Q_SIMD == Q_AVX2
	__m128i bytes = _mm_loadl_epi64((const __m128i *)from);
	if (dtype == Q_S8) return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
	return (vf)_mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7), _mm_set1_epi16((short)0xbfff)));
#else
	vf v = {};
	for (int k = 0; k < Q_WIDTH; k++) v[k] = element(from, dtype, k);
	return v;
#endif
}

// unpack converts a row of dim elements to float32, with zeros up to padded.
Q_INLINE void unpack(const char *p, int dtype, int64_t dim, int64_t padded, float *to) {
	int64_t d = 0;
	for (; d + Q_WIDTH <= dim; d += Q_WIDTH) vstore(to + d, read_numbers(p, dtype, d));
	for (; d < dim; d++) to[d] = element(p, dtype, d);
	for (; d < padded; d++) to[d] = 0;
}

// tokens_of is where a block's keys or values of one head are: those of token j at tokens[j] + offset.
struct tokens_of {
	const char *const *tokens;
	int64_t offset;
};

// ahead is what to have in the cache when the next block begins, in the order of addresses: pieces of so many bytes, or none.
struct ahead {
	const char *const *pieces;
	int64_t bytes;
};

Q_INLINE void prefetch(struct ahead a, int64_t piece) {
	enum { LINE = 64 };
	const char *p = a.pieces[piece];
	for (int64_t i = 0; i < a.bytes; i += LINE) __builtin_prefetch(p + i, 0, 2);
}

// pack converts n keys or values to float32, [n][padded], with zeros up to padded.
static void pack(const struct q_attention *a, struct tokens_of from, int64_t n, int64_t padded, float *to) {
	for (int64_t j = 0; j < n; j++) {
		const char *p = from.tokens[j] + from.offset;
		switch (a->cache_type) {
		case Q_BF16: unpack(p, Q_BF16, a->dim, padded, to + j * padded); break;
		case Q_F16: unpack(p, Q_F16, a->dim, padded, to + j * padded); break;
		case Q_S8: unpack(p, Q_S8, a->dim, padded, to + j * padded); break;
		case Q_U8: unpack(p, Q_U8, a->dim, padded, to + j * padded); break;
		default: unpack(p, Q_F32, a->dim, padded, to + j * padded); break;
		}
	}
}

// multiply_by multiplies each row of scores, or of weights, by the scales of n keys or values; the others become 0.
static void multiply_by(const struct q_attention *a, struct tokens_of vectors, int64_t n, int64_t rows, float *scales, float *scores) {
	const float unit = a->cache_type == Q_U8 ? E4M3_UNIT : 1;
	for (int64_t j = 0; j < BLOCK; j++) {
		scales[j] = 0;
		if (j < n) memcpy(scales + j, vectors.tokens[j] + vectors.offset + a->dim, sizeof *scales);
		scales[j] *= unit;
	}
	for (int64_t r = 0; r < rows; r++) {
		for (int c = 0; c < BLOCK; c += Q_WIDTH) vstore(scores + r * BLOCK + c, vload(scores + r * BLOCK + c) * vload(scales + c));
	}
}

// Tiles are at most 6 rows by 8 vectors, 12 together; the bounds of their loops are constants where they are called, so that sums live in
// registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 8 };
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int c = 0; c < columns; c++)

// read_keys reads LANES dimensions, from d on, of the keys of token j and, where KEYS is 2, of token j + other.
Q_INLINE vf read_keys(struct tokens_of keys, int64_t j, int64_t other, const int dtype, int64_t d) {
	const int size = dtype == Q_F32 ? 4 : dtype == Q_S8 || dtype == Q_U8 ? 1 : 2;
	const char *p = keys.tokens[j] + keys.offset + d * size;
#if Q_SIMD == Q_AVX512
	const char *q = keys.tokens[j + other] + keys.offset + d * size;
	if (size == 1) return numbers16(_mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)q)), dtype);
	if (dtype == Q_F32) return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps((const float *)p)), _mm256_loadu_ps((const float *)q), 1);
	__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)), _mm_loadu_si128((const __m128i *)q), 1);
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

typedef uint8_t vb __attribute__((vector_size(Q_WIDTH)));
typedef float v4 __attribute__((vector_size(16)));

// lanes4 adds the LANES products of four queries and keys: of the first of KEYS keys in a vector, or of the second.
Q_INLINE v4 lanes4(vf a, vf b, vf c, vf d, const int second) {
#if Q_SIMD == Q_PLAIN
	(void)second;
	return (v4){(a[0] + a[2]) + (a[1] + a[3]), (b[0] + b[2]) + (b[1] + b[3]), (c[0] + c[2]) + (c[1] + c[3]), (d[0] + d[2]) + (d[1] + d[3])};
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

// score_tile multiplies rows queries with columns*KEYS keys, those of token j and behind.
Q_INLINE void score_tile(const int rows, const int columns, const int dtype, int64_t dim, int64_t padded, const float *query, struct tokens_of keys, int64_t j,
	float *scores) {
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = (vf){};
	for (int64_t d = 0; d < dim; d += LANES) {
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
Q_INLINE void value_tile(const int rows, const int columns, const int dtype, int64_t d, int64_t n, int64_t padded, const float *weights, const float *keep,
	struct tokens_of values, struct ahead ahead, float *sums) {
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
Q_INLINE void score_rows(const int rows, const int dtype, int64_t dim, int64_t n, int64_t padded, const float *query, struct tokens_of keys, struct ahead ahead,
	float *scores) {
	const int columns = rows == 1 ? 8 : rows <= 3 ? 4 : 2;
	for (int64_t j = 0; j < n; j += columns * KEYS) {
		for (int i = 0; i < columns * KEYS / 2; i++) prefetch(ahead, j / 2 + i);
		score_tile(rows, columns, dtype, dim, padded, query, keys, j, scores);
	}
}

Q_INLINE void value_rows(const int rows, const int dtype, int64_t n, int64_t padded, const float *weights, const float *keep, struct tokens_of values,
	struct ahead ahead, float *sums) {
	const int columns = rows <= 3 ? 4 : 2;
	int64_t d = 0;
	for (; d + columns * Q_WIDTH <= padded; d += columns * Q_WIDTH, ahead.bytes = 0) {
		value_tile(rows, columns, dtype, d, n, padded, weights, keep, values, ahead, sums);
	}
	for (; d < padded; d += Q_WIDTH, ahead.bytes = 0) value_tile(rows, 1, dtype, d, n, padded, weights, keep, values, ahead, sums);
}

// by_rows runs call, which uses the row number r and the constant R, for all rows in tiles of 6 and the rest.
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

// Only the first rows have to read ahead.
#define NONE_BEHIND(ahead, r) ((struct ahead){(ahead).pieces, (r) ? 0 : (ahead).bytes})

Q_INLINE void score_all_as(const int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query, struct tokens_of keys, struct ahead ahead,
	float *scores) {
	BY_ROWS(rows, score_rows(R, dtype, dim, n, padded, query + r * padded, keys, NONE_BEHIND(ahead, r), scores + r * BLOCK));
}

static void score_all(int dtype, int64_t rows, int64_t dim, int64_t n, int64_t padded, const float *query, struct tokens_of keys, struct ahead ahead, float *scores) {
	switch (dtype) {
	case Q_BF16: score_all_as(Q_BF16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_F16: score_all_as(Q_F16, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_S8: score_all_as(Q_S8, rows, dim, n, padded, query, keys, ahead, scores); break;
	case Q_U8: score_all_as(Q_U8, rows, dim, n, padded, query, keys, ahead, scores); break;
	default: score_all_as(Q_F32, rows, dim, n, padded, query, keys, ahead, scores); break;
	}
}

Q_INLINE void value_all_as(const int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights, const float *keep, struct tokens_of values,
	struct ahead ahead, float *sums) {
	BY_ROWS(rows, value_rows(R, dtype, n, padded, weights + r * BLOCK, keep + r, values, NONE_BEHIND(ahead, r), sums + r * padded));
}

static void value_all(int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights, const float *keep, struct tokens_of values, struct ahead ahead,
	float *sums) {
	switch (dtype) {
	case Q_BF16: value_all_as(Q_BF16, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_F16: value_all_as(Q_F16, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_S8: value_all_as(Q_S8, rows, n, padded, weights, keep, values, ahead, sums); break;
	case Q_U8: value_all_as(Q_U8, rows, n, padded, weights, keep, values, ahead, sums); break;
	default: value_all_as(Q_F32, rows, n, padded, weights, keep, values, ahead, sums); break;
	}
}

// tree adds the numbers of a block, always in the same order.
Q_INLINE float tree(const float *x) {
	v4 part[BLOCK / 4];
	memcpy(part, x, sizeof part);
	for (int n = BLOCK / 8; n >= 1; n /= 2) {
		for (int i = 0; i < n; i++) part[i] += part[i + n];
	}
	return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

// soften turns the scores of a row into weights and returns by how much its sums shrink. The row sees the keys [low, high) of the block.
Q_INLINE float soften(float *scores, int64_t low, int64_t high, float soft_cap, float *max, float *total) {
	vf s[BLOCK_VECTORS];
	vi iota;
	for (int i = 0; i < Q_WIDTH; i++) iota[i] = i;
	for (int c = 0; c < BLOCK_VECTORS; c++) s[c] = vload(scores + c * Q_WIDTH);
	if (soft_cap > 0) {
		for (int c = 0; c < BLOCK_VECTORS; c++) s[c] = vtanh(s[c] / vset(soft_cap)) * vset(soft_cap);
	}
	if (low > 0 || high < BLOCK) {
		for (int c = 0; c < BLOCK_VECTORS; c++) {
			vi at = iota + viset(c * Q_WIDTH);
			s[c] = vselect((vi)(at >= viset(low)) & (vi)(at < viset(high)), s[c], vset(-INFINITY));
		}
	}
	vf top = s[0];
	for (int c = 1; c < BLOCK_VECTORS; c++) top = vmax(top, s[c]);
	float highest = *max;
	for (int i = 0; i < Q_WIDTH; i++) highest = top[i] > highest ? top[i] : highest;
	for (int c = 0; c < BLOCK_VECTORS; c++) vstore(scores + c * Q_WIDTH, vexp(s[c] - vset(highest)));
	float keep = *max == highest ? 1 : vexp(vset(*max - highest))[0];
	*max = highest;
	*total = *total * keep + tree(scores);
	return keep;
}

// locate finds the places of up to BLOCK tokens of a sequence from position base on, and returns how many there are before last. The places
// behind them are the last one's.
static int64_t locate(const struct q_attention *a, int64_t seq, int64_t base, int64_t last, const char **tokens) {
	int64_t n = last - base < BLOCK ? last - base : BLOCK;
	int64_t column = base / a->page_size, in_page = base % a->page_size;
	for (int64_t j = 0; j < n; j++) {
		int64_t page = a->slots[seq];
		if (a->paged) page = a->pages[seq * a->per_seq + (column < a->per_seq ? column : a->per_seq - 1)];
		if (page < 0 || page >= a->page_count) page = 0;
		tokens[j] = a->cache + (page * a->page_size + in_page) * a->token_bytes;
		if (++in_page == a->page_size) in_page = 0, column++;
	}
	for (int64_t j = n; j > 0 && j < BLOCK; j++) tokens[j] = tokens[n - 1];
	return n < 0 ? 0 : n;
}

// finish writes the results of a head.
static void finish(const struct q_attention *a, const struct q_attention_task *t, int64_t head, int64_t rows, const float *sum, const float *total, int64_t padded) {
	int64_t group = a->heads / a->kv_heads;
	for (int64_t r = 0; r < rows; r++) {
		float *row = (float *)sum + r * padded;
		float by = total[r] > 0 ? total[r] : 1;
		// Adding 0 makes a negative zero positive: it depends on blocks that the row does not see.
		for (int64_t d = 0; d < padded; d += Q_WIDTH) vstore(row + d, vload(row + d) / vset(by) + vset(0));
		char *to = a->out + ((t->token + r / group) * a->heads + head * group + r % group) * a->dim * q_size(a->type);
		int64_t d = 0;
		for (; d + Q_WIDTH <= a->dim; d += Q_WIDTH) vwrite(to, a->type, d, vload(row + d));
		for (; d < a->dim; d++) {
			switch (a->type) {
			case Q_BF16: ((uint16_t *)to)[d] = q_to_bf16(row[d]); break;
			case Q_F16: ((uint16_t *)to)[d] = q_to_f16(row[d]); break;
			default: ((float *)to)[d] = row[d]; break;
			}
		}
	}
}

void Q_NAME(q_attend)(void *args, int64_t index) {
	struct q_attention *a = args;
	const struct q_attention_task *t = a->tasks + index;
	const int32_t *positions = a->positions + t->token;
	int64_t group = a->heads / a->kv_heads, rows = t->count * group, dim = a->dim, seq = a->token_seqs[t->token];
	struct scratch s;
	if (!allocate(&s, a, t->heads, rows)) {
		atomic_store(&a->failed, 1);
		return;
	}
	const int64_t padded = s.padded;
	for (int64_t h = 0; h < t->heads; h++) {
		for (int64_t r = 0; r < rows; r++) {
			const char *from = a->q + ((t->token + r / group) * a->heads + (t->head + h) * group + r % group) * dim * q_size(a->type);
			float *to = s.query + (h * rows + r) * padded;
			unpack(from, a->type, dim, padded, to);
			for (int64_t d = 0; d < padded; d++) to[d] *= a->scale;
			s.max[h * rows + r] = a->sinks ? a->sinks[(t->head + h) * group + r % group] : -INFINITY;
			s.total[h * rows + r] = a->sinks ? 1 : 0; // the sink's own weight
		}
	}
	memset(s.sum, 0, t->heads * rows * s.padded * sizeof(float));
	int64_t first = INT64_MAX, last = 0;
	for (int64_t i = 0; i < t->count; i++) {
		int64_t end = (int64_t)positions[i] + 1, start = a->window > 0 && end > a->window ? end - a->window : 0;
		if (end > last) last = end;
		if (start < first) first = start;
	}
	const char *places[2][BLOCK], *packed_keys[BLOCK], *packed_values[BLOCK], *pieces[BLOCK];
	for (int64_t j = 0; j < BLOCK; j++) {
		packed_keys[j] = (const char *)(s.keys + j * padded);
		packed_values[j] = (const char *)(s.values + j * padded);
	}
	int64_t base = first / BLOCK * BLOCK, n = locate(a, seq, base, last, places[0]);
	for (int turn = 0; base < last; base += BLOCK, turn ^= 1) {
		const char **tokens = places[turn], **next = places[turn ^ 1];
		int64_t next_n = base + BLOCK < last ? locate(a, seq, base + BLOCK, last, next) : 0;
		if (!next_n) memcpy(next, tokens, sizeof places[0]);
		// The tokens of the task that see some of the block.
		int64_t from = t->count, to = 0;
		for (int64_t i = 0; i < t->count; i++) {
			int64_t end = (int64_t)positions[i] + 1;
			if (end <= base || (a->window > 0 && end - a->window >= base + n)) continue;
			if (i < from) from = i;
			to = i + 1;
		}
		for (int64_t h = 0; h < t->heads && from < to; h++) {
			int64_t bytes = a->vector_bytes, offset = (t->head + h) * 2 * bytes;
			int64_t row = h * rows + from * group, count = (to - from) * group;
			struct tokens_of keys = {tokens, offset}, values = {tokens, offset + bytes};
			const struct tokens_of cached[] = {keys, values};
			const int quantized = q_attention_quantized(a->cache_type);
			for (int64_t i = 0, token = h * BLOCK / t->heads, head = h * BLOCK % t->heads; i < BLOCK; i++) {
				pieces[i] = next[token] + (t->head + head) * 2 * bytes;
				if (++head == t->heads) head = 0, token++;
			}
			struct ahead half = {pieces, next_n ? 2 * bytes : 0}, rest = {pieces + BLOCK / 2, half.bytes};
			int dtype = a->cache_type;
			// Keys and values are used as they lie, but for those that would be converted over and over.
			if (dim % 16 || (count > TILE_ROWS && dtype != Q_F32)) {
				pack(a, keys, n, padded, s.keys);
				pack(a, values, n, padded, s.values);
				keys = (struct tokens_of){packed_keys, 0};
				values = (struct tokens_of){packed_values, 0};
				dtype = Q_F32;
			}
			score_all(dtype, count, up(dim, LANES), n, padded, s.query + row * padded, keys, half, s.scores);
			if (quantized) multiply_by(a, cached[0], n, count, s.scales, s.scores);
			for (int64_t r = 0; r < count; r++) {
				int64_t end = (int64_t)positions[from + r / group] + 1 - base, start = a->window > 0 ? end - a->window : 0;
				float *scores = s.scores + r * BLOCK;
				if (start < 0) start = 0;
				if (end > n) end = n;
				s.keep[r] = 1;
				if (start < end) s.keep[r] = soften(scores, start, end, a->soft_cap, s.max + row + r, s.total + row + r);
				else memset(scores, 0, BLOCK * sizeof(float));
			}
			if (quantized) multiply_by(a, cached[1], n, count, s.scales, s.scores);
			value_all(dtype, count, n, padded, s.scores, s.keep, values, rest, s.sum + row * padded);
		}
		n = next_n;
	}
	for (int64_t h = 0; h < t->heads; h++) finish(a, t, t->head + h, rows, s.sum + h * rows * padded, s.total + h * rows, padded);
	free(s.query);
}

// bytes_of rounds numbers of at most 127, or 448 of 8-bit floats, to bytes.
Q_INLINE vu bytes_of(vf x, const int dtype) {
	const vf magic = vset(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
	if (dtype == Q_S8) return (vu)((vi)(x + magic) - (vi)magic);
	vi negative = (vi)(x < vset(0));
	vf size = (vf)((vu)x & 0x7fffffff);
	vu bits = (vu)size, normal = ((bits + 0x7ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3);
	vu most = (vu){} + 0x7e;
	vu subnormal = (vu)((vi)(size * vset(512) + magic) - (vi)magic);
	vf code = vselect((vi)(size < vset(0x1p-6f)), (vf)subnormal, vselect((vi)(normal > most), (vf)most, (vf)normal));
	return (vu)code | ((vu)(negative & (vi)((vi)code > 0)) & 0x80); // 0 has no sign
}

Q_INLINE void quantize_as(const struct q_quantize *v, const int type, const int dtype) {
	vf top = {}, wrong = {};
	float last[Q_WIDTH];
	int64_t dim = v->dim;
	for (int64_t d = 0; d < dim; d += Q_WIDTH) {
		vf x;
		if (d + Q_WIDTH <= dim) {
			x = vread(v->from, type, d);
		} else {
			for (int i = 0; i < Q_WIDTH; i++) last[i] = d + i < dim ? element(v->from, type, d + i) : 0;
			x = vload(last);
		}
		top = vmax((vf)((vu)x & 0x7fffffff), top);
		wrong = (vf)((vu)wrong | (vu)(vi)(x != x));
	}
	float scale = 0;
	int nan = 0;
	for (int i = 0; i < Q_WIDTH; i++) {
		scale = top[i] > scale ? top[i] : scale;
		nan |= ((vi)wrong)[i] != 0;
	}
	scale = scale < Q_ATTENTION_TINY ? 0 : scale * (1 / (dtype == Q_S8 ? 127.0f : 448.0f));
	if (nan) scale = NAN;
	memcpy(v->to + dim, &scale, sizeof scale);
	if (!(scale > 0 && scale < INFINITY)) {
		memset(v->to, 0, dim);
		return;
	}
	const vf inverse = vset(1 / scale);
	for (int64_t d = 0; d < dim; d += Q_WIDTH) {
		vf x;
		int64_t n = d + Q_WIDTH <= dim ? Q_WIDTH : dim - d;
		if (n == Q_WIDTH) x = vread(v->from, type, d);
		else x = vload(last);
		vb bytes = __builtin_convertvector(bytes_of(x * inverse, dtype), vb);
		memcpy(v->to + d, &bytes, n);
	}
}

void Q_NAME(q_quantize)(const struct q_quantize *v) {
	const int dtype = v->cache_type;
	switch (v->type) {
	case Q_BF16: dtype == Q_S8 ? quantize_as(v, Q_BF16, Q_S8) : quantize_as(v, Q_BF16, Q_U8); break;
	case Q_F16: dtype == Q_S8 ? quantize_as(v, Q_F16, Q_S8) : quantize_as(v, Q_F16, Q_U8); break;
	default: dtype == Q_S8 ? quantize_as(v, Q_F32, Q_S8) : quantize_as(v, Q_F32, Q_U8); break;
	}
}
#else
#include "attention_task.h"

void Q_NAME(q_attend)(void *args, int64_t i) { q_attend_plain(args, i); }
void Q_NAME(q_quantize)(const struct q_quantize *v) { q_quantize_plain(v); }
#endif
