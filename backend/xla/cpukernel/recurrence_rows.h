// The tasks of short convolutions and of gates. Included with delta_rows.h and mamba_rows.h by recurrence_plain.c,
// recurrence_avx2.c and recurrence_avx512.c.
#include "recurrence_task.h"
#include "scalar.h"
#include "v16_types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

// TASK defines the task `name` from name_of, which takes the element type as a constant.
#define TASK(name, args, type) \
	static void name(void *of, int64_t task) { \
		const args *a = of; \
		if (a->type == Q_F32) name##_of(a, task, Q_F32); \
		else if (a->type == Q_BF16) name##_of(a, task, Q_BF16); \
		else name##_of(a, task, Q_F16); \
	}

ALWAYS v16 times_add(v16 a, v16 b, v16 c) { return v16_add(v16_mul(a, b), c); }

// exp_of is the exponential function for x <= 0 by Cephes' polynomial for expf, within 2 units in the last place;
// numbers below -87 count as -87, and a NaN stays NaN.
ALWAYS v16 exp_of(v16 x) {
	x = v16_max(v16_set(V16_LOWEST), x);
	v16 shifted = times_add(x, v16_set(1.44269504088896341f), v16_set(V16_MAGIC));
	v16 n = v16_sub(shifted, v16_set(V16_MAGIC));
	x = v16_sub(x, v16_mul(n, v16_set(0.693359375f))); // exact: both factors are short
	x = v16_sub(x, v16_mul(n, v16_set(-2.12194440e-4f)));
	v16 y = times_add(v16_set(1.9875691500e-4f), x, v16_set(1.3981999507e-3f));
	y = times_add(y, x, v16_set(8.3334519073e-3f));
	y = times_add(y, x, v16_set(4.1665795894e-2f));
	y = times_add(y, x, v16_set(1.6666665459e-1f));
	y = times_add(y, x, v16_set(5.0000001201e-1f));
	y = v16_add(times_add(v16_mul(y, x), x, x), v16_set(1));
	return v16_mul(y, v16_shift23(shifted));
}

// negative_size is -|x|.
ALWAYS v16 negative_size(v16 x) {
	v16 minus = v16_sub(v16_set(0), x);
	return v16_sub(v16_set(0), v16_max(x, minus));
}

ALWAYS v16 sigmoid(v16 x) {
	v16 one = v16_set(1), e = exp_of(negative_size(x));
	return v16_div(v16_only(v16_ge(x, v16_set(0)), one, e), v16_add(one, e));
}

// silu is x * sigmoid(x).
ALWAYS v16 silu(v16 x) {
	v16 one = v16_set(1), e = exp_of(negative_size(x)), positive = v16_keep(x, v16_set(0));
	return v16_div(times_add(v16_sub(x, positive), e, positive), v16_add(one, e));
}

// spread copies the taps of n channels, starting with `first`, into rows of `width` numbers, one row per tap,
// followed by zeros up to a multiple of sixteen.
ALWAYS void spread(float *to, int64_t width, const void *taps, const int dtype, int64_t first, int64_t n, int64_t k) {
	for (int64_t c = 0; c < n; c++) {
		for (int64_t i = 0; i < k; i++) to[i * width + c] = q_load(taps, dtype, (first + c) * k + i);
	}
	for (int64_t i = 0; n % 16 && i < k; i++) memset(to + i * width + n, 0, (16 - n % 16) * sizeof(float));
}

ALWAYS void conv_of(const q_conv *a, int64_t task, const int dtype) {
	const q_sequences *s = &a->s;
	int64_t seq = task / a->blocks, c0 = task % a->blocks * Q_CHANNELS, past = a->k - 1;
	int64_t n = a->channels - c0 < Q_CHANNELS ? a->channels - c0 : Q_CHANNELS;
	float window[Q_MAX_TAPS][Q_CHANNELS], taps[Q_MAX_TAPS][Q_CHANNELS]; // row i % k of the window has the i-th input
	const float *from = q_page(s, s->from[seq]);
	for (int64_t i = 0; i < past; i++) {
		memset(window[i] + n / 16 * 16, 0, n % 16 ? 16 * sizeof(float) : 0);
		if (from) memcpy(window[i], from + i * a->channels + c0, n * sizeof(float));
		else memset(window[i], 0, n * sizeof(float));
	}
	spread(taps[0], Q_CHANNELS, a->taps, dtype, c0, n, a->k);
	int64_t first = 0; // the row of the oldest input
	for (int64_t t = s->begins[seq]; t < s->begins[seq + 1] && t < s->tokens; t++) {
		int64_t row = t * a->width + a->first + c0, out = t * a->channels + c0;
		float *own = window[(first + past) % a->k];
		const float *inputs[Q_MAX_TAPS];
		for (int64_t i = 0; i < a->k; i++) inputs[i] = window[(first + i) % a->k];
		for (int64_t c = 0; c < n; c += 16) {
			v16 x = part(a->in, dtype, row + c, row + n), sum = v16_set(0);
			int64_t behind = row + a->channels, before = behind + a->channels; // positions of the gates
			if (!a->bias) x = rounded(v16_mul(x, part(a->in, dtype, before + c, before + n)), dtype);
			v16_store(own + c, x);
			for (int64_t i = 0; i < a->k; i++) sum = times_add(v16_load(inputs[i] + c), v16_load(taps[i] + c), sum);
			if (a->bias) {
				sum = rounded(v16_add(sum, part(a->bias, Q_F32, c0 + c, c0 + n)), dtype);
				put(a->y, dtype, out + c, out + n, silu(sum));
			} else {
				v16 gate = part(a->in, dtype, behind + c, behind + n);
				put(a->y, dtype, out + c, out + n, v16_mul(gate, rounded(sum, dtype)));
			}
		}
		first = (first + 1) % a->k;
		float *to = q_page(s, s->to[t]);
		for (int64_t i = 0; to && i < past; i++)
			memcpy(to + i * a->channels + c0, window[(first + i) % a->k], n * sizeof(float));
	}
}
TASK(conv, q_conv, dtype)

ALWAYS void gate_of(const q_gate *a, int64_t row, const int dtype) {
	int64_t end = (row + 1) * a->width;
	for (int64_t i = row * a->width; i < end; i += 16) {
		v16 gate = rounded(sigmoid(part(a->gate, dtype, i, end)), dtype);
		put(a->y, dtype, i, end, v16_mul(part(a->x, dtype, i, end), gate));
	}
}
TASK(gate, q_gate, dtype)

// gated is x times silu(gate), for 16 numbers of a row starting with i, or fewer before end.
ALWAYS v16 gated(const q_gated_norm *a, int64_t row, int64_t i, int64_t end, const int dtype) {
	v16 gate = part(a->gate, dtype, row * a->gates + i, row * a->gates + end);
	return v16_mul(part(a->x, dtype, row * a->width + i, row * a->width + end), silu(gate));
}

ALWAYS void gated_norm_of(const q_gated_norm *a, int64_t task, const int dtype) {
	int64_t size = a->width / a->groups, rows = (task + 1) * a->step < a->rows ? (task + 1) * a->step : a->rows;
	for (int64_t row = task * a->step; row < rows; row++) {
		for (int64_t from = 0, end = size, out = row * a->width; from < a->width; from = end, end += size) {
			v16 sum = v16_set(0);
			for (int64_t i = from; i < end; i += 16) {
				v16 u = gated(a, row, i, end, dtype);
				sum = times_add(u, u, sum);
			}
			v16 by = v16_set(1 / sqrtf(v16_sum(sum) / size + a->eps));
			for (int64_t i = from; i < end; i += 16) {
				v16 u = v16_mul(gated(a, row, i, end, dtype), by);
				put(a->y, dtype, out + i, out + end, v16_mul(u, part(a->weight, Q_F32, i, end)));
			}
		}
	}
}
TASK(gated_norm, q_gated_norm, dtype)
