#include "gemm.h"

#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "cpu.h"

static const q_linear_code *code(void) {
#if defined(__x86_64__)
	if (q_level() >= Q_AVX512) return &q_linear_avx512;
	if (q_level() >= Q_AVX2) return &q_linear_avx2;
#endif
	return &q_linear_plain;
}

q_layout q_linear_layout(int dtype) {
	return (q_layout){q_level() >= Q_AVX512 ? 32 : 16, dtype == Q_BF16 ? 2 : 1, 4};
}

size_t q_linear_scratch(int64_t rows, int64_t in) { return (size_t)rows * ((in + 3) / 4 * 4) * 4; }

// panels_a_task shares panels out: about equal numbers for each thread, in several tasks each where there are enough, and at most 8 a
// task.
static int64_t panels_a_task(int64_t panels, int64_t threads, int64_t most, int64_t unit) {
	int64_t best = unit, best_load = 0;
	for (int64_t n = unit; n <= most; n += unit) {
		int64_t tasks = (panels + n - 1) / n;
		if (n > unit && tasks < 4 * threads) break;
		int64_t load = (tasks + threads - 1) / threads * n; // of the busiest thread
		if (!best_load || load <= best_load) best = n, best_load = load;
	}
	return best;
}

void q_linear_run(q_frame *f, const q_linear *l) {
	if (l->rows <= 0 || l->out <= 0) return;
	q_layout layout = q_linear_layout(l->weights_dtype);
	q_linear_job j = {l, code(), q_padded_in(l->in, layout)};
	j.tiles = (l->rows + j.code->tile_rows - 1) / j.code->tile_rows;
	j.panels = q_panels(l->out, l->gate_up, layout);
	j.panels_a_task = panels_a_task(j.panels, q_threads(f), 128 / layout.panel, l->gate_up && layout.panel == Q_TURN ? 2 : 1);
	q_parallel(j.tiles > 2 ? f : NULL, j.tiles, j.code->pack_tile, &j);
	q_parallel(f, (j.panels + j.panels_a_task - 1) / j.panels_a_task, j.code->panels, &j);
}

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

// matrix is what both kernels know of a packed matrix.
typedef struct {
	int64_t in, out;
	int gate_up;
	q_layout layout;
} matrix;

static q_error *read_matrix(q_frame *f, const q_array *weights, matrix *m) {
	q_error *e;
	if ((e = q_int(f, "in", &m->in)) || (e = q_int(f, "out", &m->out)) || (e = q_bool(f, "gate_up", &m->gate_up))) return e;
	if (!is_float(weights->dtype)) return q_fail(f, "weights of element type %d are not supported", weights->dtype);
	m->layout = q_linear_layout(weights->dtype);
	return q_shape(f, weights, "weights", 0, q_panels(m->out, m->gate_up, m->layout), q_padded_in(m->in, m->layout) / m->layout.group, m->layout.panel, m->layout.group);
}

// read_rows is how many of the most rows are wanted.
static q_error *read_rows(q_frame *f, const q_array *rows, int64_t most, int64_t *out) {
	q_error *e = q_shape(f, rows, "rows", Q_S32);
	if (e) return e;
	*out = *(const int32_t *)rows->data;
	if (*out < 0) *out = 0;
	if (*out > most) *out = most;
	return NULL;
}

q_error *quire_linear(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	matrix m;
	int bias, residual;
	if ((e = q_bool(f, "bias", &bias)) || (e = q_bool(f, "residual", &residual))) return e;
	if ((e = q_count(f, 3 + bias + residual, 2)) || (e = read_matrix(f, q_arg(f, 1), &m))) return e;
	const q_array *x = q_arg(f, 0), *y = q_result(f, 0), *scratch = q_result(f, 1);
	if (!is_float(x->dtype) || (y->dtype != x->dtype && y->dtype != Q_F32)) return q_fail(f, "element types %d of x and %d of the result are not supported", x->dtype, y->dtype);
	if ((e = q_shape(f, x, "x", 0, (int64_t)-1, m.in))) return e;
	int64_t most = x->dims[0], columns = m.gate_up ? m.out / 2 : m.out;
	q_linear l = {.weights_dtype = q_arg(f, 1)->dtype, .dtype = x->dtype, .result_dtype = y->dtype, .gate_up = m.gate_up, .in = m.in, .out = m.out};
	if ((e = read_rows(f, q_arg(f, 2), most, &l.rows)) || (e = q_shape(f, y, "the result", 0, most, columns))) return e;
	int next = 3;
	if (bias) {
		const q_array *a = q_arg(f, next++);
		if ((e = q_shape(f, a, "bias", x->dtype, m.out))) return e;
		l.bias = a->data;
	}
	if (residual) {
		const q_array *a = q_arg(f, next++);
		if ((e = q_shape(f, a, "residual", x->dtype, most, columns))) return e;
		l.residual = a->data;
	}
	if ((size_t)q_elements(scratch) * q_size(scratch->dtype) < q_linear_scratch(most, m.in)) return q_fail(f, "the scratch is too small");
	l.x = x->data;
	l.weights = q_arg(f, 1)->data;
	l.y = y->data;
	l.scratch = scratch->data;
	q_linear_run(f, &l);
	return NULL;
}

struct gather {
	const int32_t *ids;
	const char *weights;
	char *y;
	matrix m;
	size_t size;
};

static void gather_row(void *args, int64_t t) {
	const struct gather *g = args;
	const q_layout l = g->m.layout;
	int64_t id = g->ids[t], in = q_padded_in(g->m.in, l);
	if (id < 0) id = 0;
	if (id >= g->m.out) id = g->m.out - 1;
	int64_t c = q_packed_column(id, g->m.out, g->m.gate_up);
	const char *from = g->weights + (c / l.panel * in * l.panel + c % l.panel * l.group) * g->size;
	char *to = g->y + t * g->m.in * g->size;
	size_t part = l.group * g->size;
	for (int64_t i = 0; i < g->m.in; i += l.group, from += l.panel * part, to += part) {
		memcpy(to, from, i + l.group <= g->m.in ? part : (g->m.in - i) * g->size);
	}
}

q_error *quire_linear_rows(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	struct gather g;
	if ((e = q_count(f, 3, 1)) || (e = read_matrix(f, q_arg(f, 1), &g.m))) return e;
	const q_array *ids = q_arg(f, 0), *weights = q_arg(f, 1), *y = q_result(f, 0);
	if ((e = q_shape(f, ids, "ids", Q_S32, (int64_t)-1)) || (e = q_shape(f, y, "the result", weights->dtype, ids->dims[0], g.m.in))) return e;
	int64_t rows;
	if ((e = read_rows(f, q_arg(f, 2), ids->dims[0], &rows))) return e;
	g.ids = ids->data;
	g.weights = weights->data;
	g.y = y->data;
	g.size = q_size(weights->dtype);
	q_parallel(rows > 16 ? f : NULL, rows, gather_row, &g);
	return NULL;
}
