// The kernels of package attention, as XLA calls them.
#ifndef QUIRE_ATTENTION_H
#define QUIRE_ATTENTION_H

#include "ffi.h"

// quire_kv_update: cache [P, page, 2*KVH, D], k and v [T, KVH, D], dests s32[T] -> cache, in place: token t's keys and values go to
// place dests[t] of the P*page, or nowhere if that is out of range. Places must not repeat. Element types are f32, bf16 or f16.
q_error *quire_kv_update(q_frame *f);

// quire_copy_pages: cache, src s32[C], dst s32[C] -> cache, in place: page src[i] to page dst[i], for each i where both are pages. No
// page may be both a source and a destination, nor a destination twice.
q_error *quire_copy_pages(q_frame *f);

// quire_zero_pages: cache, mask pred[P] -> cache, in place: zeros in the pages where mask holds.
q_error *quire_zero_pages(q_frame *f);

#endif
