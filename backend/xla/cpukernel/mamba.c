// Mamba-2. All channels are convolved first; then a task goes through the tokens of one sequence, for one head. The
// bits are the same with any instruction set: each number is added up in one order, and no instruction multiplies and
// adds at once.
#include "recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "scalar.h"

enum { MAX_DIM = 1024, LANES = 8, WIDE = 4 * LANES };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

// STEP is what a token does to the matrix of a head, f32[n, dim]: it is multiplied by keeps, x is added to each of its
// rows times what the group writes, and y is the sum of the rows times what it reads.
#define STEP(name, with) \
	with static void name(float *matrix, int64_t n, int64_t dim, float keeps, const float *x, const float *writes, \
		const float *reads, float *y) { \
		int64_t j = 0; \
		for (; j + WIDE <= dim; j += WIDE) { \
			lanes sum[4], add[4]; \
			for (int l = 0; l < 4; l++) { \
				sum[l] = (lanes){0}; \
				add[l] = ((const lanes *)(x + j))[l]; \
			} \
			for (int64_t i = 0; i < n; i++) { \
				lanes *row = (lanes *)(matrix + i * dim + j); \
				for (int l = 0; l < 4; l++) { \
					lanes state = row[l] * keeps + add[l] * writes[i]; \
					row[l] = state; \
					sum[l] += state * reads[i]; \
				} \
			} \
			for (int l = 0; l < 4; l++) ((lanes *)(y + j))[l] = sum[l]; \
		} \
		for (int64_t k = j; k < dim; k++) y[k] = 0; \
		for (int64_t i = 0; j < dim && i < n; i++) { \
			for (int64_t k = j; k < dim; k++) { \
				float state = matrix[i * dim + k] * keeps + x[k] * writes[i]; \
				matrix[i * dim + k] = state; \
				y[k] += state * reads[i]; \
			} \
		} \
	}
STEP(step_plain, )
#if defined(Q_X86)
STEP(step_avx2, __attribute__((target("avx2"))))
#else
#define step_avx2 step_plain
#endif

typedef struct {
	q_conv conv; // its y is what heads and groups take
	const float *decay, *bias, *skip;
	void *y;
	int64_t heads, dim, groups, n;
	float min_step, max_step;
} mamba_args;

static void load(const mamba_args *a, float *to, int64_t from, int64_t n) {
	if (a->conv.dtype == Q_F32) memcpy(to, (const float *)a->conv.y + from, n * sizeof(float));
	else
		for (int64_t i = 0; i < n; i++) to[i] = q_load(a->conv.y, a->conv.dtype, from + i);
}

// head_token is what comes of token t in one head: matrix is f32[n, dim].
static void head_token(const mamba_args *a, float *matrix, int64_t t, int64_t head) {
	int64_t inner = a->heads * a->dim, group = head / (a->heads / a->groups), row = t * a->conv.channels;
	float x[MAX_DIM], adds[MAX_DIM], writes[MAX_DIM], reads[MAX_DIM], y[MAX_DIM];
	load(a, x, row + head * a->dim, a->dim);
	load(a, writes, row + inner + group * a->n, a->n);
	load(a, reads, row + inner + (a->groups + group) * a->n, a->n);
	float in = q_load(a->conv.in, a->conv.dtype, t * a->conv.width + inner + a->conv.channels + head) + a->bias[head];
	float step = (in > 0 ? in : 0) + q_log1p(q_exp(-fabsf(in)));
	if (step < a->min_step) step = a->min_step;
	if (a->max_step > 0 && step > a->max_step) step = a->max_step;
	float keeps = q_exp(-(step * q_exp(a->decay[head])));
	for (int64_t j = 0; j < a->dim; j++) adds[j] = x[j] * step;
	(q_level() >= Q_AVX2 ? step_avx2 : step_plain)(matrix, a->n, a->dim, keeps, adds, writes, reads, y);
	for (int64_t j = 0; j < a->dim; j++)
		q_store(a->y, a->conv.dtype, t * inner + head * a->dim + j, y[j] + x[j] * a->skip[head]);
}

static void head_task(void *args, int64_t task) {
	const mamba_args *a = args;
	const q_sequences *s = &a->conv.s;
	int64_t seq = task / a->heads, head = task % a->heads, size = a->n * a->dim, last = -1;
	int64_t at = (a->conv.k - 1) * a->conv.channels + head * size; // the matrix's place in a state
	int64_t end = s->begins[seq + 1] < s->tokens ? s->begins[seq + 1] : s->tokens;
	const float *was = q_page(s, s->from[seq]);
	float *matrix = NULL, *lost = NULL;
	if (was) was += at;
	for (int64_t t = s->begins[seq]; t < end; t++) {
		if (t > last) { // the state goes on in the page that the next tokens are in
			for (last = t; last < end - 1 && !q_page(s, s->to[last]); last++) {}
			float *to = q_page(s, s->to[last]);
			if (to) to += at;
			else if (!lost && !(lost = malloc(size * sizeof(float)))) return;
			else to = lost;
			const float *from = matrix ? matrix : was;
			if (!from) memset(to, 0, size * sizeof(float));
			else if (from != to) memcpy(to, from, size * sizeof(float));
			matrix = to;
		}
		head_token(a, matrix, t, head);
	}
	free(lost);
}

q_error *quire_mamba2(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	double min_step, max_step;
	mamba_args a = {0};
	if ((e = q_count(f, 12, 3)) || (e = q_int(f, "heads", &a.heads)) || (e = q_int(f, "head_dim", &a.dim)) ||
		(e = q_int(f, "groups", &a.groups)) || (e = q_int(f, "state_dim", &a.n)) ||
		(e = q_float(f, "min_step", &min_step)) || (e = q_float(f, "max_step", &max_step))) {
		return e;
	}
	if (a.heads < 1 || a.groups < 1 || a.heads % a.groups || a.dim < 1 || a.dim > MAX_DIM || a.n < 1 || a.n > MAX_DIM)
		return q_fail(f, "%lld heads of %lld in %lld groups with states of %lld", (long long)a.heads, (long long)a.dim,
			(long long)a.groups, (long long)a.n);
	const q_array *in = q_arg(f, 0), *taps = q_arg(f, 1), *y = q_result(f, 0), *x = q_result(f, 2);
	q_conv *c = &a.conv;
	int64_t inner = a.heads * a.dim;
	c->channels = inner + 2 * a.groups * a.n;
	c->width = inner + c->channels + a.heads;
	c->first = inner;
	c->dtype = in->dtype;
	if (c->dtype != Q_F32 && c->dtype != Q_BF16 && c->dtype != Q_F16)
		return q_fail(f, "in has element type %d, want f32, bf16 or f16", c->dtype);
	if ((e = q_shape(f, in, "in", c->dtype, -1, c->width)) ||
		(e = q_shape(f, taps, "taps", c->dtype, c->channels, -1)) ||
		(e = q_shape(f, q_arg(f, 2), "bias of taps", Q_F32, c->channels)) ||
		(e = q_shape(f, q_arg(f, 3), "decay", Q_F32, a.heads)) ||
		(e = q_shape(f, q_arg(f, 4), "bias of steps", Q_F32, a.heads)) ||
		(e = q_shape(f, q_arg(f, 5), "skip", Q_F32, a.heads)) ||
		(e = q_shape(f, y, "y", c->dtype, in->dims[0], inner)) ||
		(e = q_shape(f, x, "x", c->dtype, in->dims[0], c->channels)) ||
		(e = q_sequences_of(f, 6, 1, in->dims[0], &c->s))) {
		return e;
	}
	c->k = taps->dims[1];
	if (c->k < 2 || c->k > Q_MAX_TAPS) return q_fail(f, "%lld taps, want 2 to %d", (long long)c->k, Q_MAX_TAPS);
	int64_t numbers = (c->k - 1) * c->channels + inner * a.n;
	if (c->s.numbers != numbers)
		return q_fail(f, "a state of %lld numbers, want %lld", (long long)c->s.numbers, (long long)numbers);
	c->in = in->data;
	c->taps = taps->data;
	c->bias = q_arg(f, 2)->data;
	c->y = x->data;
	a.decay = q_arg(f, 3)->data;
	a.bias = q_arg(f, 4)->data;
	a.skip = q_arg(f, 5)->data;
	a.y = y->data;
	a.min_step = min_step;
	a.max_step = max_step;
	q_convolve(f, c);
	q_parallel(f, c->s.sequences * a.heads, head_task, &a);
	return NULL;
}

typedef struct {
	const void *x, *gate;
	const float *weight;
	void *y;
	int dtype;
	int64_t width, gates, groups; // of a row of x, of one of gate; groups that are normalized
	float eps;
	int64_t rows, step; // task i does rows [i * step, (i + 1) * step) below rows
} gated_norm_args;

static void gated_norm_rows(void *args, int64_t task) {
	const gated_norm_args *a = args;
	int64_t size = a->width / a->groups, end = (task + 1) * a->step < a->rows ? (task + 1) * a->step : a->rows;
	float *u = malloc(size * sizeof(float));
	for (int64_t row = task * a->step; u && row < end; row++) {
		for (int64_t from = 0; from < a->width; from += size) {
			float sum[LANES] = {0}, all = 0;
			for (int64_t i = 0; i < size; i++) {
				float gate = q_load(a->gate, a->dtype, row * a->gates + from + i);
				u[i] = q_load(a->x, a->dtype, row * a->width + from + i) * (gate * q_sigmoid(gate));
			}
			for (int64_t i = 0; i < size; i++) sum[i % LANES] += u[i] * u[i];
			for (int i = 0; i < LANES; i++) all += sum[i];
			float by = 1 / sqrtf(all / size + a->eps);
			for (int64_t i = 0; i < size; i++)
				q_store(a->y, a->dtype, row * a->width + from + i, u[i] * by * a->weight[from + i]);
		}
	}
	free(u);
}

q_error *quire_gated_norm(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	double eps;
	gated_norm_args a = {.step = 8};
	if ((e = q_count(f, 4, 1)) || (e = q_int(f, "groups", &a.groups)) || (e = q_float(f, "eps", &eps))) return e;
	const q_array *x = q_arg(f, 0), *gate = q_arg(f, 1), *rows = q_arg(f, 3), *y = q_result(f, 0);
	a.dtype = x->dtype;
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16)
		return q_fail(f, "x has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, x, "x", a.dtype, -1, -1)) || (e = q_shape(f, gate, "gate", a.dtype, x->dims[0], -1)) ||
		(e = q_shape(f, q_arg(f, 2), "weight", Q_F32, x->dims[1])) ||
		(e = q_shape(f, y, "y", a.dtype, x->dims[0], x->dims[1])) ||
		(e = q_check_shape(f, rows, "rows", Q_S32, 0, NULL))) {
		return e;
	}
	a.width = x->dims[1];
	a.gates = gate->dims[1];
	if (a.groups < 1 || a.width % a.groups || a.gates < a.width)
		return q_fail(f, "%lld numbers in %lld groups, with %lld gates", (long long)a.width, (long long)a.groups,
			(long long)a.gates);
	a.x = x->data;
	a.gate = gate->data;
	a.weight = q_arg(f, 2)->data;
	a.y = y->data;
	a.eps = eps;
	int64_t n = *(const int32_t *)rows->data;
	a.rows = n < 0 ? 0 : n > x->dims[0] ? x->dims[0] : n;
	q_parallel(f, (a.rows + a.step - 1) / a.step, gated_norm_rows, &a);
	return NULL;
}
