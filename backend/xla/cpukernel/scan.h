// The operations that the tables are built from. The kernels repeat the plain forms of package scan. XLA:CPU has no
// loops that carry a sum, and sums long arrays in parts, one operation for each part.
#ifndef QUIRE_SCAN_H
#define QUIRE_SCAN_H

#include "ffi.h"

// quire_prefix_sums(x s32[N]) -> sums s32[N], which wrap.
q_error *quire_prefix_sums(q_frame *f);

// quire_positions(mask pred[N]) -> positions s32[K], count s32[]: the positions of the first K set elements, N if
// there are fewer, and the number of all set elements.
q_error *quire_positions(q_frame *f);

// quire_count_rows(mask pred[R, N]) -> counts s32[R]: the number of set elements in each row.
q_error *quire_count_rows(q_frame *f);

// quire_owners(ends s32[N]) -> owners s32[K]: the number of ends that are at most k, for each k from 0 on.
q_error *quire_owners(q_frame *f);

#endif
