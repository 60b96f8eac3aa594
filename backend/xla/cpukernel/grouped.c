#include "grouped.h"

#include <stdlib.h>
#include <string.h>

int q_groups_make(q_groups *g, int64_t matrices) {
	*g = (q_groups){.matrices = matrices};
	g->begins = malloc((matrices + 1) * 3 * sizeof *g->begins);
	g->layers = malloc(matrices * sizeof *g->layers);
	g->jobs = malloc(matrices * sizeof *g->jobs);
	if (!g->begins || !g->layers || !g->jobs) {
		q_groups_free(g);
		return 0;
	}
	g->tiles = g->begins + matrices + 1;
	g->tasks = g->tiles + matrices + 1;
	return 1;
}

void q_groups_free(q_groups *g) {
	free(g->begins);
	free(g->layers);
	free(g->jobs);
}

void q_groups_sort(q_groups *g, const int32_t *of, int64_t elements, int32_t *order) {
	memset(g->begins, 0, (g->matrices + 1) * sizeof *g->begins);
	for (int64_t i = 0; i < elements; i++) {
		if (of[i] >= 0 && of[i] < g->matrices) g->begins[of[i] + 1]++;
	}
	for (int64_t e = 0; e < g->matrices; e++) g->begins[e + 1] += g->begins[e];
	for (int64_t i = 0; i < elements; i++)
		order[i] = of[i] < 0 || of[i] >= g->matrices ? -1 : (int32_t)g->begins[of[i]]++;
	memmove(g->begins + 1, g->begins, g->matrices * sizeof *g->begins); // each was moved to the next one's start
	g->begins[0] = 0;
}

int64_t q_groups_tiles(int64_t elements, int64_t matrices) {
	return elements + 15 * (matrices < elements ? matrices : elements);
}

// find returns the last element of begins that is not above i.
static int64_t find(const int64_t *begins, int64_t count, int64_t i) {
	int64_t low = 0, high = count - 1;
	while (low < high) {
		const int64_t middle = (low + high + 1) / 2;
		if (begins[middle] <= i) low = middle;
		else high = middle - 1;
	}
	return low;
}

static void pack_tile(void *args, int64_t i) {
	const q_groups *g = args;
	const int64_t at = find(g->tiles, g->count, i);
	g->jobs[at].code->pack_tile(&g->jobs[at], i - g->tiles[at]);
}

static void panels(void *args, int64_t i) {
	const q_groups *g = args;
	const int64_t at = find(g->tasks, g->count, i);
	q_linear_panels(&g->jobs[at], i - g->tasks[at]);
}

void q_groups_run(q_frame *f, q_groups *g, const q_linear *of, int64_t matrix_bytes) {
	const int64_t columns = of->gate_up ? of->out / 2 : of->out, size = q_size(of->dtype);
	char *scratch = of->scratch;
	g->count = g->tiles[0] = g->tasks[0] = 0;
	for (int64_t e = 0; e < g->matrices; e++) {
		const int64_t begin = g->begins[e], rows = g->begins[e + 1] - begin;
		if (!rows) continue;
		q_linear *l = &g->layers[g->count];
		*l = *of;
		l->rows = rows;
		l->x = (const char *)of->x + begin * of->in * size;
		l->weights = (const char *)of->weights + e * matrix_bytes;
		if (of->scales) l->scales = of->scales + e * of->out;
		if (of->bias) l->bias = (const char *)of->bias + e * of->out * size;
		l->y = (char *)of->y + begin * columns * (int64_t)q_size(of->result_dtype);
		l->scratch = scratch;
		scratch += q_linear_scratch(rows, l->in);
		q_linear_job *j = &g->jobs[g->count];
		*j = q_linear_plan(f, l);
		g->count++;
		g->tiles[g->count] = g->tiles[g->count - 1] + j->packs;
		g->tasks[g->count] = g->tasks[g->count - 1] + q_linear_tasks(j);
	}
	q_parallel_then(f, g->tiles[g->count], pack_tile, g->tasks[g->count], panels, g);
}
