#include "low_rank.h"

#include <stdlib.h>
#include <string.h>

#include "grouped.h"

static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The rows of an adapter are computed in blocks of at most BLOCK, each by one thread from start to end: no thread waits
// for another, and rows stay with a processor.
enum { BLOCK = 96, LEAST = 8 };

// The parts of the scratch, one after the other, in bytes.
typedef struct {
	int64_t gathered; // rows of x by adapter [A, in]
	int64_t results;  // by adapter, f32 [A, rank]
	int64_t packed;   // rows as a layer reads them, of each block
	int64_t order;    // s32 [A]: the place of a row in the order by adapter
	int64_t rows;     // s32 [A]: the row at a place
	int64_t total;
} parts;

// block is some rows of one adapter.
typedef struct {
	int64_t adapter, begin, rows; // begin is a place in the order by adapter
	int64_t scratch;              // where its packed rows begin
} block;

// low_rank is a call.
typedef struct {
	int64_t rows, adapters, in, rank;
	int dtype;
	const char *x;
	const int32_t *of;
	float *y;
	char *scratch;
	parts parts;
	int in_order; // all rows have adapters, and lie in the order by adapter already
	q_linear layer;
	int64_t bytes; // of an adapter's matrix
	block *blocks;
	int64_t count;
} low_rank;

static int64_t scratch_of(const low_rank *m, int64_t rows) {
	return lines((int64_t)q_linear_scratch(rows, m->in));
}

static parts parts_of(const low_rank *m, int64_t all) {
	const int64_t blocks = all / LEAST + (m->adapters < all ? m->adapters : all) + 1;
	parts p = {0};
	p.results = p.gathered + lines(all * m->in * 4);
	p.packed = p.results + lines(all * m->rank * 4);
	p.order = p.packed + scratch_of(m, all + 15 * (blocks < all ? blocks : all));
	p.rows = p.order + lines(all * 4);
	p.total = p.rows + lines(all * 4);
	return p;
}

static int32_t *order(const low_rank *m) { return (int32_t *)(m->scratch + m->parts.order); }
static int32_t *row_at(const low_rank *m) { return (int32_t *)(m->scratch + m->parts.rows); }

// run_block computes the results of a block.
static void run_block(void *args, int64_t i) {
	const low_rank *m = args;
	const block *b = &m->blocks[i];
	const int64_t x_bytes = m->in * (int64_t)q_size(m->dtype), y_bytes = m->rank * (int64_t)sizeof(float);
	q_linear l = m->layer;
	char *x = m->scratch + m->parts.gathered + b->begin * x_bytes;
	char *y = m->scratch + m->parts.results + b->begin * y_bytes;
	for (int64_t k = 0; k < b->rows && !m->in_order; k++)
		memcpy(x + k * x_bytes, m->x + row_at(m)[b->begin + k] * x_bytes, x_bytes);
	l.rows = b->rows;
	l.x = m->in_order ? m->x + b->begin * x_bytes : x;
	l.weights = (const char *)l.weights + b->adapter * m->bytes;
	l.y = m->in_order ? (char *)m->y + b->begin * y_bytes : y;
	l.scratch = m->scratch + m->parts.packed + b->scratch;
	q_linear_run(NULL, &l);
	for (int64_t k = 0; k < b->rows && !m->in_order; k++)
		memcpy((char *)m->y + row_at(m)[b->begin + k] * y_bytes, y + k * y_bytes, y_bytes);
}

// cut cuts the rows of adapters into blocks, about as many as there are threads if there are few rows.
static void cut(low_rank *m, const q_groups *g, int64_t threads) {
	int64_t size = (g->begins[m->adapters] + threads - 1) / threads, scratch = 0;
	if (size > BLOCK) size = BLOCK;
	if (size < LEAST) size = LEAST;
	m->count = 0;
	for (int64_t a = 0; a < m->adapters; a++) {
		for (int64_t begin = g->begins[a], end = g->begins[a + 1]; begin < end; begin += size) {
			const int64_t rows = end - begin < size ? end - begin : size;
			m->blocks[m->count++] = (block){a, begin, rows, scratch};
			scratch += scratch_of(m, rows);
		}
	}
}

// sort brings rows into the order of their adapters.
static void sort(low_rank *m, q_groups *g) {
	q_groups_sort(g, m->of, m->rows, order(m));
	m->in_order = 1;
	for (int64_t i = 0; i < m->rows; i++) {
		m->in_order &= order(m)[i] == i;
		if (order(m)[i] >= 0) row_at(m)[order(m)[i]] = (int32_t)i;
	}
}

static q_error *read_matrices(q_frame *f, low_rank *m, const q_array *w) {
	const q_layout layout = q_linear_layout(w->dtype);
	const int64_t panels = q_panels(m->rank, 0, layout), in = q_padded_in(m->in, layout);
	if (w->dtype != m->dtype) return q_fail(f, "matrices have element type %d, and x has %d", w->dtype, m->dtype);
	m->bytes = panels * in * layout.panel * (int64_t)q_size(w->dtype);
	m->layer = (q_linear){.dtype = m->dtype, .weights_dtype = m->dtype, .result_dtype = Q_F32, .in = m->in,
		.out = m->rank, .weights = w->data};
	return q_shape(f, w, "matrices", 0, m->adapters, panels, in / layout.group, layout.panel, layout.group);
}

q_error *quire_low_rank(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	low_rank m = {0};
	if ((e = q_int(f, "in", &m.in)) || (e = q_int(f, "rank", &m.rank)) || (e = q_count(f, 4, 2))) return e;
	const q_array *x = q_arg(f, 0), *y = q_result(f, 0), *scratch = q_result(f, 1);
	if (x->dtype != Q_F32 && x->dtype != Q_BF16 && x->dtype != Q_F16)
		return q_fail(f, "element type %d of x is not supported", x->dtype);
	if (q_arg(f, 3)->rank < 1) return q_fail(f, "the matrices have no dimensions");
	m.dtype = x->dtype;
	m.adapters = q_arg(f, 3)->dims[0];
	if ((e = q_shape(f, x, "x", 0, (int64_t)-1, m.in))) return e;
	const int64_t all = x->dims[0];
	if ((e = q_shape(f, q_arg(f, 1), "adapters", Q_S32, all)) || (e = q_shape(f, q_arg(f, 2), "rows", Q_S32)) ||
		(e = q_shape(f, y, "the result", Q_F32, all, m.rank)) || (e = read_matrices(f, &m, q_arg(f, 3))))
		return e;
	m.rows = q_wanted(q_arg(f, 2), all);
	m.x = x->data;
	m.of = q_arg(f, 1)->data;
	m.y = y->data;
	m.scratch = scratch->data;
	m.parts = parts_of(&m, all);
	if (q_elements(scratch) * (int64_t)q_size(scratch->dtype) < m.parts.total)
		return q_fail(f, "the scratch is too small");
	q_groups g;
	m.blocks = malloc((m.rows / LEAST + (m.adapters < m.rows ? m.adapters : m.rows) + 1) * sizeof *m.blocks);
	if (m.blocks && q_groups_make(&g, m.adapters)) {
		sort(&m, &g);
		cut(&m, &g, q_threads(f));
		q_parallel(f, m.count, run_block, &m);
		q_groups_free(&g);
	} else {
		e = q_fail(f, "there is no memory for %lld adapters", (long long)m.adapters);
	}
	free(m.blocks);
	return e;
}
