// The kernels of package attention, as XLA calls them.
#ifndef QUIRE_ATTENTION_H
#define QUIRE_ATTENTION_H

#include "ffi.h"

// quire_kv_update: cache [P, page, 2*KVH, D], k and v [T, KVH, D], dests s32[T] -> cache, in place: token t's keys
// and values go to place dests[t] of the P*page, or nowhere if that is out of range. Places must not repeat. Element
// types are f32, bf16 or f16. A cache of s8, or of u8 for e4m3, is [P, page, 2*KVH, D+4]: see attention_task.h.
// Without v, values are keys, which are stored once: the cache is [P, page, KVH, D]. Attribute by_head (bool): the
// cache is [P, 2*KVH, page, D], so that the keys of a page's tokens are adjacent for each head, and so are their
// values.
q_error *quire_kv_update(q_frame *f);

// quire_copy_pages: cache, src s32[C], dst s32[C] -> cache, in place: copies page src[i] to page dst[i], for each i
// for which both are pages. No page may be both a source and a destination, nor a destination twice.
q_error *quire_copy_pages(q_frame *f);

// quire_zero_pages: cache, mask pred[P] -> cache, in place: zeros the pages whose mask is set.
q_error *quire_zero_pages(q_frame *f);

// quire_zeros: zero [] -> results of any shapes, all zeros. Memory is allocated when it is first written. Attribute:
// results, their number.
q_error *quire_zeros(q_frame *f);

// quire_ragged_paged_attention: q [T, H, D], cache [P, page, 2*KVH, D], slots s32[B], pages s32[B, PP], lens s32[B],
// starts s32[B+1], seqs s32[], token_seqs s32[T], positions s32[T], and sinks f32[H] if there are any -> [T, H, D] of
// q's type; attributes scale and soft_cap (floats, 0 for no cap), window (integer, 0 for none), paged and by_head
// (bools; by_head as in quire_kv_update).
//
// Token t is at positions[t] of sequence token_seqs[t] (either may be -1: its result is 0) and attends to that
// sequence's positions up to its own, or only the last window ones if that is not 0: softmax over
// cap*tanh(q.k*scale/cap) in float32. If queries and cache are bf16 and D is a multiple of 16, weights are rounded to
// bf16 before they multiply values. A head's sink is one more score, for a value of zeros. Position p of sequence b
// is at place p%page of page pages[b, p/page] or, if not paged, at place p of page slots[b]. H is a multiple of KVH;
// D is any; the types are f32, bf16 or f16, and the cache's also the ones of quire_kv_update. The tokens of one
// sequence are consecutive. lens, starts and seqs have the same information in the form that other backends' kernels
// need.
//
// A token's result, in bytes, depends on its query, its position, and the keys and values of its sequence up to it:
// not on the other tokens, whether they come in one call or several, the number of threads, the page size or the
// pages.
q_error *quire_ragged_paged_attention(q_frame *f);

// quire_latent_attention is the same on a cache [P, page, KVH, D] whose values are keys.
q_error *quire_latent_attention(q_frame *f);

#endif
