#include "recurrence.h"

#include <string.h>

#include "convert.h"

static float load(const void *data, int dtype, int64_t i) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(((const uint16_t *)data)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)data)[i]);
	default: return ((const float *)data)[i];
	}
}

// rounded is x as the nearest number of an element type.
static float rounded(int dtype, float x) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(q_to_bf16(x));
	case Q_F16: return q_from_f16(q_to_f16(x));
	default: return x;
	}
}

static void store(void *data, int dtype, int64_t i, float x) {
	switch (dtype) {
	case Q_BF16: ((uint16_t *)data)[i] = q_to_bf16(x); break;
	case Q_F16: ((uint16_t *)data)[i] = q_to_f16(x); break;
	default: ((float *)data)[i] = x; break;
	}
}

// sequences_of reads the operands from `first` on, the cache and whose the tokens are; result is the cache's.
static q_error *sequences_of(q_frame *f, int first, int result, int64_t tokens, q_sequences *s) {
	const q_array *cache = q_arg(f, first), *from = q_arg(f, first + 1), *to = q_arg(f, first + 2), *begins = q_arg(f, first + 3);
	q_error *e;
	if ((e = q_shape(f, cache, "cache", Q_F32, -1, 1, 1, -1)) || (e = q_shape(f, from, "from", Q_S32, -1)) ||
		(e = q_shape(f, to, "to", Q_S32, tokens)) || (e = q_shape(f, begins, "begins", Q_S32, from->dims[0] + 1)) ||
		(e = q_check_shape(f, q_arg(f, first + 4), "sequences", Q_S32, 0, NULL)) || (e = q_shape(f, q_arg(f, first + 5), "owners", Q_S32, tokens))) {
		return e;
	}
	if (cache->data != q_result(f, result)->data) return q_fail(f, "the cache is not updated in place");
	int64_t n = *(const int32_t *)q_arg(f, first + 4)->data;
	*s = (q_sequences){
		.from = from->data, .to = to->data, .begins = begins->data, .sequences = n < 0 ? 0 : n > from->dims[0] ? from->dims[0] : n,
		.tokens = tokens, .cache = cache->data, .pages = cache->dims[0], .numbers = cache->dims[3],
	};
	return NULL;
}

// page is where the state of a page is, NULL for what is no page.
static float *page(const q_sequences *s, int64_t id) { return id < 0 || id >= s->pages ? NULL : s->cache + id * s->numbers; }

// The channels of a task, which go through the tokens of one sequence.
enum { CHANNELS = 256, MAX_TAPS = 16 };

typedef struct {
	q_sequences s;
	const void *in, *taps;
	void *y;
	int dtype;
	int64_t channels, k, blocks;
} conv_args;

// A number's operations are the same whatever the block, and no code depends on the processor.
static void conv_block(void *args, int64_t task) {
	const conv_args *a = args;
	const q_sequences *s = &a->s;
	int64_t seq = task / a->blocks, c0 = task % a->blocks * CHANNELS, past = a->k - 1;
	int64_t n = a->channels - c0 < CHANNELS ? a->channels - c0 : CHANNELS;
	float window[MAX_TAPS][CHANNELS], taps[MAX_TAPS][CHANNELS]; // row i % k of the window has the i-th input
	const float *from = page(s, s->from[seq]);
	for (int64_t i = 0; i < past; i++) {
		if (from) memcpy(window[i], from + i * a->channels + c0, n * sizeof(float));
		else memset(window[i], 0, n * sizeof(float));
	}
	for (int64_t i = 0; i < a->k; i++) {
		for (int64_t c = 0; c < n; c++) taps[i][c] = load(a->taps, a->dtype, (c0 + c) * a->k + i);
	}
	int64_t first = 0; // the row of the oldest
	for (int64_t t = s->begins[seq]; t < s->begins[seq + 1] && t < s->tokens; t++) {
		float *own = window[(first + past) % a->k], sum[CHANNELS] = {0};
		int64_t row = t * 3 * a->channels + c0;
		for (int64_t c = 0; c < n; c++)
			own[c] = rounded(a->dtype, load(a->in, a->dtype, row + c) * load(a->in, a->dtype, row + 2 * a->channels + c));
		for (int64_t i = 0; i < a->k; i++) {
			const float *x = window[(first + i) % a->k];
			for (int64_t c = 0; c < n; c++) sum[c] += x[c] * taps[i][c];
		}
		for (int64_t c = 0; c < n; c++)
			store(a->y, a->dtype, t * a->channels + c0 + c, load(a->in, a->dtype, row + a->channels + c) * rounded(a->dtype, sum[c]));
		first = (first + 1) % a->k;
		float *to = page(s, s->to[t]);
		for (int64_t i = 0; to && i < past; i++) memcpy(to + i * a->channels + c0, window[(first + i) % a->k], n * sizeof(float));
	}
}

q_error *quire_short_conv(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 8, 2))) return e;
	const q_array *in = q_arg(f, 0), *taps = q_arg(f, 1), *y = q_result(f, 0);
	conv_args a = {.in = in->data, .taps = taps->data, .y = y->data, .dtype = in->dtype};
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16) return q_fail(f, "in has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, taps, "taps", a.dtype, -1, -1)) || (e = q_shape(f, in, "in", a.dtype, -1, 3 * taps->dims[0])) ||
		(e = q_shape(f, y, "y", a.dtype, in->dims[0], taps->dims[0])) || (e = sequences_of(f, 2, 1, in->dims[0], &a.s))) {
		return e;
	}
	a.channels = taps->dims[0];
	a.k = taps->dims[1];
	if (a.k < 2 || a.k > MAX_TAPS) return q_fail(f, "%lld taps, want 2 to %d", (long long)a.k, MAX_TAPS);
	if (a.s.numbers != (a.k - 1) * a.channels) return q_fail(f, "a state of %lld numbers, want %lld", (long long)a.s.numbers, (long long)((a.k - 1) * a.channels));
	a.blocks = (a.channels + CHANNELS - 1) / CHANNELS;
	q_parallel(f, a.s.sequences * a.blocks, conv_block, &a);
	return NULL;
}
