// Sampling of one token per row; see package sampling for the formulas, which sampling_row.h repeats.
#ifndef QUIRE_SAMPLING_H
#define QUIRE_SAMPLING_H

#include "ffi.h"

// The operands of quire_sample that have numbers for each row, in order: name, element type, C type, numbers. They
// are the fields of ParamsOf, the positions, and the fields of FiltersOf, in package sampling. A new parameter is a
// line here and its use in sampling_row.h or filters_row.h.
#define Q_SAMPLE_PARAMS(X) \
	X(temperature, Q_F32, float, 1) \
	X(top_p, Q_F32, float, 1) \
	X(min_p, Q_F32, float, 1) \
	X(top_k, Q_S32, int32_t, 1) \
	X(key, Q_U32, uint32_t, 2) \
	X(positions, Q_S32, int32_t, 1)

#define Q_SAMPLE_FILTERS(X) \
	X(top_n_sigma, Q_F32, float, 1) \
	X(typical, Q_F32, float, 1) \
	X(xtc_probability, Q_F32, float, 1) \
	X(xtc_threshold, Q_F32, float, 1)

// quire_sample: logits [S, V] of f32, bf16 or f16; Q_SAMPLE_PARAMS [S] or [S, numbers]; rows s32[]; with filters also
// Q_SAMPLE_FILTERS; with masks also masks u32[M, ceil(V / 32)], mask_of s32[S, L] -> tokens s32[S]; logprobs,
// processed f32[S] of the first `rows` rows; the other tokens are -1.
q_error *quire_sample(q_frame *f);
q_error *quire_sample_masked(q_frame *f);
q_error *quire_sample_filtered(q_frame *f);
q_error *quire_sample_filtered_masked(q_frame *f);

// q_sample_operands returns the names of the operands that have numbers for each row, each followed by a space.
const char *q_sample_operands(void);

// The rows of a batch, row-major.
typedef struct {
	const void *logits; // [rows, vocabulary]
	int dtype;          // dtype of the logits: Q_F32, Q_BF16 or Q_F16
	int64_t vocabulary; // from 1 to Q_LARGEST_VOCABULARY
#define Q_SAMPLE_FIELD(name, dtype, type, numbers) const type *name; // [rows, numbers]
	Q_SAMPLE_PARAMS(Q_SAMPLE_FIELD)
	Q_SAMPLE_FILTERS(Q_SAMPLE_FIELD) // 0 is off; NULL: no row has any of them
#undef Q_SAMPLE_FIELD
	// A row may sample the tokens whose bits are set in all of its masks; a number that is not a mask's forbids
	// nothing.
	const uint32_t *masks; // [num_masks, words]; NULL: no row has a mask
	int64_t num_masks, words, lanes;
	const int32_t *mask_of; // [rows, lanes]
	int32_t *token;
	float *logprob, *processed;
} q_sample_args;

enum { Q_LARGEST_VOCABULARY = 1 << 22 };

// q_sample_row_LEVEL samples row i of args, q_sample_args, as a task of q_parallel.
void q_sample_row_plain(void *args, int64_t i);
void q_sample_row_avx2(void *args, int64_t i);
void q_sample_row_avx512(void *args, int64_t i);

// quire_logprobs: logits [S, V] of f32, bf16 or f16; tokens, counts s32[S]; rows s32[] -> logprobs f32[S]; ids s32[S,
// N], tops f32[S, N] of the first `rows` rows; for the others the log-probabilities are 0 and the ids -1.
q_error *quire_logprobs(q_frame *f);

typedef struct {
	q_sample_args of; // only its logits, dtype and vocabulary
	const int32_t *token, *count;
	int64_t width; // places for the likeliest tokens of a row
	float *logprob;
	int32_t *id; // [rows, width]
	float *top;  // [rows, width]
} q_logprobs_args;

// q_logprobs_row_LEVEL handles row i of args, q_logprobs_args.
void q_logprobs_row_plain(void *args, int64_t i);
void q_logprobs_row_avx2(void *args, int64_t i);
void q_logprobs_row_avx512(void *args, int64_t i);

// quire_entropy: logits [S, V] of f32, bf16 or f16; rows s32[] -> entropies f32[S] of the first `rows` rows, in nats;
// NaN of a row without a distribution, 0 of the other rows.
q_error *quire_entropy(q_frame *f);

typedef struct {
	q_sample_args of; // only its logits, dtype and vocabulary
	float *entropy;
} q_entropy_args;

// q_entropy_row_LEVEL does row i of args, q_entropy_args.
void q_entropy_row_plain(void *args, int64_t i);
void q_entropy_row_avx2(void *args, int64_t i);
void q_entropy_row_avx512(void *args, int64_t i);

#endif
