#include "sampling.h"
#include "code.h"

#define NAME(name, dtype, type, numbers) #name " "
const char *q_sample_operands(void) { return Q_SAMPLE_PARAMS(NAME) Q_SAMPLE_FILTERS(NAME); }

#define ONE(name, dtype, type, numbers) +1

// READ takes the next operand as the field of its name.
#define READ(name, dtype, type, numbers) \
	if ((e = numbers == 1 ? q_shape(f, q_arg(f, at), #name, dtype, rows) \
						  : q_shape(f, q_arg(f, at), #name, dtype, rows, numbers))) { \
		return e; \
	} \
	a.name = q_arg(f, at++)->data;

// check_logits refuses logits [S, V] that no kernel here takes.
static q_error *check_logits(q_frame *f, const q_array *logits) {
	q_error *e = q_shape(f, logits, "logits", 0, -1, -1);
	if (e) return e;
	if (logits->dtype != Q_F32 && logits->dtype != Q_BF16 && logits->dtype != Q_F16) {
		return q_fail(f, "logits have element type %d, want f32, bf16 or f16", logits->dtype);
	}
	int64_t vocabulary = logits->dims[1];
	if (vocabulary < 1 || vocabulary > Q_LARGEST_VOCABULARY) {
		return q_fail(f, "a vocabulary of %lld tokens, want 1 to %d", (long long)vocabulary, Q_LARGEST_VOCABULARY);
	}
	return NULL;
}

static q_error *sample(q_frame *f, int filtered, int masked) {
	if (q_skip(f)) return NULL;
	enum { PARAMS = 0 Q_SAMPLE_PARAMS(ONE), FILTERS = 0 Q_SAMPLE_FILTERS(ONE) };
	int at = 1, counts = 1 + PARAMS; // index of the next operand; index of the number of wanted rows
	q_error *e = q_count(f, counts + 1 + (filtered ? FILTERS : 0) + (masked ? 2 : 0), 3);
	if (e) return e;
	const q_array *logits = q_arg(f, 0);
	if ((e = check_logits(f, logits))) return e;
	int64_t rows = logits->dims[0], vocabulary = logits->dims[1];
	if ((e = q_check_shape(f, q_arg(f, counts), "rows", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 0), "tokens", Q_S32, rows)) ||
		(e = q_shape(f, q_result(f, 1), "logprobs", Q_F32, rows)) ||
		(e = q_shape(f, q_result(f, 2), "processed", Q_F32, rows))) {
		return e;
	}
	q_sample_args a = {.logits = logits->data,
		.dtype = logits->dtype,
		.vocabulary = vocabulary,
		.token = q_result(f, 0)->data,
		.logprob = q_result(f, 1)->data,
		.processed = q_result(f, 2)->data};
	Q_SAMPLE_PARAMS(READ)
	at++; // skip the wanted rows
	if (filtered) {
		Q_SAMPLE_FILTERS(READ)
	}
	if (masked) {
		a.words = (vocabulary + 31) / 32;
		if ((e = q_shape(f, q_arg(f, at), "masks", Q_U32, -1, a.words)) ||
			(e = q_shape(f, q_arg(f, at + 1), "mask_of", Q_S32, rows, -1))) {
			return e;
		}
		a.masks = q_arg(f, at)->data;
		a.num_masks = q_arg(f, at)->dims[0];
		a.mask_of = q_arg(f, at + 1)->data;
		a.lanes = q_arg(f, at + 1)->dims[1];
	}
	const int64_t wanted = q_wanted(q_arg(f, counts), rows);
	for (int64_t i = wanted; i < rows; i++) {
		a.token[i] = -1;
		a.logprob[i] = a.processed[i] = 0;
	}
	q_parallel(f, wanted, q_code_in_use()->sample_row, &a);
	return NULL;
}

q_error *quire_sample(q_frame *f) { return sample(f, 0, 0); }

q_error *quire_sample_masked(q_frame *f) { return sample(f, 0, 1); }

q_error *quire_sample_filtered(q_frame *f) { return sample(f, 1, 0); }

q_error *quire_sample_filtered_masked(q_frame *f) { return sample(f, 1, 1); }

q_error *quire_logprobs(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e = q_count(f, 4, 3);
	if (e) return e;
	const q_array *logits = q_arg(f, 0), *ids = q_result(f, 1);
	if ((e = check_logits(f, logits)) || (e = q_shape(f, ids, "ids", Q_S32, -1, -1))) return e;
	int64_t rows = logits->dims[0], vocabulary = logits->dims[1], width = ids->dims[1];
	if (width < 1 || width > vocabulary) {
		return q_fail(f, "%lld of %lld tokens, want 1 to all", (long long)width, (long long)vocabulary);
	}
	if ((e = q_shape(f, q_arg(f, 1), "tokens", Q_S32, rows)) || (e = q_shape(f, q_arg(f, 2), "counts", Q_S32, rows)) ||
		(e = q_check_shape(f, q_arg(f, 3), "rows", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 0), "logprobs", Q_F32, rows)) || (e = q_shape(f, ids, "ids", Q_S32, rows, width)) ||
		(e = q_shape(f, q_result(f, 2), "tops", Q_F32, rows, width))) {
		return e;
	}
	q_logprobs_args a = {.of = {.logits = logits->data, .dtype = logits->dtype, .vocabulary = vocabulary},
		.token = q_arg(f, 1)->data,
		.count = q_arg(f, 2)->data,
		.width = width,
		.logprob = q_result(f, 0)->data,
		.id = ids->data,
		.top = q_result(f, 2)->data};
	const int64_t wanted = q_wanted(q_arg(f, 3), rows);
	for (int64_t i = wanted; i < rows; i++) a.logprob[i] = 0;
	for (int64_t i = wanted * width; i < rows * width; i++) {
		a.id[i] = -1;
		a.top[i] = 0;
	}
	q_parallel(f, wanted, q_code_in_use()->logprobs_row, &a);
	return NULL;
}

q_error *quire_entropy(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e = q_count(f, 2, 1);
	if (e) return e;
	const q_array *logits = q_arg(f, 0);
	if ((e = check_logits(f, logits))) return e;
	int64_t rows = logits->dims[0];
	if ((e = q_check_shape(f, q_arg(f, 1), "rows", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 0), "entropies", Q_F32, rows))) {
		return e;
	}
	q_entropy_args a = {.of = {.logits = logits->data, .dtype = logits->dtype, .vocabulary = logits->dims[1]},
		.entropy = q_result(f, 0)->data};
	const int64_t wanted = q_wanted(q_arg(f, 1), rows);
	for (int64_t i = wanted; i < rows; i++) a.entropy[i] = 0;
	q_parallel(f, wanted, q_code_in_use()->entropy_row, &a);
	return NULL;
}
