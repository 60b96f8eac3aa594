// Products of the heads of attention, each with a matrix of its own.
#ifndef QUIRE_HEADS_H
#define QUIRE_HEADS_H

#include "gemm.h"

// quire_linear_heads: x [T, H, in], packed weights [H, ...] of f32, bf16 or f16, rows s32[] -> y [T, H, out] of x's
// type. Attributes: in, out of one matrix. A head's products are computed as in gemm.h, so a row's bits do not depend
// on the other rows.
q_error *quire_linear_heads(q_frame *f);

#endif
