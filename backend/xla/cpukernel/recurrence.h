// Layers that keep a state of fixed size for a sequence; see package recurrence for the formulas and the operands.
#ifndef QUIRE_RECURRENCE_H
#define QUIRE_RECURRENCE_H

#include <stdatomic.h>

#include "ffi.h"

// The sequences of a step.
typedef struct {
	const int32_t *from, *to, *begins; // s32[B], s32[T], s32[B+1]
	int64_t sequences, tokens;
	float *cache; // f32[pages, numbers]
	int64_t pages, numbers;
	_Atomic int *failed; // set by a task that found no memory
} q_sequences;

// q_sequences_of reads the operands starting with `first`: the cache, and the owners of the tokens. The cache is also
// a result, in place.
q_error *q_sequences_of(q_frame *f, int first, int result, int64_t tokens, q_sequences *s);

// q_page returns the position of a page's state, NULL if id is not a page.
static inline float *q_page(const q_sequences *s, int64_t id) {
	return id < 0 || id >= s->pages ? NULL : s->cache + id * s->numbers;
}

enum { Q_MAX_TAPS = 16 };

// A convolution of the channels of a step's sequences over the last k tokens, and the states of its inputs: from a
// token's `width` numbers it takes the ones starting with `first`. Without a bias there are gates before and after
// it, as in a short convolution; with one, SiLU follows.
typedef struct {
	q_sequences s;
	const void *in, *taps; // [T, width], [C, k]
	const float *bias;     // f32[C]
	void *y;               // [T, C]
	int dtype;
	int64_t channels, k, width, first, blocks;
} q_conv;

// q_convolve runs it in q_parallel.
void q_convolve(q_frame *f, q_conv *a);

// quire_short_conv: in [T, 3*C] of f32, bf16 or f16, taps [C, K] of the same, cache f32[P, (K-1)*C], from s32[B],
// to s32[T], begins s32[B+1], sequences s32[], owners s32[T] -> y [T, C] like in, and the cache in place.
q_error *quire_short_conv(q_frame *f);

// quire_gated_delta: in [T, ...], taps [C, K] of the same type, decay and bias f32[VH], norm f32[VD], cache, from, to,
// begins, sequences and owners as above; key_heads, value_heads, key_dim, value_dim i64, eps f64 -> y [T, VH*VD], and
// the cache in place.
q_error *quire_gated_delta(q_frame *f);

// quire_gate: x and gate [T, N] of f32, bf16 or f16, rows s32[] -> x times the sigmoid of gate, which is rounded, for
// the first rows.
q_error *quire_gate(q_frame *f);

// quire_mamba2: in [T, ...] of f32, bf16 or f16, taps [C, K] of the same, bias of taps f32[C], decay, bias of steps
// and skip f32[H], cache, from, to, begins, sequences and owners as above; heads, head_dim, groups, state_dim i64,
// min_step and max_step f64 (0: none) -> y [T, H*D] like in, the cache in place, and the results of the convolution,
// [T, C] like in.
q_error *quire_mamba2(q_frame *f);

// quire_gated_norm: x [T, N] of f32, bf16 or f16, gate [T, >= N] of the same, weight f32[N], rows s32[]; groups i64,
// eps f64 -> y like x: the first rows.
q_error *quire_gated_norm(q_frame *f);

#endif
