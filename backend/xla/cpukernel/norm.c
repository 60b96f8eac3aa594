#include "norm.h"
#include "code.h"

// Rows of fewer than ALONE bytes in all are one task: they cost less than another thread's help. Otherwise a task
// takes TASK_BYTES.
enum { ALONE = 12 << 10, TASK_BYTES = 4 << 10 };

// step returns the number of rows of a task, given the number of rows and their size.
static int64_t step(int64_t rows, int64_t bytes) {
	if (rows * bytes < ALONE) return rows ? rows : 1;
	return bytes < TASK_BYTES ? TASK_BYTES / bytes : 1;
}

static q_error *check_float(q_frame *f, const q_array *a, const char *name) {
	if (a->dtype == Q_F32 || a->dtype == Q_BF16 || a->dtype == Q_F16) return NULL;
	return q_fail(f, "%s has element type %d, want f32, bf16 or f16", name, a->dtype);
}

// norm_of handles both norms: a LayerNorm has a bias, and its weight is f32.
static q_error *norm_of(q_frame *f, int has_bias) {
	if (q_skip(f)) return NULL;
	q_error *e = q_count(f, 3 + has_bias, 1);
	if (e) return e;
	const q_array *x = q_arg(f, 0);
	double eps;
	if ((e = check_float(f, x, "x")) || (e = q_float(f, "eps", &eps))) return e;
	if (x->rank < 2) return q_fail(f, "x has %lld dimensions, want 2 or more", (long long)x->rank);
	int64_t rows = x->dims[0], width = x->dims[x->rank - 1];
	int weight = has_bias || q_arg(f, 1)->dtype == Q_F32 ? Q_F32 : x->dtype;
	const q_array *count = q_arg(f, 2 + has_bias);
	if ((e = q_shape(f, q_arg(f, 1), "weight", weight, width)) ||
		(e = q_check_shape(f, count, "rows", Q_S32, 0, NULL)) ||
		(has_bias && (e = q_shape(f, q_arg(f, 2), "bias", Q_F32, width))) ||
		(e = q_check_shape(f, q_result(f, 0), "y", x->dtype, x->rank, x->dims))) {
		return e;
	}
	if (q_elements(x) == 0) return NULL;
	q_norm_args a = {
		.x = x->data,
		.weight = q_arg(f, 1)->data,
		.y = q_result(f, 0)->data,
		.dtype = x->dtype,
		.weight_dtype = weight,
		.groups = q_elements(x) / rows / width,
		.width = width,
		.eps = eps,
		.rows = q_wanted(count, rows),
		.bias = has_bias ? q_arg(f, 2)->data : NULL,
	};
	a.step = step(a.rows, a.groups * width * q_size(x->dtype));
	q_parallel(f, (a.rows + a.step - 1) / a.step, q_code_in_use()->norm_rows, &a);
	return NULL;
}

q_error *quire_rms_norm(q_frame *f) { return norm_of(f, 0); }

q_error *quire_layer_norm(q_frame *f) { return norm_of(f, 1); }

q_error *quire_rope(q_frame *f) {
	if (q_skip(f)) return NULL;
	int rotate, norm, next = 1;
	double eps;
	q_rope_args a = {0};
	q_error *e;
	if ((e = q_bool(f, "rotate", &rotate)) || (e = q_bool(f, "norm", &norm)) || (e = q_float(f, "eps", &eps)) ||
		(e = q_int(f, "heads", &a.heads)) || (e = q_int(f, "kv_heads", &a.kv_heads)) ||
		(e = q_count(f, 2 + 2 * !!rotate + 2 * !!norm, 3))) {
		return e;
	}
	const q_array *qkv = q_arg(f, 0), *q = q_result(f, 0);
	if ((e = check_float(f, qkv, "qkv")) || (e = q_shape(f, q, "q", qkv->dtype, -1, a.heads, -1))) return e;
	int64_t rows = q->dims[0];
	a.dim = q->dims[2];
	if ((e = q_shape(f, qkv, "qkv", 0, rows, (a.heads + 2 * a.kv_heads) * a.dim)) ||
		(e = q_shape(f, q_result(f, 1), "k", qkv->dtype, rows, a.kv_heads, a.dim)) ||
		(e = q_shape(f, q_result(f, 2), "v", qkv->dtype, rows, a.kv_heads, a.dim))) {
		return e;
	}
	if (rotate) {
		const q_array *cos = q_arg(f, next++), *sin = q_arg(f, next++);
		if (cos->rank == 2) a.half = cos->dims[1];
		if (2 * a.half > a.dim)
			return q_fail(
				f, "heads of %lld numbers cannot be rotated in %lld pairs", (long long)a.dim, (long long)a.half);
		if ((e = q_shape(f, cos, "cos", Q_F32, rows, a.half)) || (e = q_shape(f, sin, "sin", Q_F32, rows, a.half)))
			return e;
		a.cos = cos->data;
		a.sin = sin->data;
	}
	if (norm) {
		const q_array *q_norm = q_arg(f, next++), *k_norm = q_arg(f, next++);
		a.norm_dtype = q_norm->dtype == Q_F32 ? Q_F32 : qkv->dtype;
		if ((e = q_shape(f, q_norm, "q_norm", a.norm_dtype, a.dim)) ||
			(e = q_shape(f, k_norm, "k_norm", a.norm_dtype, a.dim)))
			return e;
		a.q_norm = q_norm->data;
		a.k_norm = k_norm->data;
	}
	if ((e = q_check_shape(f, q_arg(f, next), "rows", Q_S32, 0, NULL))) return e;
	if (q_elements(qkv) == 0) return NULL;
	a.qkv = qkv->data;
	a.q = q->data;
	a.k = q_result(f, 1)->data;
	a.v = q_result(f, 2)->data;
	a.dtype = qkv->dtype;
	a.eps = eps;
	a.rows = q_wanted(q_arg(f, next), rows);
	a.step = step(a.rows, qkv->dims[1] * q_size(qkv->dtype));
	q_parallel(f, (a.rows + a.step - 1) / a.step, q_code_in_use()->rope_rows, &a);
	return NULL;
}
