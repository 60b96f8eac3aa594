// Mamba-2. All channels are convolved first; then a task processes the tokens of one sequence, for one head: see
// mamba_rows.h.
#include "code.h"
#include "recurrence_task.h"

q_error *quire_mamba2(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	double min_step, max_step;
	q_mamba a = {0};
	if ((e = q_count(f, 12, 3)) || (e = q_int(f, "heads", &a.heads)) || (e = q_int(f, "head_dim", &a.dim)) ||
		(e = q_int(f, "groups", &a.groups)) || (e = q_int(f, "state_dim", &a.n)) ||
		(e = q_float(f, "min_step", &min_step)) || (e = q_float(f, "max_step", &max_step))) {
		return e;
	}
	if (a.heads < 1 || a.groups < 1 || a.heads % a.groups || a.dim < 1 || a.dim > Q_MAX_STATE || a.n < 1 ||
		a.n > Q_MAX_STATE)
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
	_Atomic int failed = 0;
	c->s.failed = &failed;
	q_parallel(f, c->s.sequences * a.heads, q_code_in_use()->recurrences->mamba, &a);
	return failed ? q_fail(f, "no memory for states that no page keeps") : NULL;
}

q_error *quire_gated_norm(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	double eps;
	q_gated_norm a = {.step = 8};
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
	a.rows = q_wanted(rows, x->dims[0]);
	q_parallel(f, (a.rows + a.step - 1) / a.step, q_code_in_use()->recurrences->gated_norm, &a);
	return NULL;
}
