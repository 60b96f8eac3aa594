// Scores of bf16 keys. Two numbers that are read as one of 32 bits belong to two adjacent dimensions, and become
// float32 in place. A score has LANES sums, each over its pairs in order, the odd dimension of a pair first:
// AVX-512's dot products use the same order, and give the same bits. In converted keys, and in queries, the odd
// dimensions of each 2*LANES come first, then the even ones. Included once per instruction set, by attention_tiles.h.
#ifndef QUIRE_ATTENTION_PAIRS_H
#define QUIRE_ATTENTION_PAIRS_H

#include "attention_numbers.h"

// A vector multiplies LANES dimensions, or pairs of them, of KEYS keys.
enum { LANES = Q_WIDTH < 8 ? Q_WIDTH : 8, KEYS = Q_WIDTH / LANES };

// Types of numbers in addition to those in ffi.h. PAIRS is bf16 that is read in pairs; sums of values are then kept
// in a different order: the even dimensions of two vectors, then the odd ones. DOTS is bf16 whose products one
// instruction adds in pairs: for keys two dimensions, with queries that are also bf16; for values two tokens, with
// rounded weights. Sums of values are then kept in the order of interleave. DOTS_TURNED is values that were
// interleaved before.
enum { PAIRS = 100, DOTS, DOTS_TURNED };

// paired reports whether scores are summed in pairs. It depends only on the model, as by_dots does.
Q_INLINE int paired(const struct q_attention *a) { return a->cache_type == Q_BF16; }

// rounded reports whether weights are rounded to bf16, and values are added two tokens at a time, the odd one first.
Q_INLINE int rounded(const struct q_attention *a) { return paired(a) && a->type == Q_BF16 && a->dim % 16 == 0; }

Q_INLINE int by_dots(const struct q_attention *a) {
#ifdef Q_DOTS
	return rounded(a);
#else
	return 0;
#endif
}

// values_by_dots reports whether one instruction adds the values of two tokens.
Q_INLINE int values_by_dots(const struct q_attention *a) { return by_dots(a) && a->dim % (2 * Q_WIDTH) == 0; }

Q_INLINE vf odd_of(vu pairs) { return (vf)(pairs & 0xffff0000); }
Q_INLINE vf even_of(vu pairs) { return (vf)(pairs << 16); }

// dots adds the products of pairs to sums.
Q_INLINE vf dots(vf sum, vu a, vu b) {
#if defined(Q_DOTS) && Q_SIMD == Q_AVX512
	return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
	return vfma(even_of(a), even_of(b), vfma(odd_of(a), odd_of(b), sum));
#endif
}

typedef uint32_t lane_pairs __attribute__((vector_size(4 * LANES)));

// unpack_pairs is unpack for bf16 numbers, in the order of pairs. padded is a multiple of 2 * LANES.
Q_INLINE void unpack_pairs(const char *p, int64_t dim, int64_t padded, float *to) {
	for (int64_t d = 0; d < padded; d += 2 * LANES) {
		lane_pairs both = {}, odd, even;
		if (d < dim) memcpy(&both, p + 2 * d, d + 2 * LANES <= dim ? sizeof both : (size_t)(2 * (dim - d)));
		odd = both & 0xffff0000;
		even = both << 16;
		memcpy(to + d, &odd, sizeof odd);
		memcpy(to + d + LANES, &even, sizeof even);
	}
}

// order_pairs brings numbers into the order of pairs.
static void order_pairs(float *x, int64_t padded) {
	for (int64_t d = 0; d < padded; d += 2 * LANES, x += 2 * LANES) {
		float in_order[2 * LANES];
		memcpy(in_order, x, sizeof in_order);
		for (int i = 0; i < LANES; i++) {
			x[i] = in_order[2 * i + 1];
			x[LANES + i] = in_order[2 * i];
		}
	}
}

// pack_pairs packs a query of dim numbers of a type for score_all: unchanged for dots, else as float32.
static void pack_pairs(const char *from, int type, int64_t dim, int64_t padded, int dots, float *to) {
	if (dots) {
		memcpy(to, from, 2 * dim);
	} else if (type == Q_BF16) {
		unpack_pairs(from, dim, padded, to);
	} else {
		unpack(from, type, dim, padded, to);
		order_pairs(to, padded);
	}
}

// lanes_of reads LANES numbers of 32 bits, for each of KEYS keys.
Q_INLINE vf lanes_of(const void *p) {
#if Q_SIMD == Q_AVX512
	return (vf)_mm512_broadcast_f32x8(_mm256_loadu_ps(p));
#else
	return vload(p);
#endif
}

// pairs_of reads LANES pairs of a key and, if KEYS is 2, of a second one.
Q_INLINE vu pairs_of(const char *first, const char *second) {
#if Q_SIMD == Q_AVX512
	return (vu)_mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)first)),
		_mm256_loadu_si256((const __m256i *)second), 1);
#else
	(void)second;
	vu both;
	memcpy(&both, first, sizeof both);
	return both;
#endif
}

#endif
