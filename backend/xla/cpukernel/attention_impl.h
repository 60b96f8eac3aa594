// Ragged paged attention for one instruction set: see attention.h for what it computes. Included by attention_plain.c
// and the like.
//
// A task is some consecutive tokens of one sequence with one or more KV heads. It goes through the sequence's context
// in blocks of BLOCK tokens at absolute positions. In a block it multiplies a head's keys with the head's queries,
// turns the scores into weights and adds the weighted values. For each row, which is a query of one head, it keeps
// the power of two that the weights are relative to, the sums of weights and the weighted sum of values. A single
// token's rows read keys and values in place; many rows share one conversion of them.
//
// A row's result depends only on its query, its position and its sequence's keys and values: a score is LANES sums
// over every LANES-th dimension in order, or pair of dimensions of bf16 keys, added by a fixed tree, and then scaled;
// weighted sums add over the positions in order, or over pairs of positions (see rounded); sums of weights add over
// every TOTALS-th position and then by a fixed tree. Blocks that a row does not see leave its sums unchanged.
// Quantized keys and values are used as the numbers of their bytes; scores are multiplied by the keys' scales, and
// weights by the values' scales, after they are summed.
#include "simd.h"

#ifndef Q_SIMD_MISSING
#include <math.h>
#include <stdlib.h>

#include "attention_by_tiles.h"
#include "attention_task.h"
#include "attention_tiles.h"

// TOTALS is how many sums of weights a row has, one for every TOTALS-th position.
enum { TOTALS = BLOCK / 2, TOTAL_VECTORS = TOTALS / Q_WIDTH };

// scratch is the memory of one task. rows are per head; "all rows" are the rows of rows_by_tiles.
struct scratch {
	// [heads][rows][padded], in the order of pack_pairs or of the dimensions; or packed for score_tiles
	float *query;
	float *sum;    // [heads][all rows][padded]
	float *power;  // [heads][rows]
	float *total;  // [heads][rows][TOTALS]
	float *scores; // [all rows][BLOCK]
	float *keep;   // [all rows]
	float *keys;   // [BLOCK][padded]
	float *values; // [BLOCK][padded]
	float *scales; // [BLOCK]
	int64_t padded;
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int allocate(struct scratch *s, const struct q_attention *a, int64_t heads, int64_t rows) {
	int64_t padded = up(a->dim, 16), all = heads * rows, of_tiles = rows_by_tiles(a, rows);
	int64_t queries = by_tiles(a) ? heads * tile_floats(a, rows) : all * padded;
	int64_t sizes[] = {queries, heads * of_tiles * padded, all, all * TOTALS, of_tiles * BLOCK, of_tiles,
		BLOCK * padded, BLOCK * padded, BLOCK};
	float **parts[] = {
		&s->query, &s->sum, &s->power, &s->total, &s->scores, &s->keep, &s->keys, &s->values, &s->scales};
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

// pack converts n keys or values to float32, [n][padded], with zeros up to padded; pairs selects the order of pairs.
static void pack(const struct q_attention *a, struct tokens_of from, int64_t n, int64_t padded, int pairs, float *to) {
	for (int64_t j = 0; j < n; j++) {
		const char *p = from.tokens[j] + from.offset;
		switch (pairs ? PAIRS : a->cache_type) {
		case PAIRS: unpack_pairs(p, a->dim, padded, to + j * padded); break;
		case Q_BF16: unpack(p, Q_BF16, a->dim, padded, to + j * padded); break;
		case Q_F16: unpack(p, Q_F16, a->dim, padded, to + j * padded); break;
		case Q_S8: unpack(p, Q_S8, a->dim, padded, to + j * padded); break;
		case Q_U8: unpack(p, Q_U8, a->dim, padded, to + j * padded); break;
		default: unpack(p, Q_F32, a->dim, padded, to + j * padded); break;
		}
	}
}

// pack_values is pack for values; for dot products it interleaves each two tokens at the first one's place. If n is
// odd, there is a token after the last.
static void pack_values(
	const struct q_attention *a, struct tokens_of from, int64_t n, int64_t padded, int turned, float *to) {
#ifdef Q_DOTS
	for (int64_t j = 0; turned && j < n; j += 2)
		turn_values(from.tokens[j] + from.offset, from.tokens[j + 1] + from.offset, padded, to + j * padded);
	if (turned) return;
#endif
	pack(a, from, rounded(a) ? (n + 1) / 2 * 2 : n, padded, 0, to);
}

// multiply_by multiplies each row of scores, or of weights, by the scales of n keys or values; the others become 0.
static void multiply_by(
	const struct q_attention *a, struct tokens_of vectors, int64_t n, int64_t rows, float *scales, float *scores) {
	const int64_t behind = vectors.offset + a->dim; // a vector's scale
	for (int64_t j = 0; j < n; j++) memcpy(scales + j, vectors.tokens[j] + behind, sizeof *scales);
	for (int64_t j = n; j < BLOCK; j++) scales[j] = 0;
	const vf unit = vset(a->cache_type == Q_U8 ? E4M3_UNIT : 1);
	for (int c = 0; c < BLOCK; c += Q_WIDTH) {
		const vf by = vload(scales + c) * unit;
		for (int64_t r = 0; r < rows; r++) vstore(scores + r * BLOCK + c, vload(scores + r * BLOCK + c) * by);
	}
}

enum weights_as { WEIGHTS, WEIGHTS_BF16, WEIGHTS_PACKED };

// pack_weights writes a row's weights as bf16.
Q_INLINE void pack_weights(const vf *s, float *to) {
#if defined(Q_DOTS) && Q_SIMD == Q_AVX512
	_mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh((__m512)s[1], (__m512)s[0]));
#else
	for (int c = 0; c < BLOCK_VECTORS; c++) vto_bf16((uint16_t *)to + c * Q_WIDTH, s[c]);
#endif
}

// A weight is 2 to the power of a score, in units of log(2), minus the row's power: an integer near the largest score
// when it was chosen. It stays until a score is HEADROOM above it. Sums are then multiplied by a power of two, which
// rounds nothing.
enum { HEADROOM = 16 };
#define LOG2_E 1.44269504088896341f

Q_INLINE float whole(float x) { return x + Q_ROUND - Q_ROUND; }

// soften turns the products of a row and the keys into weights, adds them to the row's totals, and returns the factor
// by which the row's sums shrink. The row sees the keys [low, high) of the block. Weights are rounded to bf16 if to
// is WEIGHTS_BF16, and stored as bf16 if it is WEIGHTS_PACKED.
Q_INLINE float soften(float *scores, int64_t low, int64_t high, float scale, float soft_cap, const float *bias,
	enum weights_as to, float *power, float *total) {
	vf s[BLOCK_VECTORS];
	vi iota;
	for (int i = 0; i < Q_WIDTH; i++) iota[i] = i;
	const float unit = soft_cap > 0 ? scale : scale * LOG2_E;
	for (int c = 0; c < BLOCK_VECTORS; c++) s[c] = vload(scores + c * Q_WIDTH) * vset(unit);
	if (soft_cap > 0) {
		for (int c = 0; c < BLOCK_VECTORS; c++) s[c] = vtanh(s[c] / vset(soft_cap)) * vset(soft_cap * LOG2_E);
	}
	if (bias) {
		for (int c = 0; c < BLOCK_VECTORS; c++) s[c] += vload(bias + c * Q_WIDTH) * vset(LOG2_E);
	}
	if (low > 0 || high < BLOCK) {
		for (int c = 0; c < BLOCK_VECTORS; c++) {
			vi at = iota + viset(c * Q_WIDTH);
			s[c] = vselect((vi)(at >= viset(low)) & (vi)(at < viset(high)), s[c], vset(-INFINITY));
		}
	}
	vf top = s[0];
	for (int c = 1; c < BLOCK_VECTORS; c++) top = vmax(top, s[c]);
	float keep = 1;
	if (vabove(top, *power + HEADROOM)) {
		const float highest = whole(vhighest(top));
		keep = vexp2(vset(*power - highest))[0];
		*power = highest;
	}
	for (int c = 0; c < BLOCK_VECTORS; c++) {
		s[c] = vexp2(s[c] - vset(*power));
		if (to != WEIGHTS_PACKED) vstore(scores + c * Q_WIDTH, to == WEIGHTS_BF16 ? vround_bf16(s[c]) : s[c]);
	}
	if (to == WEIGHTS_PACKED) pack_weights(s, scores);
	for (int c = 0; c < TOTAL_VECTORS; c++) {
		float *of = total + c * Q_WIDTH;
		vstore(of, vfma(vload(of), vset(keep), s[c] + s[c + TOTAL_VECTORS]));
	}
	return keep;
}

// seen has the block of n tokens at position base, the tokens of a task that see some of it, and the rows that have
// weights.
struct seen {
	int64_t base, n, from, to, first, end;
};

// soften_rows softens the scores of a head's rows. Rows that see nothing of the block get weights of 0.
static void soften_rows(const struct q_attention *a, const struct q_attention_task *t, int64_t head, struct seen b,
	enum weights_as to, struct scratch *s, float *power, float *total) {
	const int64_t group = a->heads / a->kv_heads;
	for (int64_t r = b.first; r < b.end; r++) {
		int64_t low = 0, high = 0; // the keys that the row sees
		if (r >= b.from * group && r < b.to * group) {
			low = q_attention_start(a, t->token + r / group) - b.base;
			high = q_attention_end(a, t->token + r / group) - b.base;
			if (low < 0) low = 0;
			if (high > b.n) high = b.n;
		}
		float *scores = s->scores + r * BLOCK;
		s->keep[r] = 1;
		const float *bias = NULL; // of the block's first key
		if (a->bias)
			bias = a->bias + (head * group + r % group) * a->bias_width + a->bias_zero + b.base -
				   a->positions[t->token + r / group];
		if (low < high)
			s->keep[r] = soften(scores, low, high, a->scale, a->soft_cap, bias, to, power + r, total + r * TOTALS);
		else memset(scores, 0, BLOCK * sizeof(float));
	}
}

// total_of returns the sum of a row's totals.
Q_INLINE float total_of(const float *total) {
	vf t[TOTAL_VECTORS];
	for (int c = 0; c < TOTAL_VECTORS; c++) t[c] = vload(total + c * Q_WIDTH);
	for (int n = TOTAL_VECTORS / 2; n >= 1; n /= 2) {
		for (int c = 0; c < n; c++) t[c] += t[c + n];
	}
	return vtotal(t[0]);
}

// locate finds the places of up to BLOCK tokens of a sequence, starting at position base, and returns how many there
// are before last. The places after them repeat the last one.
static int64_t locate(const struct q_attention *a, int64_t seq, int64_t base, int64_t last, const char **tokens) {
	int64_t n = last - base < BLOCK ? last - base : BLOCK;
	int64_t column = base / a->page_size, in_page = base % a->page_size;
	for (int64_t j = 0; j < n; in_page = 0, column++) {
		int64_t page = a->slots[seq];
		if (a->paged) page = a->pages[seq * a->per_seq + (column < a->per_seq ? column : a->per_seq - 1)];
		if (page < 0 || page >= a->page_count) page = 0;
		const char *at = a->cache + page * a->lies.page_bytes + in_page * a->lies.token_stride;
		const int64_t end = n - j < a->page_size - in_page ? n : j + a->page_size - in_page;
		for (; j < end; j++, at += a->lies.token_stride) tokens[j] = at;
	}
	for (int64_t j = n; j > 0 && j < BLOCK; j++) tokens[j] = tokens[n - 1];
	return n < 0 ? 0 : n;
}

// span is the range of positions that a task reads: from the block of the first one up to last, exclusive.
struct span {
	int64_t base, last;
};

static struct span span_of(const struct q_attention *a, const struct q_attention_task *t) {
	int64_t first = INT64_MAX, last = 0;
	for (int64_t i = t->token; i < t->token + t->count; i++) {
		const int64_t end = q_attention_end(a, i), start = q_attention_start(a, i);
		if (end > last) last = end;
		if (start < first) first = start;
	}
	return (struct span){first / BLOCK * BLOCK, last};
}

// locate_task finds the places of the first tokens that a task reads, and returns their number.
static int64_t locate_task(const struct q_attention *a, const struct q_attention_task *t, const char **tokens) {
	const struct span s = span_of(a, t);
	return locate(a, a->token_seqs[t->token], s.base, s.last, tokens);
}

// finish writes the results of a head.
static void finish(const struct q_attention *a, const struct q_attention_task *t, int64_t head, int64_t rows,
	const float *sum, const float *total, int64_t padded, int value_type) {
	int64_t group = a->heads / a->kv_heads;
	for (int64_t r = 0; r < rows; r++) {
		float *row = (float *)sum + r * padded;
		if (value_type >= PAIRS) unpair(row, padded, value_type == DOTS);
		const float all = total_of(total + r * TOTALS), by = all != 0 ? all : 1;
		// Adding 0 makes a negative zero positive, because its sign would depend on blocks that the row does not see.
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

// begin_heads reads the queries of a task and initializes their sums.
static void begin_heads(
	const struct q_attention *a, const struct q_attention_task *t, int64_t rows, struct scratch *s) {
	const int64_t group = a->heads / a->kv_heads, padded = s->padded;
	for (int64_t h = 0; h < t->heads; h++) {
		for (int64_t r = 0; r < rows; r++) {
			const int64_t head = (t->head + h) * group + r % group, at = h * rows + r;
			const char *from = a->q + ((t->token + r / group) * a->heads + head) * a->dim * q_size(a->type);
			float *to = s->query + at * padded;
			if (by_tiles(a)) pack_query(from, a->dim, r, (char *)s->query + h * tile_floats(a, rows) * 4);
			else if (paired(a)) pack_pairs(from, a->type, a->dim, padded, by_dots(a), to);
			else unpack(from, a->type, a->dim, padded, to);
			memset(s->total + at * TOTALS, 0, TOTALS * sizeof(float));
			s->power[at] = -INFINITY;
			if (!a->sinks) continue;
			const float sink = a->sinks[head] * LOG2_E;
			s->power[at] = whole(sink);
			s->total[at * TOTALS] = vexp2(vset(sink - s->power[at]))[0];
		}
	}
	memset(s->sum, 0, t->heads * rows_by_tiles(a, rows) * padded * sizeof(float));
}

// block has up to BLOCK tokens of a sequence, and the KV heads of a task.
struct block {
	const char **tokens;
	int64_t n, head, heads;
};

// find_ahead finds the keys and values to prefetch: the ones of the given head of a block or, if it has fewer heads,
// of the block after it. It returns the number of pieces.
Q_INLINE int64_t find_ahead(
	const struct q_attention *a, int64_t head, struct block block, struct block behind, const char **pieces) {
	if (head >= block.heads) {
		head -= block.heads;
		if (behind.n > 0 && head < behind.heads) block = behind;
		else block.n = head = 0;
	}
	const int64_t at = (block.head + head) * a->lies.head_bytes;
	for (int64_t i = 0; i < BLOCK; i++) pieces[i] = block.tokens[i] + at;
	return block.n;
}

void Q_NAME(q_attend)(void *args, int64_t index) {
	struct q_attention *a = args;
	const struct q_attention_task *t = a->tasks + index;
	int64_t group = a->heads / a->kv_heads, rows = t->count * group, dim = a->dim, seq = a->token_seqs[t->token];
	struct scratch s;
	if (!allocate(&s, a, t->heads, rows)) {
		atomic_store(&a->failed, 1);
		return;
	}
	const struct span context = span_of(a, t);
	const int64_t last = context.last;
	const char *places[2][BLOCK], *packed_keys[BLOCK], *packed_values[BLOCK], *pieces[BLOCK];
	int64_t base = context.base, n = locate(a, seq, base, last, places[0]);
	// Keys and values are prefetched this many heads ahead. The first ones are prefetched while queries are read,
	// unless the thread's previous task has done so.
	const int64_t value_behind = a->lies.value_bytes; // its key
	const int64_t head_bytes = a->lies.head_bytes, lead = lead_of(a->each * a->vector_bytes, t->heads);
	for (int64_t i = 0; i < n; i++) {
		for (int64_t h = 0; h < lead; h++) {
			pieces[0] = places[0][i] + (t->head + h) * head_bytes;
			prefetch((struct ahead){pieces, a->vector_bytes, value_behind}, 0);
		}
	}
	const int64_t padded = s.padded, scored = up(dim, paired(a) ? 2 * LANES : LANES);
	const int tiles = by_tiles(a);
	const int64_t all_rows = rows_by_tiles(a, rows);
	begin_heads(a, t, rows, &s);
	if (tiles) begin_tiles(rows);
	// Rows whose keys and values are never converted read bf16 values in pairs.
	const int pairs = a->cache_type == Q_BF16 && rows <= TILE_ROWS && dim % (2 * Q_WIDTH) == 0 && dim % 16 == 0;
	const int as_they_lie = values_by_dots(a) ? DOTS : pairs ? PAIRS : a->cache_type;
	const enum weights_as weights_as = as_they_lie == DOTS ? WEIGHTS_PACKED : rounded(a) ? WEIGHTS_BF16 : WEIGHTS;
	for (int64_t j = 0; j < BLOCK; j++) {
		packed_keys[j] = (const char *)(s.keys + j * padded);
		packed_values[j] = (const char *)(s.values + j * padded);
	}
	for (int turn = 0; base < last; base += BLOCK, turn ^= 1) {
		const char **tokens = places[turn], **next = places[turn ^ 1];
		int64_t next_n = base + BLOCK < last ? locate(a, seq, base + BLOCK, last, next) : 0;
		// The block after this one: the next one, or the first of the next task.
		struct block behind = {next, next_n, t->head, t->heads};
		if (!next_n && index + 1 < a->task_count)
			behind = (struct block){next, locate_task(a, t + 1, next), t[1].head, t[1].heads};
		// The tokens of the task that see some of the block.
		int64_t from = t->count, to = 0;
		for (int64_t i = 0; i < t->count; i++) {
			if (q_attention_end(a, t->token + i) <= base || q_attention_start(a, t->token + i) >= base + n) continue;
			if (i < from) from = i;
			to = i + 1;
		}
		for (int64_t h = 0; h < t->heads && from < to; h++) {
			int64_t offset = (t->head + h) * head_bytes;
			int64_t row = h * rows + from * group, count = (to - from) * group;
			// The rows of the head that have weights: the rows that see some of the block, or all rows of these tiles.
			int64_t first = from * group, end = to * group;
			if (tiles) {
				first = first / 16 * 16;
				end = up(end, 16) < all_rows ? up(end, 16) : all_rows;
			}
			float *sum = s.sum + (h * all_rows + first) * padded;
			struct tokens_of keys = {tokens, offset}, values = {tokens, offset + value_behind};
			const struct tokens_of cached[] = {keys, values};
			const int quantized = q_attention_quantized(a->cache_type);
			const struct block here = {tokens, n, t->head, t->heads};
			const int64_t pieces_ahead = find_ahead(a, h + lead, here, behind, pieces);
			const struct ahead half = {pieces, pieces_ahead ? a->vector_bytes : 0, value_behind},
							   rest = {pieces + n / 2, half.bytes, value_behind};
			int key_type = by_dots(a) ? DOTS : paired(a) ? PAIRS : a->cache_type;
			int value_type = as_they_lie;
			float *block = s.scores + from * group * BLOCK;
			if (tiles) {
				const char *queries = (char *)s.query + h * tile_floats(a, rows) * 4 + first * dim * 2;
				score_tiles(a, to * group - first, n, queries, keys, half, s.scores + first * BLOCK);
			}
			// Keys and values are used in place, except those that would be converted over and over.
			if (!tiles && (dim % 16 || (count > TILE_ROWS && a->cache_type != Q_F32))) {
				const int same = a->each == 1 && !paired(a); // one conversion is enough
				if (same || key_type != DOTS) {
					pack(a, keys, n, padded, paired(a), s.keys);
					keys = (struct tokens_of){packed_keys, 0};
					key_type = Q_F32;
				}
				if (!same) pack_values(a, values, n, padded, as_they_lie == DOTS, s.values);
				values = same ? keys : (struct tokens_of){packed_values, 0};
				value_type = as_they_lie == DOTS ? DOTS_TURNED : Q_F32;
			}
			if (!tiles) score_all(key_type, count, scored, n, padded, s.query + row * padded, keys, half, block);
			if (quantized) multiply_by(a, cached[0], n, count, s.scales, block);
			const struct seen seen = {base, n, from, to, first, end};
			soften_rows(a, t, t->head + h, seen, weights_as, &s, s.power + h * rows, s.total + h * rows * TOTALS);
			if (quantized) multiply_by(a, cached[1], n, count, s.scales, block);
			if (tiles) {
				turn_block(a, n, values, rest, s.values);
				value_tiles(a, end - first, s.scores + first * BLOCK, s.keep + first, s.values, sum);
			} else {
				value_all(value_type, rounded(a), count, n, padded, block, s.keep + first, values, rest, sum);
			}
			for (int64_t i = n; i < pieces_ahead; i++) prefetch(half, i);
		}
		n = next_n;
	}
	for (int64_t h = 0; h < t->heads; h++)
		finish(a, t, t->head + h, rows, s.sum + h * all_rows * padded, s.total + h * rows * TOTALS, padded,
			as_they_lie);
	if (tiles) end_tiles();
	free(s.query);
}

// The kernels that write a cache of bytes.
#include "attention_quantize.h"
#else
#include "attention_task.h"

void Q_NAME(q_attend)(void *args, int64_t i) { q_attend_plain(args, i); }
void Q_NAME(q_quantize)(const struct q_quantize *v) { q_quantize_plain(v); }
#endif
