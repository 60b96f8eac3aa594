// The rows of quire_rms_norm and quire_rope. Included by norm_plain.c, norm_avx2.c and norm_avx512.c, which define
// Q_NORM_ROWS and Q_ROPE_ROWS.
#include "norm.h"
#include "v16_types.h"

#include <math.h>

// normalize writes x / sqrt(mean(x^2) + eps) times weight to y, which may be x. The quotient is rounded to the weight's
// element type first.
static inline __attribute__((always_inline)) void normalize(
	const void *x, const void *weight, void *y, int dtype, int of, int64_t width, float eps) {
	v16 a = v16_set(0), b = a;
	int64_t i = 0, whole = width & ~15;
	for (; i + 32 <= whole; i += 32) {
		v16 p = load(x, dtype, i), q = load(x, dtype, i + 16);
		a = v16_fma(p, p, a);
		b = v16_fma(q, q, b);
	}
	if (i < whole) {
		v16 p = load(x, dtype, i);
		a = v16_fma(p, p, a);
	}
	if (whole < width) {
		v16 p = load_part(x, dtype, whole, width - whole);
		b = v16_fma(p, p, b);
	}
	v16 scale = v16_set(1 / sqrtf(v16_sum(v16_add(a, b)) / width + eps));
	for (i = 0; i < whole; i += 16) {
		store(y, dtype, i, v16_mul(rounded(v16_mul(load(x, dtype, i), scale), of), load(weight, of, i)));
	}
	if (whole < width) {
		v16 p = rounded(v16_mul(load_part(x, dtype, whole, width - whole), scale), of);
		store_part(y, dtype, whole, width - whole, v16_mul(p, load_part(weight, of, whole, width - whole)));
	}
}

static inline __attribute__((always_inline)) void norm_rows(
	const q_norm_args *a, int64_t from, int64_t to, int dtype, int of) {
	size_t bytes = a->width * size_of(dtype);
	for (int64_t i = from * a->groups; i < to * a->groups; i++) {
		normalize((const char *)a->x + i * bytes, a->weight, (char *)a->y + i * bytes, dtype, of, a->width, a->eps);
	}
}

// center writes (x - mean(x)) / sqrt(var(x) + eps) * weight + bias to y; everything except x and y is float32.
static inline __attribute__((always_inline)) void center(
	const void *x, const float *weight, const float *bias, void *y, int dtype, int64_t width, float eps) {
	v16 sum = v16_set(0);
	for (int64_t i = 0; i < width; i += 16) sum = v16_add(sum, part(x, dtype, i, width));
	float mean = v16_sum(sum) / width;
	sum = v16_set(0);
	for (int64_t i = 0; i < width; i += 16) {
		v16 d = v16_sub(part(x, dtype, i, width), v16_set(mean));
		if (i + 16 > width) { // zeros beyond the row
			float rest[16];
			v16_store(rest, d);
			d = load_part(rest, Q_F32, 0, width - i);
		}
		sum = v16_fma(d, d, sum);
	}
	v16 scale = v16_set(1 / sqrtf(v16_sum(sum) / width + eps));
	for (int64_t i = 0; i < width; i += 16) {
		v16 d = v16_mul(v16_sub(part(x, dtype, i, width), v16_set(mean)), scale);
		d = v16_fma(d, part(weight, Q_F32, i, width), part(bias, Q_F32, i, width));
		if (i + 16 <= width) store(y, dtype, i, d);
		else store_part(y, dtype, i, width - i, d);
	}
}

static inline __attribute__((always_inline)) void center_rows(
	const q_norm_args *a, int64_t from, int64_t to, int dtype) {
	size_t bytes = a->width * size_of(dtype);
	for (int64_t i = from * a->groups; i < to * a->groups; i++) {
		center((const char *)a->x + i * bytes, a->weight, a->bias, (char *)a->y + i * bytes, dtype, a->width, a->eps);
	}
}

void Q_NORM_ROWS(void *args, int64_t i) {
	const q_norm_args *a = args;
	int64_t from = i * a->step, to = from + a->step < a->rows ? from + a->step : a->rows;
	if (a->bias) {
		if (a->dtype == Q_F32) center_rows(a, from, to, Q_F32);
		else if (a->dtype == Q_BF16) center_rows(a, from, to, Q_BF16);
		else center_rows(a, from, to, Q_F16);
		return;
	}
	const int wide = a->weight_dtype == Q_F32;
	if (a->dtype == Q_F32) norm_rows(a, from, to, Q_F32, Q_F32);
	else if (a->dtype == Q_BF16 && wide) norm_rows(a, from, to, Q_BF16, Q_F32);
	else if (a->dtype == Q_BF16) norm_rows(a, from, to, Q_BF16, Q_BF16);
	else if (wide) norm_rows(a, from, to, Q_F16, Q_F32);
	else norm_rows(a, from, to, Q_F16, Q_F16);
}

// rotate rotates the pairs (x[i], x[i + half]) by the angles of cos and sin.
static inline __attribute__((always_inline)) void rotate(
	const void *x, const float *cos, const float *sin, void *y, int dtype, int64_t half) {
	for (int64_t i = 0; i < half; i += 16) {
		int64_t n = half - i < 16 ? half - i : 16;
		v16 c, s, p, q;
		if (n == 16) c = v16_load(cos + i), s = v16_load(sin + i), p = load(x, dtype, i), q = load(x, dtype, half + i);
		else
			c = load_part(cos, Q_F32, i, n), s = load_part(sin, Q_F32, i, n), p = load_part(x, dtype, i, n),
			q = load_part(x, dtype, half + i, n);
		v16 u = v16_sub(v16_mul(p, c), v16_mul(q, s)), v = v16_add(v16_mul(q, c), v16_mul(p, s));
		if (n == 16) store(y, dtype, i, u), store(y, dtype, half + i, v);
		else store_part(y, dtype, i, n, u), store_part(y, dtype, half + i, n, v);
	}
}

// turn computes the heads of a row from x.
static inline __attribute__((always_inline)) void turn(
	const q_rope_args *a, int64_t row, const char *x, const void *weight, char *y, int64_t heads, int dtype, int of) {
	size_t bytes = a->dim * size_of(dtype), turned = 2 * a->half * size_of(dtype);
	for (; heads--; x += bytes, y += bytes) {
		const void *from = x;
		if (weight) normalize(x, weight, y, dtype, of, a->dim, a->eps), from = y;
		else if (turned < bytes) memcpy(y + turned, x + turned, bytes - turned);
		if (a->cos) rotate(from, a->cos + row * a->half, a->sin + row * a->half, y, dtype, a->half);
	}
}

static inline __attribute__((always_inline)) void rope_rows(
	const q_rope_args *a, int64_t from, int64_t to, int dtype, int of) {
	size_t bytes = a->dim * size_of(dtype), q = a->heads * bytes, kv = a->kv_heads * bytes;
	for (int64_t i = from; i < to; i++) {
		const char *x = (const char *)a->qkv + i * (q + 2 * kv);
		turn(a, i, x, a->q_norm, (char *)a->q + i * q, a->heads, dtype, of);
		turn(a, i, x + q, a->k_norm, (char *)a->k + i * kv, a->kv_heads, dtype, of);
		memcpy((char *)a->v + i * kv, x + q + kv, kv);
	}
}

void Q_ROPE_ROWS(void *args, int64_t i) {
	const q_rope_args *a = args;
	int64_t from = i * a->step, to = from + a->step < a->rows ? from + a->step : a->rows;
	const int wide = a->norm_dtype == Q_F32;
	if (a->dtype == Q_F32) rope_rows(a, from, to, Q_F32, Q_F32);
	else if (a->dtype == Q_BF16 && wide) rope_rows(a, from, to, Q_BF16, Q_F32);
	else if (a->dtype == Q_BF16) rope_rows(a, from, to, Q_BF16, Q_BF16);
	else if (wide) rope_rows(a, from, to, Q_F16, Q_F32);
	else rope_rows(a, from, to, Q_F16, Q_F16);
}
