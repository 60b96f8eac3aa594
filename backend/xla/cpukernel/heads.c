#include "heads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

typedef struct {
	q_linear of; // what the heads have in common, with the arrays of all
	int64_t heads, matrix_bytes;
	_Atomic int failed; // some head found no memory
} call;

// head puts the rows of a head together, multiplies them, and puts the results in their places.
static void head(void *args, int64_t h) {
	call *c = args;
	q_linear l = c->of;
	const int64_t size = q_size(l.dtype), in = l.in * size, out = l.out * size;
	char *memory = aligned_alloc(64, lines(l.rows * in) + lines(l.rows * out) + lines(q_linear_scratch(l.rows, l.in)));
	if (!memory) {
		atomic_store(&c->failed, 1);
		return;
	}
	char *x = memory, *y = x + lines(l.rows * in);
	const char *from = (const char *)l.x + h * in;
	for (int64_t r = 0; r < l.rows; r++) memcpy(x + r * in, from + r * c->heads * in, in);
	l.x = x;
	l.y = y;
	l.weights = (const char *)l.weights + h * c->matrix_bytes;
	l.scratch = y + lines(l.rows * out);
	q_linear_run(NULL, &l);
	char *to = (char *)c->of.y + h * out;
	for (int64_t r = 0; r < l.rows; r++) memcpy(to + r * c->heads * out, y + r * out, out);
	free(memory);
}

q_error *quire_linear_heads(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	call c = {0};
	if ((e = q_count(f, 3, 1)) || (e = q_int(f, "in", &c.of.in)) || (e = q_int(f, "out", &c.of.out))) return e;
	const q_array *x = q_arg(f, 0), *w = q_arg(f, 1), *rows = q_arg(f, 2), *y = q_result(f, 0);
	if (!is_float(x->dtype) || !is_float(w->dtype)) {
		return q_fail(f, "element types %d of x and %d of weights are not supported", x->dtype, w->dtype);
	}
	if ((e = q_shape(f, x, "x", 0, -1, -1, c.of.in))) return e;
	c.heads = x->dims[1];
	const q_layout layout = q_linear_layout(w->dtype);
	const int64_t panels = q_panels(c.of.out, 0, layout), in = q_padded_in(c.of.in, layout);
	if ((e = q_shape(f, w, "weights", 0, c.heads, panels, in / layout.group, layout.panel, layout.group)) ||
		(e = q_shape(f, rows, "rows", Q_S32)) ||
		(e = q_shape(f, y, "the result", x->dtype, x->dims[0], c.heads, c.of.out))) {
		return e;
	}
	c.of.rows = q_wanted(rows, x->dims[0]);
	if (!c.of.rows) return NULL;
	c.of.dtype = c.of.result_dtype = x->dtype;
	c.of.weights_dtype = w->dtype;
	c.of.x = x->data;
	c.of.weights = w->data;
	c.of.y = y->data;
	c.matrix_bytes = panels * in * layout.panel * (int64_t)q_size(w->dtype);
	q_parallel(f, c.heads, head, &c);
	return c.failed ? q_fail(f, "there is no memory for %lld rows of a head", (long long)c.of.rows) : NULL;
}
