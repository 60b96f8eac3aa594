// The handler of ragged paged attention: it checks the call, cuts it into tasks and runs them at the level of the
// processor.
#include "attention.h"

#include <stdlib.h>
#include <string.h>

#include "attention_task.h"
#include "code.h"

// QUERY_ROWS is about how many rows, queries times heads of a group, share one read of the context.
enum { QUERY_ROWS = 96 };

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

static int by_cost(const void *x, const void *y) {
	int64_t a = ((const struct q_attention_task *)x)->cost, b = ((const struct q_attention_task *)y)->cost;
	return (a < b) - (a > b);
}

// deal concatenates the tasks of each thread's share of q_parallel, the costly ones first, so that shares take about
// the same time and end with small tasks, which other threads may take. There must be room for the result after the
// tasks.
static const struct q_attention_task *deal(struct q_attention_task *tasks, int64_t n, int64_t threads) {
	struct q_attention_task *dealt = tasks + n;
	if (threads > n) threads = n;
	for (int64_t i = 0; i < n; i++) dealt[q_share(n, threads, i % threads) + i / threads] = tasks[i];
	return dealt;
}

// runs divides the tokens into runs of one sequence of at most longest tokens, clears the results of the others, and
// returns the number of runs.
static int64_t runs(const struct q_attention *a, int64_t seqs, int64_t longest, struct q_attention_task *tasks) {
	int64_t n = 0, row = a->heads * a->dim * q_size(a->type);
	for (int64_t t = 0; t < a->tokens; t++) {
		int32_t seq = a->token_seqs[t];
		if (seq < 0 || seq >= seqs || a->positions[t] < 0) {
			memset(a->out + t * row, 0, row);
			continue;
		}
		struct q_attention_task *last = tasks + n - 1;
		if (n && last->token + last->count == t && last->count < longest && a->token_seqs[last->token] == seq)
			last->count++;
		else tasks[n++] = (struct q_attention_task){.token = t, .count = 1, .heads = a->kv_heads};
	}
	for (int64_t i = 0; i < n; i++) {
		int64_t context = q_attention_end(a, tasks[i].token + tasks[i].count - 1);
		if (a->window) context -= q_attention_start(a, tasks[i].token);
		tasks[i].cost = context * (tasks[i].count + 4);
	}
	return n;
}

// attention handles the call; each is how many vectors a token has per KV head.
static q_error *attention(q_frame *f, int64_t each) {
	if (q_skip(f)) return NULL;
	q_error *e;
	const int sinks = q_args(f) == 10;
	if ((e = q_count(f, 9 + sinks, 1))) return e;
	const q_array *q = q_arg(f, 0), *cache = q_arg(f, 1), *slots = q_arg(f, 2), *pages = q_arg(f, 3),
				  *lens = q_arg(f, 4), *starts = q_arg(f, 5), *seqs = q_arg(f, 6), *token_seqs = q_arg(f, 7),
				  *positions = q_arg(f, 8), *out = q_result(f, 0);
	const int64_t scale_bytes = q_attention_quantized(cache->dtype) ? Q_ATTENTION_SCALE : 0;
	if ((e = q_shape(f, q, "q", 0, -1, -1, -1)) ||
		(e = q_shape(f, cache, "cache", 0, -1, -1, -1, q->dims[2] + scale_bytes)) ||
		(e = q_shape(f, out, "the result", q->dtype, q->dims[0], q->dims[1], q->dims[2])) ||
		(e = q_shape(f, slots, "slots", Q_S32, -1)) || (e = q_shape(f, pages, "pages", Q_S32, slots->dims[0], -1)) ||
		(e = q_shape(f, lens, "lens", Q_S32, slots->dims[0])) ||
		(e = q_shape(f, starts, "starts", Q_S32, slots->dims[0] + 1)) || (e = q_shape(f, seqs, "seqs", Q_S32)) ||
		(e = q_shape(f, token_seqs, "token_seqs", Q_S32, q->dims[0])) ||
		(e = q_shape(f, positions, "positions", Q_S32, q->dims[0])))
		return e;
	if ((!is_float(cache->dtype) && !scale_bytes) || !is_float(q->dtype)) {
		return q_fail(f, "element types %d and %d: f32, bf16 and f16 are supported, and s8 and u8 for the cache",
			q->dtype, cache->dtype);
	}
	int by_head;
	if ((e = q_bool(f, "by_head", &by_head))) return e;
	const int64_t vectors = cache->dims[by_head ? 1 : 2], page_size = cache->dims[by_head ? 2 : 1];
	int64_t kv_heads = vectors / each;
	if (kv_heads < 1 || vectors % each || q->dims[1] % kv_heads)
		return q_fail(f, "%lld heads and a cache with %lld vectors a token", (long long)q->dims[1], (long long)vectors);
	if (!cache->dims[0] || !cache->dims[1] || !pages->dims[1]) return q_fail(f, "the cache has no pages");
	if (sinks && (e = q_shape(f, q_arg(f, 9), "sinks", Q_F32, q->dims[1]))) return e;
	double scale, soft_cap;
	const int64_t vector_bytes = q->dims[2] * q_size(cache->dtype) + scale_bytes;
	struct q_attention a = {.sinks = sinks ? q_arg(f, 9)->data : NULL,
		.q = q->data,
		.cache = cache->data,
		.out = out->data,
		.slots = slots->data,
		.pages = pages->data,
		.token_seqs = token_seqs->data,
		.positions = positions->data,
		.tokens = q->dims[0],
		.heads = q->dims[1],
		.kv_heads = kv_heads,
		.dim = q->dims[2],
		.page_count = cache->dims[0],
		.page_size = page_size,
		.per_seq = pages->dims[1],
		.vector_bytes = vector_bytes,
		.each = each,
		.lies = q_cache_lies(by_head, page_size, vectors, each, vector_bytes),
		.type = q->dtype,
		.cache_type = cache->dtype};
	if ((e = q_float(f, "scale", &scale)) || (e = q_float(f, "soft_cap", &soft_cap)) ||
		(e = q_int(f, "window", &a.window)) || (e = q_bool(f, "paged", &a.paged)))
		return e;
	if (a.window < 0 || soft_cap < 0)
		return q_fail(
			f, "a window of %lld and a soft cap of %g: they must be 0 or more", (long long)a.window, soft_cap);
	a.scale = scale;
	a.soft_cap = soft_cap;
	return q_attention_run(f, &a, slots->dims[0]);
}

q_error *q_attention_run(q_frame *f, struct q_attention *a, int64_t seqs) {
	const int64_t kv_heads = a->kv_heads, longest = QUERY_ROWS / (a->heads / kv_heads);
	if (!a->tokens || !a->dim) return NULL;
	struct q_attention_task *tasks = malloc(2 * a->tokens * kv_heads * sizeof *tasks);
	if (!tasks) return q_fail(f, "no memory for %lld tasks", (long long)(a->tokens * kv_heads));
	int64_t n = runs(a, seqs, longest < 1 ? 1 : longest, tasks);
	// With one task per head there is work for more threads and less to hold at a time; lone tokens read their
	// context in larger pieces with all heads in one task.
	int64_t whole = n, threads = n ? q_threads(f) : 1;
	for (int64_t i = n - 1; i >= 0; i--) {
		struct q_attention_task t = tasks[i];
		if (t.count == 1 && n >= 4 * threads) continue;
		t.heads = 1;
		tasks[i] = t;
		for (t.head = 1; t.head < kv_heads; t.head++) tasks[whole++] = t;
	}
	qsort(tasks, whole, sizeof *tasks, by_cost);
	a->tasks = deal(tasks, whole, threads);
	a->task_count = whole;
	q_parallel(f, whole, q_code_in_use()->attend, a);
	free(tasks);
	if (a->failed) return q_fail(f, "no memory for the sums of a task");
	return NULL;
}

q_error *quire_ragged_paged_attention(q_frame *f) { return attention(f, 2); }

q_error *quire_latent_attention(q_frame *f) { return attention(f, 1); }
