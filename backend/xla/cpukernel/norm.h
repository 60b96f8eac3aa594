// The decoder's row-wise operations between the matrix products; see norm.go and rope.go of package models/decoder for
// the formulas.
#ifndef QUIRE_NORM_H
#define QUIRE_NORM_H

#include "ffi.h"

// quire_rms_norm: x [T, ..., H], weight [H] of x's element type (f32, bf16 or f16) or of f32, rows s32[]; eps f64 ->
// y like x, with the first `rows` rows computed. Before the product with a weight of x's type, the quotient is
// rounded to that type.
q_error *quire_rms_norm(q_frame *f);

// quire_layer_norm: x as above, weight and bias f32[H], rows s32[]; eps f64 -> y like x.
q_error *quire_layer_norm(q_frame *f);

// quire_rope: qkv [T, (H+2*KVH)*D] of f32, bf16 or f16; if rotate: cos and sin f32[T, half], half <= D/2; if norm:
// weights [D] for queries and keys, of qkv's element type or of f32 as in quire_rms_norm; rows s32[]. Attributes
// heads, kv_heads i64, rotate, norm bool, eps f64. -> q [T, H, D], k and v [T, KVH, D]: the heads of the first `rows`
// rows; q and k are normalized, and then their first 2*half numbers are rotated.
q_error *quire_rope(q_frame *f);

typedef struct {
	const void *x, *weight;
	const float *bias; // bias of a LayerNorm, else NULL
	void *y;
	int dtype, weight_dtype;
	int64_t groups, width; // a row is `groups` vectors of `width` numbers, each normalized on its own
	float eps;
	int64_t rows, step; // task i does rows [i * step, (i + 1) * step) below rows
} q_norm_args;

typedef struct {
	const void *qkv, *q_norm, *k_norm; // the weights are NULL without norm
	const float *cos, *sin;            // NULL without rotation
	void *q, *k, *v;
	int dtype, norm_dtype;
	int64_t heads, kv_heads, dim, half; // the first 2*half numbers of a head are rotated
	float eps;
	int64_t rows, step;
} q_rope_args;

void q_norm_rows_plain(void *args, int64_t i);
void q_norm_rows_avx2(void *args, int64_t i);
void q_norm_rows_avx512(void *args, int64_t i);
void q_rope_rows_plain(void *args, int64_t i);
void q_rope_rows_avx2(void *args, int64_t i);
void q_rope_rows_avx512(void *args, int64_t i);

#endif
