#include "code.h"
#include "recurrence_task.h"

// q_sequences_of reads the cache and the owners of the tokens from the operands starting with `first`; result is the
// number of the cache's result.
q_error *q_sequences_of(q_frame *f, int first, int result, int64_t tokens, q_sequences *s) {
	const q_array *cache = q_arg(f, first), *from = q_arg(f, first + 1), *to = q_arg(f, first + 2),
				  *begins = q_arg(f, first + 3);
	q_error *e;
	if ((e = q_shape(f, cache, "cache", Q_F32, -1, -1)) || (e = q_shape(f, from, "from", Q_S32, -1)) ||
		(e = q_shape(f, to, "to", Q_S32, tokens)) || (e = q_shape(f, begins, "begins", Q_S32, from->dims[0] + 1)) ||
		(e = q_check_shape(f, q_arg(f, first + 4), "sequences", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_arg(f, first + 5), "owners", Q_S32, tokens))) {
		return e;
	}
	if (cache->data != q_result(f, result)->data) return q_fail(f, "the cache is not updated in place");
	int64_t n = *(const int32_t *)q_arg(f, first + 4)->data;
	*s = (q_sequences){.from = from->data,
		.to = to->data,
		.begins = begins->data,
		.sequences = n < 0               ? 0
		             : n > from->dims[0] ? from->dims[0]
		                                 : n,
		.tokens = tokens,
		.cache = cache->data,
		.pages = cache->dims[0],
		.numbers = cache->dims[1]};
	return NULL;
}

void q_convolve(q_frame *f, q_conv *a) {
	a->blocks = (a->channels + Q_CHANNELS - 1) / Q_CHANNELS;
	q_parallel(f, a->s.sequences * a->blocks, q_code_in_use()->recurrences->conv, a);
}

q_error *quire_short_conv(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 8, 2))) return e;
	const q_array *in = q_arg(f, 0), *taps = q_arg(f, 1), *y = q_result(f, 0);
	q_conv a = {.in = in->data, .taps = taps->data, .y = y->data, .dtype = in->dtype};
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16)
		return q_fail(f, "in has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, taps, "taps", a.dtype, -1, -1)) || (e = q_shape(f, in, "in", a.dtype, -1, 3 * taps->dims[0])) ||
		(e = q_shape(f, y, "y", a.dtype, in->dims[0], taps->dims[0])) ||
		(e = q_sequences_of(f, 2, 1, in->dims[0], &a.s))) {
		return e;
	}
	a.channels = taps->dims[0];
	a.k = taps->dims[1];
	if (a.k < 2 || a.k > Q_MAX_TAPS) return q_fail(f, "%lld taps, want 2 to %d", (long long)a.k, Q_MAX_TAPS);
	if (a.s.numbers != (a.k - 1) * a.channels)
		return q_fail(
			f, "a state of %lld numbers, want %lld", (long long)a.s.numbers, (long long)((a.k - 1) * a.channels));
	a.width = 3 * a.channels;
	q_convolve(f, &a);
	return NULL;
}
