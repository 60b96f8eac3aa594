// Layers that keep a state of fixed size of a sequence; see package recurrence for the formulas and for what the operands are.
#ifndef QUIRE_RECURRENCE_H
#define QUIRE_RECURRENCE_H

#include "ffi.h"

// The sequences of a step.
typedef struct {
	const int32_t *from, *to, *begins; // s32[B], s32[T], s32[B+1]
	int64_t sequences, tokens;
	float *cache; // f32[pages, 1, 1, numbers]
	int64_t pages, numbers;
} q_sequences;

// q_sequences_of reads the operands from `first` on: the cache, and whose the tokens are. The cache is a result too, in place.
q_error *q_sequences_of(q_frame *f, int first, int result, int64_t tokens, q_sequences *s);

// q_page is where the state of a page is, NULL for what is no page.
static inline float *q_page(const q_sequences *s, int64_t id) { return id < 0 || id >= s->pages ? NULL : s->cache + id * s->numbers; }

enum { Q_MAX_TAPS = 16 };

// quire_short_conv: in [T, 3*C] of f32, bf16 or f16, taps [C, K] of the same, cache f32[P, 1, 1, (K-1)*C], from s32[B], to s32[T],
// begins s32[B+1], sequences s32[], owners s32[T] -> y [T, C] like in, and the cache in place.
q_error *quire_short_conv(q_frame *f);

// quire_gated_delta: in [T, ...], taps [C, K] of the same type, decay and bias f32[VH], norm f32[VD], cache, from, to, begins, sequences
// and owners as above; key_heads, value_heads, key_dim, value_dim i64, eps f64 -> y [T, VH*VD], and the cache in place.
q_error *quire_gated_delta(q_frame *f);

// quire_gate: x and gate [T, N] of f32, bf16 or f16, rows s32[] -> x times the sigmoid of gate, which is rounded: the first rows.
q_error *quire_gate(q_frame *f);

#endif
