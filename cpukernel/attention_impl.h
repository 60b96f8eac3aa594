// Ragged paged attention for one instruction set: see attention.h for what it computes. Included by attention_plain.c and the like.
//
// A task is some consecutive tokens of one sequence with one or more KV heads. It goes through the sequence's context in blocks of
// BLOCK tokens at absolute positions. Of a block it packs a head's keys transposed and its values, both as float32, multiplies them with the
// queries of the head as two small matrix products, and keeps for each row, a query of one head, the running maximum, sum and weighted
// sum of values.
//
// What a row gets depends on its query, its position and its sequence's keys and values alone: scores add over the dimensions in order,
// weighted sums over the positions in order, sums of weights by a fixed tree. Blocks that a row does not see leave its sums as they are.
#include "simd.h"

#ifndef Q_SIMD_MISSING
#include <math.h>
#include <stdlib.h>

#include "attention_task.h"

enum { BLOCK = Q_ATTENTION_BLOCK, BLOCK_VECTORS = BLOCK / Q_WIDTH };

// scratch is the memory of one task; rows are per head.
struct scratch {
	float *query;  // [heads][rows][dim], scaled
	float *sum;    // [heads][rows][padded]
	float *max;    // [heads][rows]
	float *total;  // [heads][rows]
	float *scores; // [rows][BLOCK]
	float *keep;   // [rows]
	float *keys;   // [dim][BLOCK]
	float *values; // [BLOCK][padded]
	float *row;    // [8][padded]
	int64_t padded;
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int allocate(struct scratch *s, const struct q_attention *a, int64_t heads, int64_t rows) {
	int64_t padded = up(a->dim, 16), all = heads * rows;
	int64_t sizes[] = {all * a->dim, all * padded, all, all, rows * BLOCK, rows, a->dim * BLOCK, BLOCK * padded, 8 * padded};
	float **parts[] = {&s->query, &s->sum, &s->max, &s->total, &s->scores, &s->keep, &s->keys, &s->values, &s->row};
	int64_t size = 0;
	for (int i = 0; i < 9; i++) size += up(sizes[i], 16);
	float *memory = aligned_alloc(64, size * sizeof(float));
	if (!memory) return 0;
	for (int i = 0; i < 9; i++) {
		*parts[i] = memory;
		memory += up(sizes[i], 16);
	}
	s->padded = padded;
	return 1;
}

#if Q_SIMD >= Q_AVX2
// transpose8 transposes the 8 x 8 matrix of rows r.
Q_INLINE void transpose8(__m256 r[8]) {
	__m256 t[8], u[8];
	for (int i = 0; i < 4; i++) {
		t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
		t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
	}
	for (int i = 0; i < 2; i++) {
		u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
		u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
		u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
		u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++) {
		r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
		r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
	}
}

// put_keys stores 8 dimensions of 8 keys.
Q_INLINE void put_keys(__m256 r[8], float *to) {
	transpose8(r);
	for (int i = 0; i < 8; i++) _mm256_storeu_ps(to + i * BLOCK, r[i]);
}

// put_keys_bf16 stores 16 dimensions of 8 keys in bf16: pairs of them are transposed, then parted.
Q_INLINE void put_keys_bf16(__m256 r[8], float *to) {
	transpose8(r);
	const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000));
	for (int i = 0; i < 8; i++) {
		_mm256_storeu_ps(to + 2 * i * BLOCK, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(r[i]), 16)));
		_mm256_storeu_ps(to + (2 * i + 1) * BLOCK, _mm256_and_ps(r[i], high));
	}
}
#endif

static float element(const void *p, int dtype, int64_t i) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(((const uint16_t *)p)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)p)[i]);
	default: return ((const float *)p)[i];
	}
}

// unpack converts a row of dim elements to float32, with zeros up to padded.
Q_INLINE void unpack(const char *p, int dtype, int64_t dim, int64_t padded, float *to) {
	int64_t d = 0;
	for (; d + Q_WIDTH <= dim; d += Q_WIDTH) vstore(to + d, vread(p, dtype, d));
	for (; d < dim; d++) to[d] = element(p, dtype, d);
	for (; d < padded; d++) to[d] = 0;
}

// ahead walks over the keys and values of one head in the next block, to have them in the cache in time: a few lines at a time, since
// the processor waits when it is asked for more than it can keep in mind.
struct ahead {
	const char **tokens;
	int64_t n, bytes, offset, at; // tokens left, bytes of each and where they begin, how far the first token is
};

enum { LINE = 64, BURST = 8 };

Q_INLINE void prefetch(struct ahead *a, int64_t lines) {
	for (; lines > 0 && a->n > 0; lines--) {
		__builtin_prefetch(*a->tokens + a->offset + a->at, 0, 2);
		if ((a->at += LINE) < a->bytes) continue;
		a->at = 0;
		a->tokens++;
		a->n--;
	}
}

// pack reads a block's keys, and its values where asked to, of one head: tokens[j] for j < n are the places of its tokens, offset is that of
// the head's keys.
Q_INLINE void pack_as(const struct q_attention *a, int dtype, const struct scratch *s, const char **tokens, int64_t n, int64_t offset, int values, struct ahead *ahead) {
	int64_t dim = a->dim, row = dim * (dtype == Q_F32 ? 4 : 2), step = dtype == Q_BF16 ? 16 : 8;
	int64_t lines = (8 * 2 * row / LINE) * 5 / 8 / (dim / step + (values ? 8 : 0)) + 1; // more than half of all; the rest comes later
	for (int64_t j = 0; j < BLOCK; j += 8) {
		int64_t d = 0;
#if Q_SIMD >= Q_AVX2
		if (j + 8 <= n && dtype == Q_F32) {
			for (; d + 8 <= dim; d += 8) {
				__m256 r[8];
				for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps((const float *)(tokens[j + i] + offset) + d);
				put_keys(r, s->keys + d * BLOCK + j);
				prefetch(ahead, lines);
			}
		}
		if (j + 8 <= n && dtype == Q_BF16) {
			for (; d + 16 <= dim; d += 16) {
				__m256 r[8];
				for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps((const float *)((const uint16_t *)(tokens[j + i] + offset) + d));
				put_keys_bf16(r, s->keys + d * BLOCK + j);
				prefetch(ahead, lines);
			}
		}
#endif
		if (d < dim) {
			for (int64_t i = 0; i < 8; i++) {
				if (j + i < n) unpack(tokens[j + i] + offset, dtype, dim, s->padded, s->row + i * s->padded);
				else memset(s->row + i * s->padded, 0, s->padded * sizeof(float));
			}
#if Q_SIMD >= Q_AVX2
			for (; d + 8 <= dim; d += 8) {
				__m256 r[8];
				for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(s->row + i * s->padded + d);
				put_keys(r, s->keys + d * BLOCK + j);
			}
#endif
			for (; d < dim; d++) {
				for (int64_t i = 0; i < 8; i++) s->keys[d * BLOCK + j + i] = s->row[i * s->padded + d];
			}
		}
		if (!values) continue;
		for (int64_t i = j; i < j + 8 && i < n; i++) {
			unpack(tokens[i] + offset + row, dtype, dim, s->padded, s->values + i * s->padded);
			prefetch(ahead, lines);
		}
	}
}

static void pack(const struct q_attention *a, const struct scratch *s, const char **tokens, int64_t n, int64_t offset, int values, struct ahead *ahead) {
	switch (a->cache_type) {
	case Q_BF16: pack_as(a, Q_BF16, s, tokens, n, offset, values, ahead); break;
	case Q_F16: pack_as(a, Q_F16, s, tokens, n, offset, values, ahead); break;
	default: pack_as(a, Q_F32, s, tokens, n, offset, values, ahead); break;
	}
}

// Tiles are at most 6 rows by 4 vectors; the bounds of their loops are constants where they are called, so that sums live in registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 4 };
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_VECTOR _Pragma("GCC unroll 4") for (int c = 0; c < columns; c++)

// score_tile multiplies rows queries with columns*Q_WIDTH keys.
Q_INLINE void score_tile(const int rows, const int columns, int64_t dim, const float *query, const float *keys, float *scores) {
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = (vf){};
	for (int64_t d = 0; d < dim; d++) {
		vf k[TILE_VECTORS];
		EACH_VECTOR k[c] = vload(keys + d * BLOCK + c * Q_WIDTH);
		EACH_ROW {
			vf x = vset(query[r * dim + d]);
			EACH_VECTOR sum[r][c] = vfma(x, k[c], sum[r][c]);
		}
	}
	EACH_ROW EACH_VECTOR vstore(scores + r * BLOCK + c * Q_WIDTH, sum[r][c]);
}

// values_of is where a block's values of one head are: those of token j at tokens[j] + offset bytes, of element type dtype.
struct values_of {
	const char **tokens;
	int64_t offset;
};

// value_tile scales columns*Q_WIDTH dimensions of rows sums, from dimension d on, and adds n values, weighted.
Q_INLINE void value_tile(const int rows, const int columns, const int dtype, int64_t d, int64_t n, int64_t padded, const float *weights, const float *keep,
	struct values_of values, float *sums) {
	vf sum[TILE_ROWS][TILE_VECTORS];
	EACH_ROW EACH_VECTOR sum[r][c] = vload(sums + r * padded + d + c * Q_WIDTH) * vset(keep[r]);
	for (int64_t j = 0; j < n; j++) {
		const char *value = values.tokens[j] + values.offset;
		vf v[TILE_VECTORS];
		EACH_VECTOR v[c] = vread(value, dtype, d + c * Q_WIDTH);
		EACH_ROW {
			vf x = vset(weights[r * BLOCK + j]);
			EACH_VECTOR sum[r][c] = vfma(x, v[c], sum[r][c]);
		}
	}
	EACH_ROW EACH_VECTOR vstore(sums + r * padded + d + c * Q_WIDTH, sum[r][c]);
}

Q_INLINE void score_rows(const int rows, int64_t dim, const float *query, const float *keys, float *scores, struct ahead *ahead) {
	enum { WIDE = BLOCK_VECTORS < 4 ? BLOCK_VECTORS : 4 };
	const int columns = rows <= 3 ? WIDE : 2;
	for (int c = 0; c < BLOCK_VECTORS; c += columns) {
		prefetch(ahead, 2 * BURST);
		score_tile(rows, columns, dim, query, keys + c * Q_WIDTH, scores + c * Q_WIDTH);
	}
}

Q_INLINE void value_rows(const int rows, const int dtype, int64_t n, int64_t padded, const float *weights, const float *keep, struct values_of values, float *sums,
	struct ahead *ahead) {
	const int columns = rows <= 3 ? 4 : 2;
	int64_t d = 0;
	for (; d + columns * Q_WIDTH <= padded; d += columns * Q_WIDTH) {
		prefetch(ahead, 2 * BURST);
		value_tile(rows, columns, dtype, d, n, padded, weights, keep, values, sums);
	}
	for (; d < padded; d += Q_WIDTH) value_tile(rows, 1, dtype, d, n, padded, weights, keep, values, sums);
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

static void score_all(int64_t rows, int64_t dim, const float *query, const float *keys, float *scores, struct ahead *ahead) {
	BY_ROWS(rows, score_rows(R, dim, query + r * dim, keys, scores + r * BLOCK, ahead));
}

Q_INLINE void value_all_as(const int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights, const float *keep, struct values_of values, float *sums,
	struct ahead *ahead) {
	BY_ROWS(rows, value_rows(R, dtype, n, padded, weights + r * BLOCK, keep + r, values, sums + r * padded, ahead));
}

static void value_all(int dtype, int64_t rows, int64_t n, int64_t padded, const float *weights, const float *keep, struct values_of values, float *sums, struct ahead *ahead) {
	switch (dtype) {
	case Q_BF16: value_all_as(Q_BF16, rows, n, padded, weights, keep, values, sums, ahead); break;
	case Q_F16: value_all_as(Q_F16, rows, n, padded, weights, keep, values, sums, ahead); break;
	default: value_all_as(Q_F32, rows, n, padded, weights, keep, values, sums, ahead); break;
	}
}

typedef float v4 __attribute__((vector_size(16)));

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

// locate finds the places of up to BLOCK tokens of a sequence from position base on, and returns how many there are before last.
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
	for (int64_t h = 0; h < t->heads; h++) {
		for (int64_t r = 0; r < rows; r++) {
			const char *from = a->q + ((t->token + r / group) * a->heads + (t->head + h) * group + r % group) * dim * q_size(a->type);
			float *to = s.query + (h * rows + r) * dim;
			unpack(from, a->type, dim, dim, to);
			for (int64_t d = 0; d < dim; d++) to[d] *= a->scale;
			s.max[h * rows + r] = -INFINITY;
			s.total[h * rows + r] = 0;
		}
	}
	memset(s.sum, 0, t->heads * rows * s.padded * sizeof(float));
	int64_t first = INT64_MAX, last = 0;
	for (int64_t i = 0; i < t->count; i++) {
		int64_t end = (int64_t)positions[i] + 1, start = a->window > 0 && end > a->window ? end - a->window : 0;
		if (end > last) last = end;
		if (start < first) first = start;
	}
	const char *places[2][BLOCK], *unpacked[BLOCK];
	for (int64_t j = 0; j < BLOCK; j++) unpacked[j] = (const char *)(s.values + j * s.padded);
	int64_t base = first / BLOCK * BLOCK, n = locate(a, seq, base, last, places[0]);
	for (int turn = 0; base < last; base += BLOCK, turn ^= 1) {
		const char **tokens = places[turn], **next = places[turn ^ 1];
		int64_t next_n = base + BLOCK < last ? locate(a, seq, base + BLOCK, last, next) : 0;
		// The tokens of the task that see some of the block.
		int64_t from = t->count, to = 0;
		for (int64_t i = 0; i < t->count; i++) {
			int64_t end = (int64_t)positions[i] + 1;
			if (end <= base || (a->window > 0 && end - a->window >= base + n)) continue;
			if (i < from) from = i;
			to = i + 1;
		}
		for (int64_t h = 0; h < t->heads && from < to; h++) {
			int64_t bytes = 2 * dim * q_size(a->cache_type), offset = (t->head + h) * bytes;
			int64_t part = next_n * h / t->heads;
			struct ahead ahead = {next + part, next_n * (h + 1) / t->heads - part, t->heads * bytes, t->head * bytes, 0};
			int64_t row = h * rows + from * group, count = (to - from) * group;
			// Values are used as they lie, but for those that would be converted over and over.
			int packed = dim % 16 || (count > TILE_ROWS && a->cache_type != Q_F32);
			struct values_of values = {tokens, offset + bytes / 2};
			if (packed) values = (struct values_of){unpacked, 0};
			pack(a, &s, tokens, n, offset, packed, &ahead);
			score_all(count, dim, s.query + row * dim, s.keys, s.scores, &ahead);
			for (int64_t r = 0; r < count; r++) {
				int64_t end = (int64_t)positions[from + r / group] + 1 - base, start = a->window > 0 ? end - a->window : 0;
				float *scores = s.scores + r * BLOCK;
				prefetch(&ahead, BURST);
				if (start < 0) start = 0;
				if (end > n) end = n;
				s.keep[r] = 1;
				if (start < end) s.keep[r] = soften(scores, start, end, a->soft_cap, s.max + row + r, s.total + row + r);
				else memset(scores, 0, BLOCK * sizeof(float));
			}
			value_all(packed ? Q_F32 : a->cache_type, count, n, s.padded, s.scores, s.keep, values, s.sum + row * s.padded, &ahead);
			prefetch(&ahead, INT64_MAX);
		}
		n = next_n;
	}
	for (int64_t h = 0; h < t->heads; h++) finish(a, t, t->head + h, rows, s.sum + h * rows * s.padded, s.total + h * rows, s.padded);
	free(s.query);
}
#else
#include "attention_task.h"

void Q_NAME(q_attend)(void *args, int64_t i) { q_attend_plain(args, i); }
#endif
