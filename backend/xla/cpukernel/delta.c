// Gated delta nets. A task goes through the tokens of one sequence, for one key head and the value heads that it is
// for. All numbers are added up one after the other, so the bits are the same with any instruction set.
#include "recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "scalar.h"

enum { MAX_DIM = 512 };

typedef struct {
	q_sequences s;
	const void *in, *taps;
	const float *decay, *bias, *norm;
	void *y;
	int dtype;
	int64_t key_heads, group, key_dim, value_dim, k; // group: value heads of a key head
	int64_t channels, values, width;                 // of the convolution, of all value heads, of a token
	float eps;
} delta_args;

// part is a range of channels or of numbers of a state.
typedef struct {
	int64_t from, n;
} part;

// parts_of are the ranges of a state that a task has: channels of queries, keys and values in each row of inputs, and
// matrices.
static int parts_of(const delta_args *a, int64_t head, part *parts, int most) {
	int64_t keys = a->key_heads * a->key_dim, values = a->group * a->value_dim;
	int n = 0;
	for (int64_t i = 0; i < a->k - 1 && n + 4 <= most; i++) {
		parts[n++] = (part){i * a->channels + head * a->key_dim, a->key_dim};
		parts[n++] = (part){i * a->channels + keys + head * a->key_dim, a->key_dim};
		parts[n++] = (part){i * a->channels + 2 * keys + head * values, values};
	}
	parts[n++] = (part){(a->k - 1) * a->channels + head * a->key_dim * values, a->key_dim * values};
	return n;
}

// move puts the task's parts of a state, zeros where there is none, to another place.
static void move(const delta_args *a, int64_t head, float *to, const float *from) {
	part parts[3 * Q_MAX_TAPS + 1];
	if (to == from) return;
	int n = parts_of(a, head, parts, 3 * Q_MAX_TAPS + 1);
	for (int i = 0; i < n; i++) {
		if (from) memcpy(to + parts[i].from, from + parts[i].from, parts[i].n * sizeof(float));
		else memset(to + parts[i].from, 0, parts[i].n * sizeof(float));
	}
}

// convolve makes n channels of token t, and moves the inputs of the state on.
static void convolve(const delta_args *a, float *state, int64_t t, int64_t first, int64_t n, float *to) {
	for (int64_t c = first; c < first + n; c++) {
		float x = q_load(a->in, a->dtype, t * a->width + c), sum = 0;
		for (int64_t i = 0; i < a->k; i++) {
			float *was = state + i * a->channels + c, input = i < a->k - 1 ? *was : x;
			sum += input * q_load(a->taps, a->dtype, c * a->k + i);
			if (i < a->k - 1) *was = i < a->k - 2 ? was[a->channels] : x;
		}
		sum = q_rounded(a->dtype, sum);
		*to++ = q_rounded(a->dtype, sum * q_sigmoid(sum));
	}
}

// unit gives n numbers the length scale.
static void unit(float *x, int64_t n, float scale) {
	float sum = 0;
	for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
	float by = scale / sqrtf(sum + 1e-6f);
	for (int64_t i = 0; i < n; i++) x[i] *= by;
}

// MATRIX is what a token does to the matrix of a head, f32[rows, dim]: it is multiplied by keeps; delta becomes what it
// lacks of v for key k, by learns; that is added; and y is what it reads for q. With wider registers the same is done
// to each number: no instruction multiplies and adds at once.
#define MATRIX(name, with) \
	with static void name(float *matrix, int64_t rows, int64_t dim, float keeps, float learns, \
		const float *restrict q, const float *restrict k, const float *restrict v, float *restrict delta, \
		float *restrict y) { \
		for (int64_t i = 0; i < rows; i++) { \
			float *restrict row = matrix + i * dim; \
			for (int64_t j = 0; j < dim; j++) { \
				row[j] *= keeps; \
				delta[j] += row[j] * k[i]; \
			} \
		} \
		for (int64_t j = 0; j < dim; j++) delta[j] = (v[j] - delta[j]) * learns; \
		for (int64_t i = 0; i < rows; i++) { \
			float *restrict row = matrix + i * dim; \
			for (int64_t j = 0; j < dim; j++) { \
				row[j] += k[i] * delta[j]; \
				y[j] += row[j] * q[i]; \
			} \
		} \
	}
MATRIX(matrix_plain, )
#if defined(Q_X86)
MATRIX(matrix_avx2, __attribute__((target("avx2"))))
#else
#define matrix_avx2 matrix_plain
#endif

// value_head is what comes of a token in one value head: matrix is f32[key_dim, value_dim].
static void value_head(
	const delta_args *a, float *matrix, int64_t t, int64_t head, const float *q, const float *k, const float *v) {
	int64_t heads = a->key_heads * a->group, dim = a->value_dim, own = t * a->width + a->channels;
	float learns = q_rounded(a->dtype, q_sigmoid(q_load(a->in, a->dtype, own + a->values + head)));
	float step = q_load(a->in, a->dtype, own + a->values + heads + head) + a->bias[head];
	float softplus = (step > 0 ? step : 0) + q_log1p(q_exp(-fabsf(step)));
	float keeps = q_exp(-(q_exp(a->decay[head]) * softplus)), delta[MAX_DIM] = {0}, y[MAX_DIM] = {0};
	(q_level() >= Q_AVX2 ? matrix_avx2 : matrix_plain)(matrix, a->key_dim, dim, keeps, learns, q, k, v, delta, y);
	float sum = 0;
	for (int64_t j = 0; j < dim; j++) {
		y[j] = q_rounded(a->dtype, y[j]);
		sum += y[j] * y[j];
	}
	float by = 1 / sqrtf(sum / dim + a->eps);
	for (int64_t j = 0; j < dim; j++) {
		float gate = q_load(a->in, a->dtype, own + head * dim + j);
		float x = q_rounded(a->dtype, q_rounded(a->dtype, y[j] * by) * a->norm[j]);
		q_store(a->y, a->dtype, t * a->values + head * dim + j, x * (gate * q_sigmoid(gate)));
	}
}

static void delta_task(void *args, int64_t task) {
	const delta_args *a = args;
	const q_sequences *s = &a->s;
	int64_t seq = task / a->key_heads, head = task % a->key_heads, keys = a->key_heads * a->key_dim, last = -1;
	int64_t end = s->begins[seq + 1] < s->tokens ? s->begins[seq + 1] : s->tokens;
	const float *was = q_page(s, s->from[seq]);
	float *state = NULL, *lost = NULL, q[MAX_DIM], k[MAX_DIM], v[MAX_DIM];
	for (int64_t t = s->begins[seq]; t < end; t++) {
		if (t > last) { // the state goes on in the page that the next tokens are in
			for (last = t; last < end - 1 && !q_page(s, s->to[last]); last++) {}
			float *to = q_page(s, s->to[last]);
			if (!to && !lost && !(lost = malloc(s->numbers * sizeof(float)))) return;
			if (!to) to = lost;
			move(a, head, to, state ? state : was);
			state = to;
		}
		convolve(a, state, t, head * a->key_dim, a->key_dim, q);
		convolve(a, state, t, keys + head * a->key_dim, a->key_dim, k);
		unit(q, a->key_dim, 1 / sqrtf(a->key_dim));
		unit(k, a->key_dim, 1);
		for (int64_t g = 0; g < a->group; g++) {
			int64_t value = head * a->group + g;
			convolve(a, state, t, 2 * keys + value * a->value_dim, a->value_dim, v);
			float *matrix = state + (a->k - 1) * a->channels + value * a->key_dim * a->value_dim;
			value_head(a, matrix, t, value, q, k, v);
		}
	}
	free(lost);
}

q_error *quire_gated_delta(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	int64_t value_heads;
	double eps;
	delta_args a = {0};
	if ((e = q_count(f, 11, 2)) || (e = q_int(f, "key_heads", &a.key_heads)) ||
		(e = q_int(f, "value_heads", &value_heads)) || (e = q_int(f, "key_dim", &a.key_dim)) ||
		(e = q_int(f, "value_dim", &a.value_dim)) || (e = q_float(f, "eps", &eps))) {
		return e;
	}
	if (a.key_heads < 1 || value_heads % a.key_heads || a.key_dim < 1 || a.key_dim > MAX_DIM || a.value_dim < 1 ||
		a.value_dim > MAX_DIM)
		return q_fail(f, "%lld key heads of %lld and %lld value heads of %lld", (long long)a.key_heads,
			(long long)a.key_dim, (long long)value_heads, (long long)a.value_dim);
	a.group = value_heads / a.key_heads;
	a.values = value_heads * a.value_dim;
	a.channels = 2 * a.key_heads * a.key_dim + a.values;
	a.width = a.channels + a.values + 2 * value_heads;
	const q_array *in = q_arg(f, 0), *taps = q_arg(f, 1), *y = q_result(f, 0);
	a.dtype = in->dtype;
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16)
		return q_fail(f, "in has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, in, "in", a.dtype, -1, a.width)) || (e = q_shape(f, taps, "taps", a.dtype, a.channels, -1)) ||
		(e = q_shape(f, q_arg(f, 2), "decay", Q_F32, value_heads)) ||
		(e = q_shape(f, q_arg(f, 3), "bias", Q_F32, value_heads)) ||
		(e = q_shape(f, q_arg(f, 4), "norm", Q_F32, a.value_dim)) ||
		(e = q_shape(f, y, "y", a.dtype, in->dims[0], a.values)) || (e = q_sequences_of(f, 5, 1, in->dims[0], &a.s))) {
		return e;
	}
	a.k = taps->dims[1];
	if (a.k < 2 || a.k > Q_MAX_TAPS) return q_fail(f, "%lld taps, want 2 to %d", (long long)a.k, Q_MAX_TAPS);
	int64_t numbers = (a.k - 1) * a.channels + value_heads * a.key_dim * a.value_dim;
	if (a.s.numbers != numbers)
		return q_fail(f, "a state of %lld numbers, want %lld", (long long)a.s.numbers, (long long)numbers);
	a.in = in->data;
	a.taps = taps->data;
	a.decay = q_arg(f, 2)->data;
	a.bias = q_arg(f, 3)->data;
	a.norm = q_arg(f, 4)->data;
	a.y = y->data;
	a.eps = eps;
	q_parallel(f, a.s.sequences * a.key_heads, delta_task, &a);
	return NULL;
}

typedef struct {
	const void *x, *gate;
	void *y;
	int dtype;
	int64_t width;
} gate_args;

static void gate_row(void *args, int64_t row) {
	const gate_args *a = args;
	for (int64_t i = row * a->width; i < (row + 1) * a->width; i++)
		q_store(a->y, a->dtype, i,
			q_load(a->x, a->dtype, i) * q_rounded(a->dtype, q_sigmoid(q_load(a->gate, a->dtype, i))));
}

q_error *quire_gate(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 3, 1))) return e;
	const q_array *x = q_arg(f, 0), *gate = q_arg(f, 1), *rows = q_arg(f, 2), *y = q_result(f, 0);
	gate_args a = {.x = x->data, .gate = gate->data, .y = y->data, .dtype = x->dtype};
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16)
		return q_fail(f, "x has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, x, "x", a.dtype, -1, -1)) || (e = q_shape(f, gate, "gate", a.dtype, x->dims[0], x->dims[1])) ||
		(e = q_shape(f, y, "y", a.dtype, x->dims[0], x->dims[1])) ||
		(e = q_check_shape(f, rows, "rows", Q_S32, 0, NULL))) {
		return e;
	}
	a.width = x->dims[1];
	int64_t n = *(const int32_t *)rows->data;
	q_parallel(f, n < 0 ? 0 : n > x->dims[0] ? x->dims[0] : n, gate_row, &a);
	return NULL;
}
