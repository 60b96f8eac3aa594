// The sampled row in chunks: the tokens that masks forbid, and the first pass over it. Included by sampling_row.h,
// which explains the chunks.
#ifndef QUIRE_SAMPLING_SCAN_H
#define QUIRE_SAMPLING_SCAN_H

#include "sampling.h"
#include "v16.h"

#include <float.h>
#include <math.h>

enum {
	MAX_CHUNKS = 512,
	MIN_SIZE = 512,
	MAX_SIZE = Q_LARGEST_VOCABULARY / MAX_CHUNKS,
	MAX_CANDIDATES = 4096,
	PIECE_BITS = 18,
	LEAST = 0x2d800000, // bits of 2^-36: any smaller e has weight 0
	ONE = 0x3f800000,   // bits of 1, the largest e
	COARSE = 18,        // shift of bit patterns that makes a histogram's buckets
	FINE = 9,           // and shift of finer buckets
	BUCKETS = ((ONE - LEAST) >> COARSE) + 1,
};

typedef struct {
	const q_sample_args *args;
	int64_t row;
	int64_t vocabulary, size, chunks;
	float max, temperature;
	v16_heat heat;
	int masked;           // the row has masks, and chunks are seen through them
	const uint32_t *mask; // if it has exactly one
	float floor;          // chunks are read without lower logits
	// Among the tokens with at least some e, the ones are kept that are at most near from the mean surprise, and
	// whose e is at most `most`.
	int late; // if this is set
	float mean, near, most;
	float lanes[MAX_CHUNKS * 16]; // the largest logits
	float largest[MAX_CHUNKS];    // of each chunk
	uint64_t weights[MAX_CHUNKS]; // of each chunk, as weigh kept them
	float buffer[MAX_SIZE];       // a chunk that is shorter, or of a type other than float32

	int candidates;
	int32_t id[MAX_CANDIDATES + 16];
	float logit[MAX_CANDIDATES + 16];
	float e[MAX_CANDIDATES + 16];
	uint64_t weight[MAX_CANDIDATES + 16];
} sampled;

// word returns 32 bits of the row's masks.
static inline uint32_t word(const sampled *s, int64_t w) {
	if (s->mask) return s->mask[w];
	const q_sample_args *a = s->args;
	uint32_t bits = -1;
	for (int64_t lane = 0; lane < a->lanes; lane++) {
		int32_t mask = a->mask_of[s->row * a->lanes + lane];
		if (mask >= 0 && mask < a->num_masks) bits &= a->masks[mask * a->words + w];
	}
	return bits;
}

// forbid sets the logits that the masks forbid to -Inf, among n logits that start with a token, a multiple of 32.
static const float *forbid(sampled *s, const float *p, int64_t from, int64_t n) {
	const v16 none = v16_set(-INFINITY);
	for (int64_t i = 0; i < n; i += 32) {
		uint32_t bits = word(s, (from + i) / 32);
		v16_store(s->buffer + i, v16_only(bits & 0xffff, v16_load(p + i), none));
		if (i + 16 < n) v16_store(s->buffer + i + 16, v16_only(bits >> 16, v16_load(p + i + 16), none));
	}
	return s->buffer;
}

// seen returns what is kept of n logits, a multiple of 16, starting with a token.
static const float *seen(sampled *s, const float *p, int64_t from, int64_t n) {
	if (s->masked) p = forbid(s, p, from, n);
	if (s->floor == -INFINITY) return p;
	const v16 none = v16_set(-INFINITY), floor = v16_set(s->floor);
	for (int64_t i = 0; i < n; i += 16) {
		v16 l = v16_load(p + i);
		v16_store(s->buffer + i, v16_only(v16_ge(l, floor), l, none));
	}
	return s->buffer;
}

// chunk returns the logits of chunk c and their number, rounded up to a multiple of 16 with -Inf.
static const float *chunk(sampled *s, int64_t c, int64_t *n) {
	int64_t from = c * s->size, count = s->vocabulary - from < s->size ? s->vocabulary - from : s->size;
	int64_t start = s->row * s->vocabulary + from, i = 0;
	*n = (count + 15) & ~15;
	if (s->args->dtype == Q_F32) {
		const float *p = (const float *)s->args->logits + start;
		if (count == *n) return seen(s, p, from, *n);
		memcpy(s->buffer, p, count * sizeof *p);
		i = count;
	} else {
		const uint16_t *p = (const uint16_t *)s->args->logits + start;
		int bf16 = s->args->dtype == Q_BF16;
		for (; i + 16 <= count; i += 16) v16_store(s->buffer + i, bf16 ? v16_load_bf16(p + i) : v16_load_f16(p + i));
		if (i < count) {
			uint16_t rest[16] = {0};
			memcpy(rest, p + i, (count - i) * sizeof *p);
			v16_store(s->buffer + i, bf16 ? v16_load_bf16(rest) : v16_load_f16(rest));
			i = count;
		}
	}
	for (; i < *n; i++) s->buffer[i] = -INFINITY;
	return seen(s, s->buffer, from, *n);
}

// all_barred reports whether the masks forbid all tokens of chunk c.
static int all_barred(const sampled *s, int64_t c) {
	int64_t from = c * s->size / 32, to = from + s->size / 32;
	if (to > s->args->words) to = s->args->words;
	for (int64_t w = from; w < to; w++) {
		if (word(s, w)) return 0;
	}
	return 1;
}

// largest_lanes sets lanes and largest of chunk c, n numbers.
static inline void largest_lanes(sampled *s, int64_t c, const float *p, int64_t n) {
	v16 a = v16_set(-INFINITY), b = a;
	int64_t i = 0;
	for (; i + 32 <= n; i += 32) {
		a = v16_max(v16_load(p + i), a);
		b = v16_max(v16_load(p + i + 16), b);
	}
	if (i < n) a = v16_max(v16_load(p + i), a);
	a = v16_max(a, b);
	v16_store(s->lanes + 16 * c, a);
	s->largest[c] = v16_largest(a);
}

// ahead returns the position of the logits of the chunk after the next one; after the row's last one, another row's.
static inline const char *ahead(const sampled *s, int64_t c, int64_t bytes) {
	return (const char *)s->args->logits + (s->row * s->vocabulary + (c + 2) * s->size) * bytes;
}

// whole_row makes s row i of a batch without masks and filters.
static inline void whole_row(sampled *s, const q_sample_args *args, int64_t i) {
	s->args = args;
	s->row = i;
	s->vocabulary = args->vocabulary;
	s->size = MIN_SIZE;
	while (s->size * MAX_CHUNKS < s->vocabulary) s->size *= 2;
	s->chunks = (s->vocabulary + s->size - 1) / s->size;
	s->masked = s->late = 0;
	s->floor = -INFINITY;
}

// scan is the first pass: it sets max, lanes and largest, and returns the sum of exp(l - max), NaN for a row without a
// distribution.
static float scan(sampled *s) {
	float sums[MAX_CHUNKS];
	const int64_t bytes = s->args->dtype == Q_F32 ? 4 : 2; // size of a logit
	s->max = -INFINITY;
	for (int64_t c = 0; c < s->chunks; c++) {
		int64_t n, i = 0;
		const float *p = chunk(s, c, &n);
		largest_lanes(s, c, p, n);
		float top = s->largest[c];
		if (top > s->max) s->max = top;
		// The exponentials are relative to the chunk's largest number, and keep its NaN.
		v16 centre = v16_set(top == -INFINITY ? 0 : top), a = v16_set(0), b = a;
		const char *next = ahead(s, c, bytes);
		for (; i + 32 <= n; i += 32) {
			__builtin_prefetch(next + bytes * i, 0, 3);
			__builtin_prefetch(next + bytes * (i + 16), 0, 3);
			a = v16_add(a, v16_exp(v16_sub(v16_load(p + i), centre)));
			b = v16_add(b, v16_exp(v16_sub(v16_load(p + i + 16), centre)));
		}
		if (i < n) a = v16_add(a, v16_exp(v16_sub(v16_load(p + i), centre)));
		sums[c] = v16_sum(v16_add(a, b));
	}
	if (s->max == -INFINITY) return NAN;
	v16 sum = v16_set(0);
	for (int64_t c = s->chunks; c & 15; c++) sums[c] = 0, s->largest[c] = -INFINITY;
	for (int64_t c = 0; c < s->chunks; c += 16) {
		v16 scale = v16_exp(v16_sub(v16_load(s->largest + c), v16_set(s->max)));
		sum = v16_fma(scale, v16_load(sums + c), sum);
	}
	return v16_sum(sum);
}

#endif
