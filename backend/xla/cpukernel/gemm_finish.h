// What follows the products of a linear layer: from sums to results. The file that includes this defines PANEL, the
// columns of a panel; Q_WIDE, the same in v16; and SUMS, the distance in floats between the sums of panels, which are
// [rows][PANEL].
#include <math.h>

#include "gemm.h"
#include "v16.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(variable, n) _Pragma("GCC unroll 32") for (int variable = 0; variable < (n); variable++)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// load16 reads n <= 16 numbers of a dtype as float32; the rest is zero.
ALWAYS v16 load16(const void *p, int64_t at, int dtype, int64_t n) {
	const char *from = (const char *)p + at * (dtype == Q_F32 ? 4 : 2);
	union {
		float f[16];
		uint16_t h[16];
	} part;
	if (n < 16) {
		memset(&part, 0, sizeof part);
		from = memcpy(&part, from, n * (dtype == Q_F32 ? 4 : 2));
	}
	if (dtype == Q_F32) return v16_load((const float *)from);
	return dtype == Q_BF16 ? v16_load_bf16((const uint16_t *)from) : v16_load_f16((const uint16_t *)from);
}

ALWAYS void store16(void *p, int64_t at, int dtype, int64_t n, v16 x) {
	char *to = (char *)p + at * (dtype == Q_F32 ? 4 : 2);
	union {
		float f[16];
		uint16_t h[16];
	} part;
	void *whole = n < 16 ? (void *)&part : to;
	if (dtype == Q_F32) v16_store(whole, x);
	else if (dtype == Q_BF16) v16_store_bf16(whole, x);
	else v16_store_f16(whole, x);
	if (n < 16) memcpy(to, &part, n * (dtype == Q_F32 ? 4 : 2));
}

// largest_of returns the largest magnitude of n numbers, NaN if one is not finite.
static inline float largest_of(const void *x, int dtype, int64_t n) {
	if (dtype == Q_BF16) { // bits of bf16 are ordered like their magnitudes
		const uint16_t *bits = x;
		uint16_t most = 0;
		for (int64_t i = 0; i < n; i++) {
			const uint16_t size = bits[i] & 0x7fff;
			most = size > most ? size : most;
		}
		return most < 0x7f80 ? q_from_bf16(most) : NAN;
	}
	v16 largest = v16_set(0), wrong = v16_set(0);
	for (int64_t i = 0; i < n; i += 16) {
		v16 some = load16(x, i, dtype, least(16, n - i));
		largest = v16_max(largest, v16_max(some, v16_sub(v16_set(0), some)));
		wrong = v16_add(wrong, v16_sub(some, some));
	}
	return v16_largest(largest) + v16_sum(wrong);
}

// row_scale returns the scale of a row of activations rounded to 8 bits: x = q * scale, and the row's largest
// magnitude is 127. A row with a NaN or infinity gets such a scale, and so do its results.
static inline float row_scale(const q_linear *l, int64_t row, float *inverse) {
	const float most = largest_of((const char *)l->x + row * l->in * q_size(l->dtype), l->dtype, l->in);
	*inverse = most > 0 ? 127 / most : 0;
	return most * (1.0f / 127);
}

// round16 rounds 16 numbers of a row to 8 bits, starting with i and ending before n; the rest is zero.
ALWAYS void round16(const q_linear *l, int64_t row, int64_t i, int64_t n, float inverse, int8_t q[16]) {
	const v16 magic = v16_set(0x1.8p23f); // adding and subtracting it rounds to the nearest integer
	v16 x = v16_mul(load16(l->x, row * l->in + i, l->dtype, n < 0 ? 0 : n), v16_set(inverse));
	v16_store_s8(q, v16_sub(v16_add(x, magic), magic));
}

// sums_of reads sixteen sums. If there is a row's scale, they are int32 and are multiplied by it.
ALWAYS v16 sums_of(const float *sums, const float *scale) {
	return scale ? v16_mul(v16i_float(v16i_load(sums)), v16_set(*scale)) : v16_load(sums);
}

// silu is x / (1 + exp(-x)), from the exponential of -|x|.
ALWAYS v16 silu(v16 x) {
	const v16 zero = v16_set(0), one = v16_set(1);
	v16 positive = v16_keep(x, zero), negative = v16_sub(x, positive);
	v16 e = v16_exp(v16_sub(negative, positive));
	return v16_div(v16_fma(negative, e, positive), v16_add(one, e));
}

// gelu_tanh is x / (1 + exp(-s)) with s = sqrt(8 / pi) * (x + 0.044715 x^3), which is x * (1 + tanh(s / 2)) / 2: s has
// the sign of x.
static inline v16 gelu_tanh(v16 x) {
	const v16 zero = v16_set(0), one = v16_set(1);
	v16 positive = v16_keep(x, zero), negative = v16_sub(x, positive), size = v16_sub(positive, negative);
	v16 s = v16_mul(size, v16_fma(v16_mul(size, size), v16_set(0x1.2444f2p-4f), v16_set(0x1.988454p0f)));
	v16 e = v16_exp(v16_sub(zero, s));
	return v16_div(v16_fma(negative, e, positive), v16_add(one, e));
}

// gelu is x * (1 + erf(x / sqrt(2))) / 2. With z = |x| / sqrt(2) and t = 1 / (1 + z / 2), erfc(z) is t * exp(-z^2 +
// p(t)) with a relative error of 1.2e-7: a fit by Chebyshev's polynomials, from Numerical Recipes.
static inline v16 gelu(v16 x) {
	static const float p[] = {
		1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
	const v16 zero = v16_set(0), half = v16_set(0.5f);
	v16 positive = v16_keep(x, zero), negative = v16_sub(x, positive), size = v16_sub(positive, negative);
	v16 z = v16_mul(size, v16_set(0x1.6a09e6p-1f)), t = v16_div(v16_set(1), v16_fma(z, half, v16_set(1)));
	v16 sum = v16_fma(v16_set(0.17087277f), t, v16_set(-0.82215223f));
	for (int i = 0; i < 8; i++) sum = v16_fma(sum, t, v16_set(p[i]));
	v16 tail = v16_mul(v16_mul(t, half), v16_exp(v16_fnma(z, z, sum))); // the remaining part of the other sign's half
	return v16_fma(negative, tail, v16_fnma(positive, tail, positive));
}

// clamped_swiglu is g / (1 + exp(-1.702 g)) * (u + 1); g is the gate, at most 7, and u the up, within -7 and 7. A NaN
// stays NaN.
static inline v16 clamped_swiglu(v16 gate, v16 up) {
	const v16 zero = v16_set(0), one = v16_set(1), least = v16_set(-7);
	gate = v16_sub(zero, v16_max(least, v16_sub(zero, gate)));
	up = v16_max(least, v16_sub(zero, v16_max(least, v16_sub(zero, up))));
	v16 positive = v16_keep(gate, zero), negative = v16_sub(gate, positive);
	v16 e = v16_exp(v16_mul(v16_sub(negative, positive), v16_set(1.702f)));
	return v16_mul(v16_div(v16_fma(negative, e, positive), v16_add(one, e)), v16_add(up, one));
}

ALWAYS v16 activate(v16 x, int activation) {
	switch (activation) {
	case Q_SILU: return silu(x);
	case Q_GELU_TANH: return gelu_tanh(x);
	case Q_GELU: return gelu(x);
	case Q_RELU_SQUARED: x = v16_max(v16_set(0), x); return v16_mul(x, x);
	}
	return x;
}

enum { ADAPTED = 4 }; // rows whose adapters are applied together

// addends_of computes what adapters add to 16 columns of some rows, at most ADAPTED; n of the columns exist. Each is a
// sum over even ranks plus a sum over odd ones, whatever the other rows are. Those of a row without an adapter are
// undefined.
ALWAYS void addends_of(
	const q_adapted *a, int64_t row, int64_t rows, int64_t column, int dtype, int64_t n, v16 *out) {
	column += a->first;
	const int64_t last = column + n - 1, begin = ((column >= a->cuts[0]) + (column >= a->cuts[1])) * a->share,
				  end = ((last >= a->cuts[0]) + (last >= a->cuts[1]) + 1) * a->share;
	const float *inner = a->inner + row * a->ranks;
	const char *const *matrices = a->matrices + row;
	int same = rows == ADAPTED && matrices[0] != NULL;
	for (int64_t r = 1; r < rows; r++) same &= matrices[r] == matrices[0];
	if (same) {
		v16 even[ADAPTED], odd[ADAPTED];
		EACH(r, ADAPTED) even[r] = odd[r] = v16_set(0);
		for (int64_t k = begin; k < end; k += 2) {
			const v16 b0 = load16(matrices[0], k * a->out + column, dtype, n),
					  b1 = load16(matrices[0], (k + 1) * a->out + column, dtype, n);
			EACH(r, ADAPTED) {
				even[r] = v16_fma(v16_set(inner[r * a->ranks + k]), b0, even[r]);
				odd[r] = v16_fma(v16_set(inner[r * a->ranks + k + 1]), b1, odd[r]);
			}
		}
		EACH(r, ADAPTED) out[r] = v16_add(even[r], odd[r]);
		return;
	}
	for (int64_t r = 0; r < rows; r++) {
		if (!matrices[r]) continue;
		v16 even = v16_set(0), odd = v16_set(0);
		for (int64_t k = begin; k < end; k += 2) {
			even = v16_fma(v16_set(inner[r * a->ranks + k]), load16(matrices[r], k * a->out + column, dtype, n), even);
			odd = v16_fma(
				v16_set(inner[r * a->ranks + k + 1]), load16(matrices[r], (k + 1) * a->out + column, dtype, n), odd);
		}
		out[r] = v16_add(even, odd);
	}
}

// finish computes results from the sums of a block of rows: 16 columns of the panels, at offset at of a row's sums,
// become the results from column on. dtype and result_dtype are the layer's; n of the columns exist. whole, if not
// NULL, has the scales of the rows, whose sums are int32. adapted reports whether rows may have adapters.
ALWAYS void finish(const q_linear_job *j, const float *sums, const float *whole, int64_t row, int64_t rows,
	int64_t column, int64_t columns, int gate_up, int activation, int dtype, int result_dtype, int64_t n, int adapted) {
	const q_linear *l = j->l;
	const int64_t up = Q_WIDE > 1 ? 16 : SUMS; // offset of the sums of the up projection
	v16 bias[2] = {v16_set(0), v16_set(0)}, scales[2] = {v16_set(1), v16_set(1)};
	const int scaled = l->scales != NULL, biased = l->bias != NULL, added = l->residual != NULL;
	if (biased) {
		bias[0] = load16(l->bias, column, dtype, n);
		if (gate_up) bias[1] = load16(l->bias, columns + column, dtype, n);
	}
	if (scaled) {
		scales[0] = load16(l->scales, column, Q_F32, n);
		if (gate_up) scales[1] = load16(l->scales, columns + column, Q_F32, n);
	}
	v16 addends[2][ADAPTED];
	int64_t at = row * columns + column;
	for (int64_t i = 0; i < rows; i++, at += columns, sums += PANEL) {
		if (adapted && l->adapted && i % ADAPTED == 0) {
			const int64_t some = least(ADAPTED, rows - i);
			addends_of(l->adapted, row + i, some, column, dtype, n, addends[0]);
			if (gate_up) addends_of(l->adapted, row + i, some, columns + column, dtype, n, addends[1]);
		}
		const int adds = adapted && l->adapted && l->adapted->matrices[row + i];
		v16 y = sums_of(sums, whole);
		if (scaled) y = v16_mul(y, scales[0]);
		if (adds) y = v16_add(y, addends[0][i % ADAPTED]);
		if (biased) y = v16_add(y, bias[0]);
		if (gate_up) {
			v16 u = sums_of(sums + up, whole);
			if (scaled) u = v16_mul(u, scales[1]);
			if (adds) u = v16_add(u, addends[1][i % ADAPTED]);
			if (biased) u = v16_add(u, bias[1]);
			y = activation == Q_CLAMPED_SWIGLU ? clamped_swiglu(y, u) : v16_mul(activate(y, activation), u);
		} else {
			y = activate(y, activation);
		}
		if (added) y = v16_add(y, load16(l->residual, at, dtype, n));
		store16(l->y, at, result_dtype, n, y);
		if (whole) whole++;
	}
}

// finish_any is finish for the options that few layers have.
static __attribute__((noinline)) void finish_any(
	const q_linear_job *j, const float *sums, const float *whole, int64_t row, int64_t rows, int64_t column,
	int64_t columns) {
	const q_linear *l = j->l;
	finish(j, sums, whole, row, rows, column, columns, l->gate_up, l->activation, l->dtype, l->result_dtype,
		least(16, columns - column), 1);
}

// The code for the options that most layers have.
#define FINISH(name, gate_up, activation, dtype, result_dtype, adapted) \
	static __attribute__((noinline)) void name(const q_linear_job *j, const float *sums, const float *whole, \
		int64_t row, int64_t rows, int64_t column, int64_t columns) { \
		finish(j, sums, whole, row, rows, column, columns, gate_up, activation, dtype, result_dtype, 16, adapted); \
	}
FINISH(finish_bf16, 0, Q_NONE, Q_BF16, Q_BF16, 0)
FINISH(finish_bf16_f32, 0, Q_NONE, Q_BF16, Q_F32, 0)
FINISH(finish_bf16_silu, 1, Q_SILU, Q_BF16, Q_BF16, 0)
FINISH(finish_f32, 0, Q_NONE, Q_F32, Q_F32, 0)
FINISH(finish_f32_silu, 1, Q_SILU, Q_F32, Q_F32, 0)
FINISH(finish_adapted_bf16, 0, Q_NONE, Q_BF16, Q_BF16, 1)
FINISH(finish_adapted_bf16_silu, 1, Q_SILU, Q_BF16, Q_BF16, 1)

typedef void (*finish_code)(const q_linear_job *, const float *, const float *, int64_t, int64_t, int64_t, int64_t);

static finish_code finish_of(const q_linear *l) {
	const int silu = l->gate_up && l->activation == Q_SILU;
	if (!silu && (l->gate_up || l->activation != Q_NONE)) return finish_any;
	if (l->adapted) {
		if (l->dtype != Q_BF16 || l->result_dtype != Q_BF16) return finish_any;
		return silu ? finish_adapted_bf16_silu : finish_adapted_bf16;
	}
	if (l->dtype == Q_F32) return silu ? finish_f32_silu : finish_f32;
	if (l->dtype != Q_BF16) return finish_any;
	if (l->result_dtype == Q_F32) return silu ? finish_any : finish_bf16_f32;
	return silu ? finish_bf16_silu : finish_bf16;
}

// finish_panels computes the results of n panels for some rows, starting with the given ones. whole is as in finish.
static void finish_panels(const q_linear_job *j, const float *sums, const float *whole, int64_t row, int64_t rows,
	int64_t from, int64_t n) {
	const q_linear *l = j->l;
	const int64_t columns = l->gate_up ? l->out / 2 : l->out;
	const finish_code code = finish_of(l);
	for (int64_t c = 0; c < n * PANEL; c += l->gate_up ? 2 * Q_TURN : Q_TURN) {
		const float *s = sums + c / PANEL * SUMS + c % PANEL;
		int64_t column = from * PANEL + c;
		if (l->gate_up) column /= 2;
		if (column >= columns) break;
		(columns - column < 16 ? finish_any : code)(j, s, whole, row, rows, column, columns);
	}
}
