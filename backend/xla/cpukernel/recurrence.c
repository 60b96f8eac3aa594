#include "recurrence.h"

#include <string.h>

#include "scalar.h"

// q_sequences_of reads the operands from `first` on, the cache and whose the tokens are; result is the cache's.
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

// The channels of a task, which go through the tokens of one sequence.
enum { CHANNELS = 256 };

// A number's operations are the same whatever the block, and no code depends on the processor.
static void conv_block(void *args, int64_t task) {
	const q_conv *a = args;
	const q_sequences *s = &a->s;
	int64_t seq = task / a->blocks, c0 = task % a->blocks * CHANNELS, past = a->k - 1;
	int64_t n = a->channels - c0 < CHANNELS ? a->channels - c0 : CHANNELS;
	float window[Q_MAX_TAPS][CHANNELS], taps[Q_MAX_TAPS][CHANNELS]; // row i % k of the window has the i-th input
	const float *from = q_page(s, s->from[seq]);
	for (int64_t i = 0; i < past; i++) {
		if (from) memcpy(window[i], from + i * a->channels + c0, n * sizeof(float));
		else memset(window[i], 0, n * sizeof(float));
	}
	for (int64_t i = 0; i < a->k; i++) {
		for (int64_t c = 0; c < n; c++) taps[i][c] = q_load(a->taps, a->dtype, (c0 + c) * a->k + i);
	}
	int64_t first = 0; // the row of the oldest
	for (int64_t t = s->begins[seq]; t < s->begins[seq + 1] && t < s->tokens; t++) {
		float *own = window[(first + past) % a->k], sum[CHANNELS] = {0};
		int64_t row = t * a->width + a->first + c0, out = t * a->channels + c0;
		for (int64_t c = 0; c < n; c++) {
			own[c] = q_load(a->in, a->dtype, row + c);
			if (!a->bias) own[c] = q_rounded(a->dtype, own[c] * q_load(a->in, a->dtype, row + 2 * a->channels + c));
		}
		for (int64_t i = 0; i < a->k; i++) {
			const float *x = window[(first + i) % a->k];
			for (int64_t c = 0; c < n; c++) sum[c] += x[c] * taps[i][c];
		}
		if (a->bias) {
			for (int64_t c = 0; c < n; c++) sum[c] = q_rounded(a->dtype, sum[c] + a->bias[c0 + c]);
			for (int64_t c = 0; c < n; c++) q_store(a->y, a->dtype, out + c, sum[c] * q_sigmoid(sum[c]));
		} else {
			for (int64_t c = 0; c < n; c++)
				q_store(a->y, a->dtype, out + c,
					q_load(a->in, a->dtype, row + a->channels + c) * q_rounded(a->dtype, sum[c]));
		}
		first = (first + 1) % a->k;
		float *to = q_page(s, s->to[t]);
		for (int64_t i = 0; to && i < past; i++)
			memcpy(to + i * a->channels + c0, window[(first + i) % a->k], n * sizeof(float));
	}
}

void q_convolve(q_frame *f, q_conv *a) {
	a->blocks = (a->channels + CHANNELS - 1) / CHANNELS;
	q_parallel(f, a->s.sequences * a->blocks, conv_block, a);
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
