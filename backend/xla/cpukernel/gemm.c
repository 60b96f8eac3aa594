#include "gemm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "cpu.h"
#include "gemm_blocks.h"

// The level of this file's code: q_level(), unless q_linear_choose found that level's results wrong. A test build
// sets a fixed level.
static _Atomic int chosen = -1;

void q_linear_set_level(int level) { atomic_store(&chosen, level); }

static int level(void) {
#ifdef Q_EMULATE
	return Q_EMULATE;
#endif
	int l = atomic_load_explicit(&chosen, memory_order_relaxed);
	return l < 0 ? q_level() : l;
}

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

// by_dots reports whether instructions for several inputs at once compute a layer: AMX's tiles, or AVX-512's dot
// products.
static int by_dots(int level, int weights_dtype, int dtype) {
	return level >= Q_AVX512BF16 && (weights_dtype == Q_S8 || (weights_dtype == Q_BF16 && dtype == Q_BF16));
}

// tiles_worth reports whether AMX multiplies so many rows by blocks sooner than VNNI. Its code takes 8 or 16 rows at a
// time, and as long for fewer.
static int tiles_worth(int64_t rows) { return rows == 7 || rows == 8 || rows >= 12; }

static const q_linear_code *code(int level, int weights_dtype, int dtype, int64_t rows, int e4m3) {
#if defined(Q_X86)
	if (weights_dtype == Q_U8 && !e4m3) {
		if (level >= Q_AMX && tiles_worth(rows)) return &q_blocks_amx;
		if (level >= Q_AVX512BF16) return &q_blocks_vnni;
		if (level >= Q_AVX512) return &q_blocks_avx512;
		if (level >= Q_AVX2) return &q_blocks_avx2;
	}
	if (by_dots(level, weights_dtype, dtype)) return level >= Q_AMX ? &q_linear_amx : &q_linear_dot;
	if (level >= Q_AMX && weights_dtype == Q_BF16) return &q_linear_avx512_16; // the panels are AMX's
	if (level >= Q_AVX512) return &q_linear_avx512;
	if (level >= Q_AVX2) return &q_linear_avx2;
#endif
	if (weights_dtype == Q_U8 && !e4m3) return &q_blocks_plain;
	return &q_linear_plain;
}

q_layout q_linear_layout_at(int level, int dtype) {
	q_layout l = {level >= Q_AVX512 ? 32 : 16, 1, 4};
	if (dtype == Q_U8) return l;
	if (dtype == Q_BF16 || dtype == Q_S8) l.group = 2;
	if (by_dots(level, dtype, dtype)) {
		l.group = dtype == Q_S8 ? 4 : 2;
		if (level >= Q_AMX) {
			l.panel = 16;
			l.multiple = 32 * l.group / 2;
		}
	}
	return l;
}

q_layout q_linear_layout(int dtype) { return q_linear_layout_at(level(), dtype); }

static size_t scratch_of_row(int64_t in) { return (size_t)((in + 63) / 64 * 64 + 16) * 4; }

size_t q_linear_scratch(int64_t rows, int64_t in) { return (size_t)((rows + 15) / 16 * 16) * scratch_of_row(in); }

// panels_a_task shares panels out: about equal numbers for each thread, in tasks_a_thread tasks each if there are
// enough.
static int64_t panels_a_task(int64_t panels, int64_t threads, int64_t most, int64_t unit, int64_t tasks_a_thread) {
	int64_t best = unit, best_load = 0;
	for (int64_t n = unit; n <= most; n += unit) {
		int64_t tasks = (panels + n - 1) / n;
		if (n > unit && tasks < tasks_a_thread * threads) break;
		int64_t load = (tasks + threads - 1) / threads * n; // load of the busiest thread
		if (!best_load || load <= best_load) best = n, best_load = load;
	}
	return best;
}

// tiles_a_task shares tiles of rows out, about as many to each task; an even number, since some code takes two.
static int64_t tiles_a_task(const q_linear_job *j) {
	if (!j->code->task_bytes) return j->tiles;
	const int64_t bytes = j->code->tile_rows * j->padded_in * q_size(j->l->weights_dtype);
	int64_t most = j->code->task_bytes / bytes / 2 * 2;
	if (most > j->code->task_tiles) most = j->code->task_tiles;
	if (most < 8) most = 8;
	const int64_t shares = (j->tiles + most - 1) / most;
	return ((j->tiles + shares - 1) / shares + 1) / 2 * 2;
}

static _Atomic uint64_t jobs; // so far

static q_linear_job plan_at(int level, int64_t threads, const q_linear *l) {
	q_layout layout = q_linear_layout_at(level, l->weights_dtype);
	q_linear_job j = {l, code(level, l->weights_dtype, l->dtype, l->rows, l->blocks.e4m3), q_padded_in(l->in, layout)};
	j.tiles = (l->rows + j.code->tile_rows - 1) / j.code->tile_rows;
	const int64_t numbers = l->rows * l->in;
	const int own = numbers <= (q_size(l->weights_dtype) == 1 ? j.code->own_bytes : j.code->own_floats);
	j.rows = l->scratch;
	j.packs = own && threads > 1 && l->out >= 128 * threads ? 0 : j.tiles;
	j.number = atomic_fetch_add_explicit(&jobs, 1, memory_order_relaxed) + 1;
	j.panels = q_panels(l->out, l->gate_up, layout);
	// Two panels together may have gates and their ups, and AMX multiplies two at once. Its panels are half as wide, so
	// that a task should have more of them.
	const int tiles = level >= Q_AMX && layout.panel == Q_TURN && l->rows > 16;
	const int64_t unit = tiles || (l->gate_up && layout.panel == Q_TURN) ? 2 : 1;
	j.panels_a_task = panels_a_task(j.panels, threads, 128 / layout.panel, unit, tiles ? 3 : 4);
	j.tiles_a_task = tiles_a_task(&j);
	return j;
}

q_linear_job q_linear_plan(q_frame *f, const q_linear *l) { return plan_at(level(), q_threads(f), l); }

int64_t q_linear_tasks(const q_linear_job *j) {
	return (j->panels + j->panels_a_task - 1) / j->panels_a_task * ((j->tiles + j->tiles_a_task - 1) / j->tiles_a_task);
}

// A thread that packs rows for itself does so at its first task of a job. So their lines need not go from one processor
// to another, and no thread waits until another one has packed.
void q_linear_panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	if (j->packs) {
		j->code->panels(job, task);
		return;
	}
	static _Thread_local struct {
		uint64_t job;
		void *rows;
		size_t size;
	} own;
	const int packed = own.job == j->number;
	const size_t size = q_linear_scratch(j->l->rows, j->l->in);
	if (!packed && own.size < size) {
		free(own.rows);
		own.rows = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
		own.size = own.rows ? size : 0;
	}
	q_linear_job mine = *j;
	if (own.rows) mine.rows = own.rows; // without memory, each thread writes the same to the scratch
	for (int64_t t = 0; !packed && t < j->tiles; t++) j->code->pack_tile(&mine, t);
	own.job = j->number;
	j->code->panels(&mine, task);
}

// parts is a layer cut by its rows, one part per thread: each is a layer that one thread computes. It packs its rows,
// multiplies them by all weights and writes their results. The kernels before and after it have rows as tasks too, so
// that rows rarely move from one processor to another. In return all threads read all weights, at about the same time.
// That is worth it for many rows and narrow matrices: see bench/threads.md.
enum { MAX_PARTS = 64, NARROW = 2048 };
struct parts {
	int64_t packs, tasks; // numbers for one part, at most
	q_linear layers[MAX_PARTS];
	q_adapted adapted[MAX_PARTS];
	q_linear_job jobs[MAX_PARTS];
};

static void pack_part(void *args, int64_t i) {
	struct parts *p = args;
	q_linear_job *j = &p->jobs[i / p->packs];
	if (i % p->packs < j->packs) j->code->pack_tile(j, i % p->packs);
}

static void part_panels(void *args, int64_t i) {
	struct parts *p = args;
	q_linear_panels(&p->jobs[i / p->tasks], i % p->tasks);
}

static void run_parts(int level, q_frame *f, const q_linear *l, int64_t count) {
	const int64_t columns = l->gate_up ? l->out / 2 : l->out, size = q_size(l->dtype);
	struct parts p;
	for (int64_t i = 0; i < count; i++) {
		const int64_t begin = q_share(l->rows, count, i), at = begin * columns;
		q_linear *part = &p.layers[i];
		*part = *l;
		part->rows = q_share(l->rows, count, i + 1) - begin;
		part->x = (const char *)l->x + begin * l->in * size;
		if (l->residual) part->residual = (const char *)l->residual + at * size;
		if (l->adapted) {
			p.adapted[i] = *l->adapted;
			p.adapted[i].inner += begin * l->adapted->ranks;
			p.adapted[i].matrices += begin;
			part->adapted = &p.adapted[i];
		}
		part->y = (char *)l->y + at * (int64_t)q_size(l->result_dtype);
		part->scratch = (char *)l->scratch + begin * scratch_of_row(l->in);
		p.jobs[i] = plan_at(level, 1, part);
	}
	p.packs = p.jobs[0].packs;
	p.tasks = q_linear_tasks(&p.jobs[0]);
	q_parallel_then(f, count * p.packs, pack_part, count * p.tasks, part_panels, &p);
}

void q_linear_run_at(int level, q_frame *f, const q_linear *l) {
	if (l->rows <= 0 || l->out <= 0) return;
	const int64_t threads = q_threads(f), narrow = l->in < NARROW || l->out < NARROW;
	q_linear_job j = plan_at(level, threads, l);
	const int64_t rows = j.code->part_rows;
	if (narrow && rows && threads > 1 && threads <= MAX_PARTS && l->rows >= threads * rows) {
		run_parts(level, f, l, threads);
		return;
	}
	q_parallel_then(f, j.packs, j.code->pack_tile, q_linear_tasks(&j), q_linear_panels, &j);
}

void q_linear_run(q_frame *f, const q_linear *l) { q_linear_run_at(level(), f, l); }

// matrix is what both kernels know of a packed matrix.
typedef struct {
	int64_t in, out;
	int gate_up;
	q_layout layout;
	q_blocks blocks;
} matrix;

// read_blocks is read_matrix of a matrix in blocks.
static q_error *read_blocks(q_frame *f, const q_array *weights, matrix *m, int64_t packed) {
	q_blocks b = q_blocks_of(packed);
	if (!q_blocks_known(b) || m->in % q_unit_in(b))
		return q_fail(
			f, "blocks of %d numbers of %d bits in rows of %lld are not supported", b.size, b.bits, (long long)m->in);
	m->blocks = b;
	m->layout = q_linear_layout(Q_U8);
	return q_shape(f, weights, "weights", Q_U8, q_panels(m->out, m->gate_up, m->layout), m->in / q_unit_in(b),
		q_unit_bytes(b, m->layout.panel));
}

static q_error *read_matrix(q_frame *f, const q_array *weights, matrix *m, int scales) {
	q_error *e;
	if ((e = q_int(f, "in", &m->in)) || (e = q_int(f, "out", &m->out)) || (e = q_bool(f, "gate_up", &m->gate_up)))
		return e;
	int64_t blocks;
	if ((e = q_int(f, "blocks", &blocks))) return e;
	if (blocks) return read_blocks(f, weights, m, blocks);
	if (!is_float(weights->dtype) && weights->dtype != Q_S8)
		return q_fail(f, "weights of element type %d are not supported", weights->dtype);
	if (scales != (weights->dtype == Q_S8)) return q_fail(f, "scales belong to weights of 8 bits");
	m->layout = q_linear_layout(weights->dtype);
	return q_shape(f, weights, "weights", 0, q_panels(m->out, m->gate_up, m->layout),
		q_padded_in(m->in, m->layout) / m->layout.group, m->layout.panel, m->layout.group);
}

// read_rows is how many of the most rows are wanted.
static q_error *read_rows(q_frame *f, const q_array *rows, int64_t most, int64_t *out) {
	q_error *e = q_shape(f, rows, "rows", Q_S32);
	if (e) return e;
	*out = q_wanted(rows, most);
	return NULL;
}

// read_adapted reads the adapters of a layer's rows from its operands, from next on. The caller frees their matrices.
static q_error *read_adapted(q_frame *f, const q_linear *l, int next, int64_t most, q_adapted *a) {
	const q_array *inner = q_arg(f, next), *of = q_arg(f, next + 1), *matrices = q_arg(f, next + 2);
	q_error *e;
	if ((e = q_int(f, "first", &a->first)) || (e = q_int(f, "cut1", &a->cuts[0])) ||
		(e = q_int(f, "cut2", &a->cuts[1])))
		return e;
	if (inner->rank != 2 || matrices->rank != 3)
		return q_fail(f, "the adapters' operands have %lld and %lld dimensions, want 2 and 3", (long long)inner->rank,
			(long long)matrices->rank);
	a->ranks = inner->dims[1];
	a->out = matrices->dims[2];
	const int64_t adapters = matrices->dims[0], bytes = a->ranks * a->out * (int64_t)q_size(l->dtype);
	const int64_t parts = 1 + (a->cuts[0] < a->out) + (a->cuts[1] < a->out);
	if (a->first < 0 || a->first + l->out > a->out || a->ranks % (2 * parts))
		return q_fail(f, "adapters of %lld columns and %lld ranks in %lld parts do not fit %lld outputs from %lld on",
			(long long)a->out, (long long)a->ranks, (long long)parts, (long long)l->out, (long long)a->first);
	if ((e = q_shape(f, inner, "inner", Q_F32, most, a->ranks)) || (e = q_shape(f, of, "adapters", Q_S32, most)) ||
		(e = q_shape(f, matrices, "the adapters' matrices", l->dtype, adapters, a->ranks, a->out)))
		return e;
	a->share = a->ranks / parts;
	a->inner = inner->data;
	a->matrices = malloc((l->rows + 1) * sizeof *a->matrices);
	if (!a->matrices) return q_fail(f, "there is no memory for the adapters of %lld rows", (long long)l->rows);
	for (int64_t i = 0; i < l->rows; i++) {
		const int32_t number = ((const int32_t *)of->data)[i];
		a->matrices[i] = number < 0 || number >= adapters ? NULL : (const char *)matrices->data + number * bytes;
	}
	return NULL;
}

static q_error *linear(q_frame *f, int adapted) {
	if (q_skip(f)) return NULL;
	q_error *e;
	matrix m = {0};
	int bias, residual;
	int64_t activation;
	if ((e = q_bool(f, "bias", &bias)) || (e = q_bool(f, "residual", &residual)) ||
		(e = q_int(f, "activation", &activation)))
		return e;
	if (activation < 0 || activation >= Q_ACTIVATIONS)
		return q_fail(f, "there is no activation %lld", (long long)activation);
	int scales;
	if ((e = q_bool(f, "scales", &scales)) || (e = q_count(f, 3 + scales + bias + residual + 3 * adapted, 2)) ||
		(e = read_matrix(f, q_arg(f, 1), &m, scales)))
		return e;
	if (activation == Q_CLAMPED_SWIGLU && !m.gate_up)
		return q_fail(f, "activation %lld is of gates and ups", (long long)activation);
	const q_array *x = q_arg(f, 0), *y = q_result(f, 0), *scratch = q_result(f, 1);
	if (!is_float(x->dtype) || (y->dtype != x->dtype && y->dtype != Q_F32))
		return q_fail(f, "element types %d of x and %d of the result are not supported", x->dtype, y->dtype);
	if ((e = q_shape(f, x, "x", 0, (int64_t)-1, m.in))) return e;
	int64_t most = x->dims[0], columns = m.gate_up ? m.out / 2 : m.out;
	q_linear l = {.weights_dtype = q_arg(f, 1)->dtype,
		.dtype = x->dtype,
		.result_dtype = y->dtype,
		.blocks = m.blocks,
		.gate_up = m.gate_up,
		.activation = (int)activation,
		.in = m.in,
		.out = m.out};
	if ((e = read_rows(f, q_arg(f, 2), most, &l.rows)) || (e = q_shape(f, y, "the result", 0, most, columns))) return e;
	int next = 3;
	if (scales) {
		const q_array *a = q_arg(f, next++);
		if ((e = q_shape(f, a, "scales", Q_F32, m.out))) return e;
		l.scales = a->data;
	}
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
	q_adapted adapters = {0};
	if ((size_t)q_elements(scratch) * q_size(scratch->dtype) < q_linear_scratch(most, m.in))
		return q_fail(f, "the scratch is too small");
	l.x = x->data;
	l.weights = q_arg(f, 1)->data;
	l.y = y->data;
	l.scratch = scratch->data;
	if (adapted) {
		if ((e = read_adapted(f, &l, next, most, &adapters))) return e;
		l.adapted = &adapters;
	}
	q_linear_run(f, &l);
	free(adapters.matrices);
	return NULL;
}

q_error *quire_linear(q_frame *f) { return linear(f, 0); }

q_error *quire_linear_adapted(q_frame *f) { return linear(f, 1); }

struct gather {
	const int32_t *ids;
	const char *weights;
	const float *scales;
	void *y;
	matrix m;
	size_t size;
	int dtype;
};

// gather_row copies a row of the matrix, or widens it if it is of 8 bits.
static void gather_row(void *args, int64_t t) {
	const struct gather *g = args;
	const q_layout l = g->m.layout;
	int64_t id = g->ids[t], in = q_padded_in(g->m.in, l);
	if (id < 0) id = 0;
	if (id >= g->m.out) id = g->m.out - 1;
	int64_t c = q_packed_column(id, g->m.out, g->m.gate_up);
	const char *from = g->weights + (c / l.panel * in * l.panel + c % l.panel * l.group) * g->size;
	int64_t i = 0;
	const int64_t bytes = l.group * (int64_t)g->size;
	for (; bytes == 4 && !g->scales && i + l.group <= g->m.in; i += l.group)
		memcpy((char *)g->y + (t * g->m.in + i) * (int64_t)g->size, from + i / l.group * l.panel * 4, 4);
	for (; i < g->m.in; i++) {
		const char *element = from + (i / l.group * l.panel * l.group + i % l.group) * g->size;
		int64_t at = t * g->m.in + i;
		if (g->scales) {
			float x = *(const int8_t *)element * g->scales[id];
			if (g->dtype == Q_F32) ((float *)g->y)[at] = x;
			else ((uint16_t *)g->y)[at] = g->dtype == Q_BF16 ? q_to_bf16(x) : q_to_f16(x);
		} else if (g->size == 4) {
			((uint32_t *)g->y)[at] = *(const uint32_t *)element;
		} else {
			((uint16_t *)g->y)[at] = *(const uint16_t *)element;
		}
	}
}

// gather_blocks is gather_row of a matrix in blocks.
static void gather_blocks(void *args, int64_t t) {
	const struct gather *g = args;
	const int64_t in = g->m.in, panel = g->m.layout.panel;
	int64_t id = g->ids[t];
	if (id < 0) id = 0;
	if (id >= g->m.out) id = g->m.out - 1;
	float some[Q_SUPER_IN];
	for (int64_t i = 0; i < in; i += q_unit_in(g->m.blocks)) {
		q_blocks_unit(some, g->weights, g->m.blocks, in, panel, q_packed_column(id, g->m.out, g->m.gate_up), i);
		for (int64_t k = 0; k < q_unit_in(g->m.blocks); k++) {
			int64_t at = t * in + i + k;
			if (g->dtype == Q_F32) ((float *)g->y)[at] = some[k];
			else ((uint16_t *)g->y)[at] = g->dtype == Q_BF16 ? q_to_bf16(some[k]) : q_to_f16(some[k]);
		}
	}
}

q_error *quire_linear_rows(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	int scales;
	struct gather g = {0};
	if ((e = q_bool(f, "scales", &scales)) || (e = q_count(f, 3 + scales, 1)) ||
		(e = read_matrix(f, q_arg(f, 1), &g.m, scales)))
		return e;
	const q_array *ids = q_arg(f, 0), *weights = q_arg(f, 1), *y = q_result(f, 0);
	if ((e = q_shape(f, ids, "ids", Q_S32, -1)) ||
		(e = q_shape(f, y, "the result", scales || g.m.blocks.bits ? 0 : weights->dtype, ids->dims[0], g.m.in)))
		return e;
	if (!is_float(y->dtype)) return q_fail(f, "a result of element type %d is not supported", y->dtype);
	int64_t rows;
	if ((e = read_rows(f, q_arg(f, 2), ids->dims[0], &rows))) return e;
	if (scales) {
		if ((e = q_shape(f, q_arg(f, 3), "scales", Q_F32, g.m.out))) return e;
		g.scales = q_arg(f, 3)->data;
	}
	g.ids = ids->data;
	g.weights = weights->data;
	g.y = y->data;
	g.size = q_size(weights->dtype);
	g.dtype = y->dtype;
	q_parallel(rows > 16 ? f : NULL, rows, g.m.blocks.bits ? gather_blocks : gather_row, &g);
	return NULL;
}
