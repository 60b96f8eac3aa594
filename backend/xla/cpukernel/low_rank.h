// Low-rank adapters: what they add to the product of a layer, for rows that each may have another adapter, or none.
#ifndef QUIRE_LOW_RANK_H
#define QUIRE_LOW_RANK_H

#include "ffi.h"

// quire_low_rank: x [T, in], adapters s32[T], rows s32[], packed matrices [N, ...] of all adapters to rank numbers, and
// from these to out -> addends f32[T, out], scratch f32[]. Attributes: in, rank, out. The addends of a row whose
// adapter is outside [0, N) are undefined.
//
// Rows are grouped by adapter, and each adapter's matrices are read once; both layers are computed as in gemm.h, so a
// row's bits do not depend on the other rows.
q_error *quire_low_rank(q_frame *f);

#endif
