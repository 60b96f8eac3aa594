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

// quire_short_conv: in [T, 3*C] of f32, bf16 or f16, taps [C, K] of the same, cache f32[P, 1, 1, (K-1)*C], from s32[B], to s32[T],
// begins s32[B+1], sequences s32[], owners s32[T] -> y [T, C] like in, and the cache in place.
q_error *quire_short_conv(q_frame *f);

#endif
