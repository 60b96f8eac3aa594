#include "mixture.h"

#include <string.h>

#include "convert.h"
#include "gemm_blocks.h"
#include "grouped.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The parts of the scratch, one after the other, in bytes.
typedef struct {
	int64_t gathered; // rows of x by expert [A, in]
	int64_t inner;    // the results of the first layers [A, inner]
	int64_t outer;    // results of the second layers, f32 [A, in]
	int64_t packed;   // rows as a layer reads them, each expert's starting with a whole tile
	int64_t order;    // s32 [A]: the place of a row's k-th expert in the order by expert
	int64_t total;
} parts;

static parts parts_of(int64_t rows, int64_t a_row, int64_t experts, int64_t in, int64_t inner) {
	const int64_t a = rows * a_row, tiles = q_groups_tiles(a, experts);
	parts p = {0};
	p.inner = p.gathered + lines(a * in * 4);
	p.outer = p.inner + lines(a * inner * 4);
	p.packed = p.outer + lines(a * in * 4);
	p.order = p.packed + (int64_t)q_linear_scratch(tiles, most(in, inner));
	p.total = p.order + lines(a * 4);
	return p;
}

int64_t q_experts_scratch(int64_t rows, int64_t a_row, int64_t experts, int64_t in, int64_t inner) {
	return parts_of(rows, a_row, experts, in, inner).total / 4;
}

// mixture is a call.
typedef struct {
	int64_t rows, a_row, experts, in, inner;
	int dtype, result_dtype;
	const char *x;
	const int32_t *of; // experts of rows
	const float *shares;
	const void *residual;
	void *y;
	char *scratch;
	parts parts;
} mixture;

static int32_t *order(const mixture *m) { return (int32_t *)(m->scratch + m->parts.order); }

static void gather(void *args, int64_t row) {
	const mixture *m = args;
	const int64_t bytes = m->in * (int64_t)q_size(m->dtype);
	for (int64_t k = 0; k < m->a_row; k++) {
		const int32_t to = order(m)[row * m->a_row + k];
		if (to >= 0) memcpy(m->scratch + m->parts.gathered + to * bytes, m->x + row * bytes, bytes);
	}
}

static float number(const void *p, int64_t i, int dtype) {
	if (dtype == Q_F32) return ((const float *)p)[i];
	const uint16_t h = ((const uint16_t *)p)[i];
	return dtype == Q_BF16 ? q_from_bf16(h) : q_from_f16(h);
}

// add sums a row's results weighted by its shares, 256 columns at a time, and rounds once.
static void add(void *args, int64_t row) {
	enum { COLUMNS = 256 };
	const mixture *m = args;
	const float *outer = (const float *)(m->scratch + m->parts.outer);
	for (int64_t c = 0; c < m->in; c += COLUMNS) {
		const int64_t n = least(COLUMNS, m->in - c), at = row * m->in + c;
		float sum[COLUMNS] = {0};
		for (int64_t k = 0; k < m->a_row; k++) {
			const int32_t from = order(m)[row * m->a_row + k];
			if (from < 0) continue;
			const float share = m->shares[row * m->a_row + k], *y = outer + from * m->in + c;
			for (int64_t i = 0; i < n; i++) sum[i] += share * y[i];
		}
		if (m->residual) {
			for (int64_t i = 0; i < n; i++) sum[i] += number(m->residual, at + i, m->dtype);
		}
		for (int64_t i = 0; i < n; i++) {
			if (m->result_dtype == Q_F32) ((float *)m->y)[at + i] = sum[i];
			else ((uint16_t *)m->y)[at + i] = m->result_dtype == Q_BF16 ? q_to_bf16(sum[i]) : q_to_f16(sum[i]);
		}
	}
}

// read_blocks reads the weights of a layer of all experts in blocks.
static q_error *read_blocks(q_frame *f, const mixture *m, q_linear *l, const q_array *w, int64_t *matrix_bytes) {
	const q_layout layout = q_linear_layout(Q_U8);
	const q_blocks b = l->blocks;
	if (!q_blocks_known(b) || l->in % q_unit_in(b))
		return q_fail(f, "experts in blocks of %d numbers of %d bits in rows of %lld are not supported", b.size, b.bits,
			(long long)l->in);
	const int64_t panels = q_panels(l->out, l->gate_up, layout), units = l->in / q_unit_in(b),
				  bytes = q_unit_bytes(b, layout.panel);
	*matrix_bytes = panels * units * bytes;
	l->weights_dtype = Q_U8;
	l->weights = w->data;
	return q_shape(f, w, "weights", Q_U8, m->experts, panels, units, bytes);
}

// read_layer reads the weights, scales and bias of a layer of all experts.
static q_error *read_layer(
	q_frame *f, const mixture *m, q_linear *l, int weights, int scales, int bias, int64_t *matrix_bytes) {
	const q_array *w = q_arg(f, weights);
	q_error *e;
	if (bias) {
		if ((e = q_shape(f, q_arg(f, bias), "bias", m->dtype, m->experts, l->out))) return e;
		l->bias = q_arg(f, bias)->data;
	}
	if (l->blocks.bits) return read_blocks(f, m, l, w, matrix_bytes);
	l->weights_dtype = w->dtype;
	const q_layout layout = q_linear_layout(w->dtype);
	const int64_t panels = q_panels(l->out, l->gate_up, layout), in = q_padded_in(l->in, layout);
	if ((e = q_shape(f, w, "weights", 0, m->experts, panels, in / layout.group, layout.panel, layout.group))) return e;
	if (!!scales != (w->dtype == Q_S8)) return q_fail(f, "scales belong to weights of 8 bits");
	*matrix_bytes = panels * in * layout.panel * (int64_t)q_size(w->dtype);
	l->weights = w->data;
	if (scales) {
		if ((e = q_shape(f, q_arg(f, scales), "scales", Q_F32, m->experts, l->out))) return e;
		l->scales = q_arg(f, scales)->data;
	}
	return NULL;
}

static q_error *read_rows(q_frame *f, mixture *m, int64_t all) {
	q_error *e;
	if ((e = q_shape(f, q_arg(f, 0), "x", 0, all, m->in)) ||
		(e = q_shape(f, q_arg(f, 1), "experts", Q_S32, all, m->a_row)) ||
		(e = q_shape(f, q_arg(f, 2), "shares", Q_F32, all, m->a_row)) || (e = q_shape(f, q_arg(f, 3), "rows", Q_S32)) ||
		(e = q_shape(f, q_result(f, 0), "the result", 0, all, m->in)))
		return e;
	m->dtype = q_arg(f, 0)->dtype;
	m->result_dtype = q_result(f, 0)->dtype;
	const int floats = m->dtype == Q_F32 || m->dtype == Q_BF16 || m->dtype == Q_F16;
	if (!floats || (m->result_dtype != m->dtype && m->result_dtype != Q_F32)) {
		return q_fail(f, "element types %d of x and %d of the result are not supported", m->dtype, m->result_dtype);
	}
	m->rows = q_wanted(q_arg(f, 3), all);
	m->x = q_arg(f, 0)->data;
	m->of = q_arg(f, 1)->data;
	m->shares = q_arg(f, 2)->data;
	m->y = q_result(f, 0)->data;
	m->scratch = q_result(f, 1)->data;
	m->parts = parts_of(all, m->a_row, m->experts, m->in, m->inner);
	if (q_elements(q_result(f, 1)) * (int64_t)q_size(q_result(f, 1)->dtype) < m->parts.total)
		return q_fail(f, "the scratch is too small");
	return NULL;
}

q_error *quire_experts(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	int gate_up, scales, bias, residual;
	int64_t activation, bytes[2], up_blocks, down_blocks;
	mixture m = {0};
	if ((e = q_int(f, "in", &m.in)) || (e = q_int(f, "inner", &m.inner)) || (e = q_bool(f, "gate_up", &gate_up)) ||
		(e = q_int(f, "activation", &activation)) || (e = q_bool(f, "scales", &scales)) ||
		(e = q_bool(f, "bias", &bias)) || (e = q_bool(f, "residual", &residual)) ||
		(e = q_int(f, "up_blocks", &up_blocks)) || (e = q_int(f, "down_blocks", &down_blocks)))
		return e;
	if (activation < 0 || activation >= Q_ACTIVATIONS)
		return q_fail(f, "there is no activation %lld", (long long)activation);
	if (activation == Q_CLAMPED_SWIGLU && !gate_up)
		return q_fail(f, "activation %lld is of gates and ups", (long long)activation);
	if ((e = q_count(f, 6 + 2 * scales + 2 * bias + residual, 2))) return e;
	if (q_arg(f, 1)->rank != 2 || q_arg(f, 4)->rank < 1)
		return q_fail(f, "experts has %lld dimensions and weights have %lld, want 2 and 4 or 5",
			(long long)q_arg(f, 1)->rank, (long long)q_arg(f, 4)->rank);
	m.a_row = q_arg(f, 1)->dims[1];
	m.experts = q_arg(f, 4)->dims[0];
	const int64_t all = q_arg(f, 1)->dims[0];
	if ((e = read_rows(f, &m, all))) return e;
	const int of_bias = 6 + 2 * scales, of_residual = of_bias + 2 * bias;
	q_linear first = {.dtype = m.dtype,
		.result_dtype = m.dtype,
		.gate_up = gate_up,
		.activation = (int)activation,
		.in = m.in,
		.out = gate_up ? 2 * m.inner : m.inner,
		.blocks = q_blocks_of(up_blocks)};
	q_linear second = {
		.dtype = m.dtype, .result_dtype = Q_F32, .in = m.inner, .out = m.in, .blocks = q_blocks_of(down_blocks)};
	if ((e = read_layer(f, &m, &first, 4, scales ? 6 : 0, bias ? of_bias : 0, &bytes[0])) ||
		(e = read_layer(f, &m, &second, 5, scales ? 7 : 0, bias ? of_bias + 1 : 0, &bytes[1])))
		return e;
	if (residual) {
		if ((e = q_shape(f, q_arg(f, of_residual), "residual", m.dtype, all, m.in))) return e;
		m.residual = q_arg(f, of_residual)->data;
	}
	q_groups g;
	if (!q_groups_make(&g, m.experts))
		return q_fail(f, "there is no memory for %lld experts", (long long)m.experts);
	q_groups_sort(&g, m.of, m.rows * m.a_row, order(&m));
	q_parallel(m.rows > 16 ? f : NULL, m.rows, gather, &m);
	first.scratch = second.scratch = m.scratch + m.parts.packed;
	first.x = m.scratch + m.parts.gathered;
	first.y = m.scratch + m.parts.inner;
	q_groups_run(f, &g, &first, bytes[0]);
	second.x = first.y;
	second.y = m.scratch + m.parts.outer;
	q_groups_run(f, &g, &second, bytes[1]);
	q_parallel(m.rows > 4 ? f : NULL, m.rows, add, &m);
	q_groups_free(&g);
	return NULL;
}
