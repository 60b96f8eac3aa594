// Gated delta nets, and gates: see delta_rows.h and recurrence_rows.h for what a task does.
#include "code.h"
#include "recurrence_task.h"

q_error *quire_gated_delta(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	int64_t value_heads;
	double eps;
	q_delta a = {0};
	if ((e = q_count(f, 11, 2)) || (e = q_int(f, "key_heads", &a.key_heads)) ||
		(e = q_int(f, "value_heads", &value_heads)) || (e = q_int(f, "key_dim", &a.key_dim)) ||
		(e = q_int(f, "value_dim", &a.value_dim)) || (e = q_float(f, "eps", &eps))) {
		return e;
	}
	if (a.key_heads < 1 || value_heads % a.key_heads || a.key_dim < 1 || a.key_dim > Q_MAX_KEY || a.value_dim < 1 ||
		a.value_dim > Q_MAX_KEY)
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
	_Atomic int failed = 0;
	a.s.failed = &failed;
	q_parallel(f, a.s.sequences * a.key_heads, q_code_in_use()->recurrences->delta, &a);
	return failed ? q_fail(f, "no memory for states that no page keeps") : NULL;
}

q_error *quire_gate(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 3, 1))) return e;
	const q_array *x = q_arg(f, 0), *gate = q_arg(f, 1), *rows = q_arg(f, 2), *y = q_result(f, 0);
	q_gate a = {.x = x->data, .gate = gate->data, .y = y->data, .dtype = x->dtype};
	if (a.dtype != Q_F32 && a.dtype != Q_BF16 && a.dtype != Q_F16)
		return q_fail(f, "x has element type %d, want f32, bf16 or f16", a.dtype);
	if ((e = q_shape(f, x, "x", a.dtype, -1, -1)) || (e = q_shape(f, gate, "gate", a.dtype, x->dims[0], x->dims[1])) ||
		(e = q_shape(f, y, "y", a.dtype, x->dims[0], x->dims[1])) ||
		(e = q_check_shape(f, rows, "rows", Q_S32, 0, NULL))) {
		return e;
	}
	a.width = x->dims[1];
	q_parallel(f, q_wanted(rows, x->dims[0]), q_code_in_use()->recurrences->gate, &a);
	return NULL;
}
