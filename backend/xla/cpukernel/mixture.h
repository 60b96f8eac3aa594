// Mixtures of experts: each row goes through the feed-forwards of some experts, and its result is their sum by shares.
#ifndef QUIRE_MIXTURE_H
#define QUIRE_MIXTURE_H

#include "gemm.h"

// quire_experts: x [T, in], experts s32[T, K], shares f32[T, K], rows s32[], packed weights of the first layers [E,
// ...] and of the second ones [E, ...], then f32 scales of both where weights are of 8 bits, biases of both [E, out],
// and residual [T, in] where the attributes of these names hold -> y [T, in], scratch f32[N]. A number of an expert
// below 0 or not below E is none. Attributes: in, inner, gate_up, activation, scales, bias, residual, up_blocks and
// down_blocks, which are `blocks` of quire_linear. N is at least q_experts_scratch.
//
// Rows are put together by expert; each expert's two layers are those of gemm.h, so a row's results are the same bits
// whatever other rows the expert has. A row's sum is taken in the order of its K experts.
q_error *quire_experts(q_frame *f);

// q_experts_scratch is in float32 numbers.
int64_t q_experts_scratch(int64_t rows, int64_t a_row, int64_t experts, int64_t in, int64_t inner);

#endif
