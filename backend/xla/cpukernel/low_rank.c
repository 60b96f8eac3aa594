#include "low_rank.h"

#include <string.h>

#include "grouped.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The parts of the scratch, one after the other, in bytes.
typedef struct {
	int64_t gathered; // rows of x by adapter [A, in]
	int64_t inner;    // results of the first layers [A, rank]
	int64_t outer;    // results of the second layers by adapter, f32 [A, out]
	int64_t packed;   // rows as a layer reads them
	int64_t order;    // s32 [A]: the place of a row in the order by adapter
	int64_t total;
} parts;

// low_rank is a call.
typedef struct {
	int64_t rows, adapters, in, rank, out;
	int dtype;
	const char *x;
	const int32_t *of;
	float *y;
	char *scratch;
	parts parts;
} low_rank;

static parts parts_of(int64_t rows, int64_t adapters, int64_t in, int64_t rank, int64_t out) {
	parts p = {0};
	p.inner = p.gathered + lines(rows * in * 4);
	p.outer = p.inner + lines(rows * rank * 4);
	p.packed = p.outer + lines(rows * out * 4);
	p.order = p.packed + (int64_t)q_linear_scratch(q_groups_tiles(rows, adapters), most(in, rank));
	p.total = p.order + lines(rows * 4);
	return p;
}

static int32_t *order(const low_rank *m) { return (int32_t *)(m->scratch + m->parts.order); }

static void gather(void *args, int64_t row) {
	const low_rank *m = args;
	const int64_t bytes = m->in * (int64_t)q_size(m->dtype);
	const int32_t to = order(m)[row];
	if (to >= 0) memcpy(m->scratch + m->parts.gathered + to * bytes, m->x + row * bytes, bytes);
}

static void scatter(void *args, int64_t row) {
	const low_rank *m = args;
	const int64_t bytes = m->out * (int64_t)sizeof(float);
	const int32_t from = order(m)[row];
	if (from >= 0) memcpy(m->y + row * m->out, m->scratch + m->parts.outer + from * bytes, bytes);
}

// in_order reports whether all rows have adapters and are in their order already.
static int in_order(const low_rank *m) {
	for (int64_t i = 0; i < m->rows; i++) {
		if (order(m)[i] != i) return 0;
	}
	return 1;
}

static q_error *read_matrices(
	q_frame *f, const low_rank *m, const q_array *w, const char *name, q_linear *l, int64_t *matrix_bytes) {
	const q_layout layout = q_linear_layout(w->dtype);
	const int64_t panels = q_panels(l->out, 0, layout), in = q_padded_in(l->in, layout);
	if (w->dtype != m->dtype) return q_fail(f, "%s have element type %d, and x has %d", name, w->dtype, m->dtype);
	*matrix_bytes = panels * in * layout.panel * (int64_t)q_size(w->dtype);
	l->dtype = l->weights_dtype = w->dtype;
	l->weights = w->data;
	return q_shape(f, w, name, 0, m->adapters, panels, in / layout.group, layout.panel, layout.group);
}

q_error *quire_low_rank(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	low_rank m = {0};
	if ((e = q_int(f, "in", &m.in)) || (e = q_int(f, "rank", &m.rank)) || (e = q_int(f, "out", &m.out)) ||
		(e = q_count(f, 5, 2)))
		return e;
	const q_array *x = q_arg(f, 0), *y = q_result(f, 0), *scratch = q_result(f, 1);
	if (x->dtype != Q_F32 && x->dtype != Q_BF16 && x->dtype != Q_F16)
		return q_fail(f, "element type %d of x is not supported", x->dtype);
	if (q_arg(f, 3)->rank < 1) return q_fail(f, "the matrices have no dimensions");
	m.dtype = x->dtype;
	m.adapters = q_arg(f, 3)->dims[0];
	if ((e = q_shape(f, x, "x", 0, (int64_t)-1, m.in))) return e;
	const int64_t all = x->dims[0];
	q_linear first = {.result_dtype = m.dtype, .in = m.in, .out = m.rank};
	q_linear second = {.result_dtype = Q_F32, .in = m.rank, .out = m.out};
	int64_t bytes[2];
	if ((e = q_shape(f, q_arg(f, 1), "adapters", Q_S32, all)) || (e = q_shape(f, q_arg(f, 2), "rows", Q_S32)) ||
		(e = q_shape(f, y, "the result", Q_F32, all, m.out)) ||
		(e = read_matrices(f, &m, q_arg(f, 3), "the first matrices", &first, &bytes[0])) ||
		(e = read_matrices(f, &m, q_arg(f, 4), "the second matrices", &second, &bytes[1])))
		return e;
	m.rows = q_wanted(q_arg(f, 2), all);
	m.x = x->data;
	m.of = q_arg(f, 1)->data;
	m.y = y->data;
	m.scratch = scratch->data;
	m.parts = parts_of(all, m.adapters, m.in, m.rank, m.out);
	if (q_elements(scratch) * (int64_t)q_size(scratch->dtype) < m.parts.total)
		return q_fail(f, "the scratch is too small");
	q_groups g;
	if (!q_groups_make(&g, m.adapters))
		return q_fail(f, "there is no memory for %lld adapters", (long long)m.adapters);
	q_groups_sort(&g, m.of, m.rows, order(&m));
	const int direct = in_order(&m);
	first.x = direct ? m.x : m.scratch + m.parts.gathered;
	first.y = m.scratch + m.parts.inner;
	second.x = first.y;
	second.y = direct ? (void *)m.y : m.scratch + m.parts.outer;
	first.scratch = second.scratch = m.scratch + m.parts.packed;
	if (g.begins[m.adapters] > 0) {
		if (!direct) q_parallel(m.rows > 16 ? f : NULL, m.rows, gather, &m);
		q_groups_run(f, &g, &first, bytes[0]);
		q_groups_run(f, &g, &second, bytes[1]);
		if (!direct) q_parallel(m.rows > 16 ? f : NULL, m.rows, scatter, &m);
	}
	q_groups_free(&g);
	return NULL;
}
