// Drafts: what followed earlier occurrences of the tokens that a sequence ends with. See package engine/device, whose
// plain forms these kernels repeat. The first rows of the D are wanted, and the others get zeros.
#ifndef QUIRE_DRAFTS_H
#define QUIRE_DRAFTS_H

#include "ffi.h"

// quire_draft_text(texts s32[D, H], lens s32[D], rows s32[]) -> tokens s32[D, N], matches s32[D]. A text's last token
// is at lens. The attributes longest and shortest are how many tokens of the end are compared at most, and how many
// must match. tokens are the ones after the place at which most tokens match backwards, the last such place; beyond
// the end they repeat. matches is the number of matching tokens, 0 if there are too few.
q_error *quire_draft_text(q_frame *f);

// quire_draft_log(count s32[], tokens s32[L], next s32[L], rows s32[], then K keys of ends s32[D], then K of the log
// s32[L]) -> tokens s32[D, N], counts s32[D], matches s32[D]. A place of the log counts if it has a next one and its
// first key is the end's; matches is how many of the K keys match consecutively. Among the places with the most
// matches the latest is chosen; place count modulo L is the oldest. tokens are the ones that follow it along next,
// counts of them; next is 1 more than a number that identifies its place modulo L, or 0.
q_error *quire_draft_log(q_frame *f);

#endif
