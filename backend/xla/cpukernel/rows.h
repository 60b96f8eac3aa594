// The kernels of whole rows: sequences whose tokens stand one after the other in an array, without a cache.
#ifndef QUIRE_ROWS_H
#define QUIRE_ROWS_H

#include "ffi.h"

// quire_row_attention: q [T, H, D], k and v [T, KVH, D], token_rows s32[T], positions s32[T], firsts s32[R], lens
// s32[R], count s32[], and bias f32[H, W] if there is one -> [T, H, D], all of one float type; attributes scale and
// soft_cap (floats, 0 for no cap), window, ahead and zero (integers).
//
// There are count rows. Of row r the lens[r] tokens from firsts[r] on are attended to. Token t is at positions[t] of
// row token_rows[t] (either may be -1: its result is 0) and attends to the last window positions up to its own (0: to
// all of them) and to ahead positions after it, among these tokens of its row: softmax over cap*tanh(q.k*scale/cap) +
// bias[h, zero + key's position - own position], in float32. W is at least 2*zero + 1 + 32, and positions are at most
// zero if there is a bias.
//
// A token's result, in bytes, depends on its row alone.
q_error *quire_row_attention(q_frame *f);

// quire_pool_rows: x [T, N] of a float type, firsts s32[R], lens s32[R], rows s32[] -> f32[R, N]: the first rows of
// the R are pooled, each over its tokens; attribute largest (bool): the largest of each number, else their mean. Sums
// are in float32 and in the order of the tokens. Rows without tokens, and the others, become zeros.
q_error *quire_pool_rows(q_frame *f);

#endif
