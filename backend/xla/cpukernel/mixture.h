// Mixtures of experts: each row goes through the feed-forwards of some experts, and its result is their sum weighted
// by shares.
#ifndef QUIRE_MIXTURE_H
#define QUIRE_MIXTURE_H

#include "gemm.h"

// quire_experts: x [T, in], experts s32[T, K], shares f32[T, K], rows s32[], packed weights of the first layers [E,
// ...] and of the second ones [E, ...], then f32 scales of both if weights are 8-bit, biases of both [E, out], and
// residual [T, in] if the attributes of these names are set -> y [T, in], scratch f32[N]. An expert number outside
// [0, E) means none. Attributes: in, inner, gate_up, activation, scales, bias, residual, up_blocks and down_blocks,
// which are `blocks` of quire_linear. N is at least q_experts_scratch.
//
// Rows are grouped by expert; each expert's two layers are computed as in gemm.h, so a row's bits do not depend on the
// expert's other rows. A row's sum is taken in the order of its K experts.
q_error *quire_experts(q_frame *f);

// q_experts_scratch returns the size in float32 numbers.
int64_t q_experts_scratch(int64_t rows, int64_t a_row, int64_t experts, int64_t in, int64_t inner);

#endif
