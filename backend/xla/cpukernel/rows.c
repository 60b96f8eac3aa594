#include "rows.h"

#include <string.h>

#include "attention_task.h"
#include "code.h"
#include "scalar.h"

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

// check_rows checks that each row lies within the tokens.
static q_error *check_rows(q_frame *f, const q_array *firsts, const q_array *lens, int64_t rows, int64_t tokens) {
	const int32_t *first = firsts->data, *len = lens->data;
	for (int64_t r = 0; r < rows; r++) {
		if (first[r] < 0 || len[r] < 0 || (int64_t)first[r] + len[r] > tokens)
			return q_fail(f, "row %lld has %d tokens from %d on, of %lld", (long long)r, len[r], first[r],
				(long long)tokens);
	}
	return NULL;
}

q_error *quire_row_attention(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	const int has_bias = q_args(f) == 9;
	if ((e = q_count(f, 8 + has_bias, 1))) return e;
	const q_array *q = q_arg(f, 0), *k = q_arg(f, 1), *v = q_arg(f, 2), *token_rows = q_arg(f, 3),
				  *positions = q_arg(f, 4), *firsts = q_arg(f, 5), *lens = q_arg(f, 6), *count = q_arg(f, 7),
				  *out = q_result(f, 0);
	if ((e = q_shape(f, q, "q", 0, -1, -1, -1)) ||
		(e = q_shape(f, k, "k", q->dtype, q->dims[0], -1, q->dims[2])) ||
		(e = q_shape(f, v, "v", q->dtype, q->dims[0], k->dims[1], q->dims[2])) ||
		(e = q_shape(f, out, "the result", q->dtype, q->dims[0], q->dims[1], q->dims[2])) ||
		(e = q_shape(f, token_rows, "token_rows", Q_S32, q->dims[0])) ||
		(e = q_shape(f, positions, "positions", Q_S32, q->dims[0])) ||
		(e = q_shape(f, firsts, "firsts", Q_S32, -1)) || (e = q_shape(f, lens, "lens", Q_S32, firsts->dims[0])) ||
		(e = q_shape(f, count, "count", Q_S32)))
		return e;
	const int64_t kv_heads = k->dims[1], rows = q_wanted(count, firsts->dims[0]);
	if ((e = check_rows(f, firsts, lens, rows, q->dims[0]))) return e;
	if (!is_float(q->dtype)) return q_fail(f, "element type %d: f32, bf16 and f16 are supported", q->dtype);
	if (kv_heads < 1 || q->dims[1] % kv_heads)
		return q_fail(f, "%lld heads and %lld KV heads", (long long)q->dims[1], (long long)kv_heads);
	double scale, soft_cap;
	const int64_t vector_bytes = q->dims[2] * q_size(q->dtype), token_bytes = kv_heads * vector_bytes;
	// The keys are a cache with a page for each token, at which a row may begin, and a value is where its key would be
	// in the array of values.
	struct q_attention a = {.q = q->data,
		.cache = k->data,
		.out = out->data,
		.slots = firsts->data,
		.token_seqs = token_rows->data,
		.positions = positions->data,
		.lens = lens->data,
		.tokens = q->dims[0],
		.heads = q->dims[1],
		.kv_heads = kv_heads,
		.dim = q->dims[2],
		.page_count = q->dims[0],
		.page_size = q->dims[0],
		.vector_bytes = vector_bytes,
		.each = 2,
		.lies = {token_bytes, token_bytes, vector_bytes, vector_bytes,
			(int64_t)((uintptr_t)v->data - (uintptr_t)k->data)},
		.type = q->dtype,
		.cache_type = q->dtype};
	if ((e = q_float(f, "scale", &scale)) || (e = q_float(f, "soft_cap", &soft_cap)) ||
		(e = q_int(f, "window", &a.window)) || (e = q_int(f, "ahead", &a.ahead)) ||
		(e = q_int(f, "zero", &a.bias_zero)))
		return e;
	if (a.window < 0 || a.ahead < 0 || soft_cap < 0)
		return q_fail(f, "a window of %lld, %lld tokens ahead and a soft cap of %g: they must be 0 or more",
			(long long)a.window, (long long)a.ahead, soft_cap);
	a.scale = scale;
	a.soft_cap = soft_cap;
	for (int64_t t = 0; t < a.tokens; t++) {
		const int32_t row = a.token_seqs[t], at = a.positions[t];
		if (row < 0 || row >= rows || at < 0) continue;
		if (has_bias && at > a.bias_zero)
			return q_fail(f, "token %lld is at %d of row %d, and the bias has %lld distances", (long long)t, at, row,
				(long long)a.bias_zero);
	}
	if (has_bias) {
		const q_array *bias = q_arg(f, 8);
		if ((e = q_shape(f, bias, "bias", Q_F32, a.heads, -1))) return e;
		a.bias = bias->data;
		a.bias_width = bias->dims[1];
		if (a.bias_width < 2 * a.bias_zero + 1 + Q_ATTENTION_BLOCK)
			return q_fail(f, "a bias of %lld distances, the %lldth being 0", (long long)a.bias_width,
				(long long)a.bias_zero);
	}
	return q_attention_run(f, &a, rows);
}

typedef struct {
	const char *x;
	const int32_t *firsts, *lens;
	float *out;
	int64_t width, rows;
	int dtype, largest;
} pooling;

// pool_row pools one row. It adds and compares only, and divides once, so that it needs no code of its own for any
// instruction set.
static void pool_row(void *args, int64_t row) {
	const pooling *p = args;
	float *to = p->out + row * p->width;
	const int64_t len = row < p->rows ? p->lens[row] : 0;
	memset(to, 0, p->width * sizeof *to);
	for (int64_t t = 0; t < len; t++) {
		const char *from = p->x + (p->firsts[row] + t) * p->width * q_size(p->dtype);
		if (p->largest) {
			for (int64_t i = 0; i < p->width; i++) {
				const float x = q_load(from, p->dtype, i);
				to[i] = t && x <= to[i] ? to[i] : x;
			}
		} else if (p->dtype == Q_F32) {
			for (int64_t i = 0; i < p->width; i++) to[i] += ((const float *)from)[i];
		} else {
			for (int64_t i = 0; i < p->width; i++) to[i] += q_load(from, p->dtype, i);
		}
	}
	for (int64_t i = 0; len && !p->largest && i < p->width; i++) to[i] /= (float)len;
}

q_error *quire_pool_rows(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 4, 1))) return e;
	const q_array *x = q_arg(f, 0), *firsts = q_arg(f, 1), *lens = q_arg(f, 2), *rows = q_arg(f, 3),
				  *out = q_result(f, 0);
	pooling p = {0};
	if ((e = q_shape(f, x, "x", 0, -1, -1)) || (e = q_shape(f, firsts, "firsts", Q_S32, -1)) ||
		(e = q_shape(f, lens, "lens", Q_S32, firsts->dims[0])) || (e = q_shape(f, rows, "rows", Q_S32)) ||
		(e = q_shape(f, out, "the result", Q_F32, firsts->dims[0], x->dims[1])) ||
		(e = q_bool(f, "largest", &p.largest)) ||
		(e = check_rows(f, firsts, lens, q_wanted(rows, firsts->dims[0]), x->dims[0])))
		return e;
	if (!is_float(x->dtype)) return q_fail(f, "element type %d: f32, bf16 and f16 are supported", x->dtype);
	p.x = x->data;
	p.firsts = firsts->data;
	p.lens = lens->data;
	p.out = out->data;
	p.width = x->dims[1];
	p.rows = q_wanted(rows, firsts->dims[0]);
	p.dtype = x->dtype;
	q_parallel(f, firsts->dims[0], pool_row, &p);
	return NULL;
}
