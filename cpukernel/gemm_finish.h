// What follows the products of a linear layer: from sums to results. The file that includes this defines PANEL, the columns of a panel,
// Q_WIDE, that in v16, and SUMS, the floats between the sums of panels: those of a panel are [rows][PANEL].
#include "gemm.h"
#include "v16.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(variable, n) _Pragma("GCC unroll 32") for (int variable = 0; variable < (n); variable++)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// load16 reads n <= 16 numbers of a dtype as float32; the rest is zero.
ALWAYS v16 load16(const void *p, int64_t at, int dtype, int64_t n) {
	const char *from = (const char *)p + at * (dtype == Q_F32 ? 4 : 2);
	union { float f[16]; uint16_t h[16]; } part = {{0}};
	if (n < 16) from = memcpy(&part, from, n * (dtype == Q_F32 ? 4 : 2));
	if (dtype == Q_F32) return v16_load((const float *)from);
	return dtype == Q_BF16 ? v16_load_bf16((const uint16_t *)from) : v16_load_f16((const uint16_t *)from);
}

ALWAYS void store16(void *p, int64_t at, int dtype, int64_t n, v16 x) {
	char *to = (char *)p + at * (dtype == Q_F32 ? 4 : 2);
	union { float f[16]; uint16_t h[16]; } part;
	void *whole = n < 16 ? (void *)&part : to;
	if (dtype == Q_F32) v16_store(whole, x);
	else if (dtype == Q_BF16) v16_store_bf16(whole, x);
	else v16_store_f16(whole, x);
	if (n < 16) memcpy(to, &part, n * (dtype == Q_F32 ? 4 : 2));
}

// silu is x / (1 + exp(-x)), from the exponential of -|x|.
ALWAYS v16 silu(v16 x) {
	const v16 zero = v16_set(0), one = v16_set(1);
	v16 positive = v16_keep(x, zero), negative = v16_sub(x, positive);
	v16 e = v16_exp(v16_sub(negative, positive));
	return v16_div(v16_fma(negative, e, positive), v16_add(one, e));
}

// finish makes results of the sums of a block of rows: 16 columns of the panels, from the places at of a row's sums, are the results from
// column on.
ALWAYS void finish(const q_linear_job *j, const float *sums, int64_t row, int64_t rows, int64_t column, int64_t columns, int gate_up) {
	const q_linear *l = j->l;
	int64_t n = least(16, columns - column), up = Q_WIDE > 1 ? 16 : SUMS; // where the sums of the up projection are
	v16 bias[2] = {v16_set(0), v16_set(0)};
	if (l->bias) {
		bias[0] = load16(l->bias, column, l->dtype, n);
		if (gate_up) bias[1] = load16(l->bias, columns + column, l->dtype, n);
	}
	v16 scales[2] = {v16_set(1), v16_set(1)};
	if (l->scales) {
		scales[0] = load16(l->scales, column, Q_F32, n);
		if (gate_up) scales[1] = load16(l->scales, columns + column, Q_F32, n);
	}
	for (int64_t r = 0; r < rows; r++, sums += PANEL) {
		v16 y = v16_load(sums);
		if (l->scales) y = v16_mul(y, scales[0]);
		if (l->bias) y = v16_add(y, bias[0]);
		if (gate_up) {
			v16 u = v16_load(sums + up);
			if (l->scales) u = v16_mul(u, scales[1]);
			if (l->bias) u = v16_add(u, bias[1]);
			y = v16_mul(silu(y), u);
		}
		int64_t at = (row + r) * columns + column;
		if (l->residual) y = v16_add(y, load16(l->residual, at, l->dtype, n));
		store16(l->y, at, l->result_dtype, n, y);
	}
}

// finish_panels makes the results of n panels, those from the given one on, for rows from the given one on.
static void finish_panels(const q_linear_job *j, const float *sums, int64_t row, int64_t rows, int64_t from, int64_t n) {
	const q_linear *l = j->l;
	const int64_t columns = l->gate_up ? l->out / 2 : l->out;
	for (int64_t c = 0; c < n * PANEL; c += l->gate_up ? 2 * Q_TURN : Q_TURN) {
		const float *s = sums + c / PANEL * SUMS + c % PANEL;
		int64_t column = from * PANEL + c;
		if (l->gate_up) column /= 2;
		if (column >= columns) break;
		if (l->gate_up) finish(j, s, row, rows, column, columns, 1);
		else finish(j, s, row, rows, column, columns, 0);
	}
}
