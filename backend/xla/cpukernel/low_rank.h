// Low-rank adapters: the first of their two products, for rows that each may have another adapter, or none. The second
// is a part of the layer: see q_adapted.
#ifndef QUIRE_LOW_RANK_H
#define QUIRE_LOW_RANK_H

#include "ffi.h"

// quire_low_rank: x [T, in], adapters s32[T], rows s32[], packed matrices [rank, in] of all adapters, [N, ...] -> y
// f32[T, rank], scratch f32[]. Attributes: in, rank. The result of a row whose adapter is outside [0, N) is undefined.
//
// Rows are grouped by adapter, and each adapter's matrix is read once, as in gemm.h, so a row's bits do not depend on
// the other rows.
q_error *quire_low_rank(q_frame *f);

#endif
