#include "drafts.h"

#include <string.h>

static int64_t bounded(int64_t x, int64_t least, int64_t most) { return x < least ? least : x > most ? most : x; }

// text is a call of quire_draft_text.
typedef struct {
	int64_t width, most, longest, shortest;
	const int32_t *texts, *lens;
	int32_t *tokens, *matches;
} text;

static void draft_text(const text *c, int64_t row) {
	const int32_t *t = c->texts + row * c->width;
	const int64_t last = bounded(c->lens[row], 0, c->width - 1);
	int64_t best = 0, from = 0;
	for (int64_t p = last - 1; p >= 0 && best < c->longest; p--) {
		int64_t same = 0;
		while (same < c->longest && same <= p && t[p - same] == t[last - same]) same++;
		if (same >= c->shortest && same > best) best = same, from = p;
	}
	const int64_t period = last > from ? last - from : 1;
	for (int64_t i = 0; i < c->most; i++)
		c->tokens[row * c->most + i] = t[bounded(from + 1 + i % period, 0, c->width - 1)];
	c->matches[row] = (int32_t)best;
}

q_error *quire_draft_text(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	text c;
	if ((e = q_count(f, 3, 2)) || (e = q_int(f, "longest", &c.longest)) || (e = q_int(f, "shortest", &c.shortest)) ||
		(e = q_shape(f, q_arg(f, 0), "texts", Q_S32, -1, -1)))
		return e;
	const int64_t d = q_arg(f, 0)->dims[0];
	c.width = q_arg(f, 0)->dims[1];
	if ((e = q_shape(f, q_arg(f, 1), "lens", Q_S32, d)) ||
		(e = q_check_shape(f, q_arg(f, 2), "rows", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 0), "tokens", Q_S32, d, -1)) ||
		(e = q_shape(f, q_result(f, 1), "matches", Q_S32, d)))
		return e;
	if (c.width < 1) return q_fail(f, "texts have no tokens");
	c.most = q_result(f, 0)->dims[1];
	c.texts = q_arg(f, 0)->data;
	c.lens = q_arg(f, 1)->data;
	c.tokens = q_result(f, 0)->data;
	c.matches = q_result(f, 1)->data;
	memset(c.tokens, 0, (size_t)(d * c.most) * sizeof *c.tokens);
	memset(c.matches, 0, (size_t)d * sizeof *c.matches);
	const int64_t rows = q_wanted(q_arg(f, 2), d);
	for (int64_t row = 0; row < rows; row++) draft_text(&c, row);
	return NULL;
}

enum { MOST_KEYS = 8 };

// written is a call of quire_draft_log.
typedef struct {
	int64_t size, most, keys, oldest;
	const int32_t *tokens, *next, *of_ends[MOST_KEYS], *of_log[MOST_KEYS];
	int32_t *drafts, *counts, *matches;
} written;

// find returns the place of the longest match, and how many keys it has in common.
static int64_t find(const written *c, int64_t row, int64_t *matches) {
	enum { SOME = 64 }; // places are checked together, because compilers vectorize that
	const int32_t key = c->of_ends[0][row], *keys = c->of_log[0];
	int64_t best = 0, at = 0;
	for (int64_t from = 0; from < c->size; from += SOME) {
		const int64_t to = bounded(from + SOME, 0, c->size);
		int any = 0;
		for (int64_t i = from; i < to; i++) any |= keys[i] == key;
		for (int64_t i = from; any && i < to; i++) {
			if (keys[i] != key || c->next[i] <= 0) continue;
			int64_t level = 1;
			while (level < c->keys && c->of_log[level][i] == c->of_ends[level][row]) level++;
			const int64_t age = i >= c->oldest ? i - c->oldest : i - c->oldest + c->size;
			if (level * c->size + age > best) best = level * c->size + age, at = i;
		}
	}
	*matches = best / c->size;
	return at;
}

static void draft_log(const written *c, int64_t row) {
	int64_t level, n = 0, at = find(c, row, &level);
	int32_t *to = c->drafts + row * c->most;
	for (int32_t link = level > 0 ? c->next[at] : 0; link > 0 && n < c->most; link = c->next[at]) {
		at = (link - 1) % c->size;
		to[n++] = c->tokens[at];
	}
	c->counts[row] = (int32_t)n;
	c->matches[row] = (int32_t)level;
}

q_error *quire_draft_log(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	written c;
	c.keys = (q_args(f) - 4) / 2;
	if (c.keys < 1 || c.keys > MOST_KEYS)
		return q_fail(f, "a log has 1 to %d keys, not %lld", MOST_KEYS, (long long)c.keys);
	if ((e = q_count(f, 4 + 2 * c.keys, 3)) || (e = q_check_shape(f, q_arg(f, 0), "count", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_arg(f, 1), "tokens", Q_S32, -1)) || (e = q_shape(f, q_result(f, 0), "drafts", Q_S32, -1, -1)))
		return e;
	const int64_t d = q_result(f, 0)->dims[0];
	c.size = q_arg(f, 1)->dims[0];
	c.most = q_result(f, 0)->dims[1];
	if (c.size < 1) return q_fail(f, "the log has no places");
	if ((e = q_shape(f, q_arg(f, 2), "next", Q_S32, c.size)) ||
		(e = q_check_shape(f, q_arg(f, 3), "rows", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 1), "counts", Q_S32, d)) || (e = q_shape(f, q_result(f, 2), "matches", Q_S32, d)))
		return e;
	for (int64_t i = 0; i < c.keys; i++) {
		const q_array *of_ends = q_arg(f, (int)(4 + i)), *of_log = q_arg(f, (int)(4 + c.keys + i));
		if ((e = q_shape(f, of_ends, "keys of ends", Q_S32, d)) ||
			(e = q_shape(f, of_log, "keys of the log", Q_S32, c.size)))
			return e;
		c.of_ends[i] = of_ends->data;
		c.of_log[i] = of_log->data;
	}
	c.oldest = bounded(*(const int32_t *)q_arg(f, 0)->data, 0, INT32_MAX) % c.size;
	c.tokens = q_arg(f, 1)->data;
	c.next = q_arg(f, 2)->data;
	c.drafts = q_result(f, 0)->data;
	c.counts = q_result(f, 1)->data;
	c.matches = q_result(f, 2)->data;
	memset(c.drafts, 0, (size_t)(d * c.most) * sizeof *c.drafts);
	memset(c.counts, 0, (size_t)d * sizeof *c.counts);
	memset(c.matches, 0, (size_t)d * sizeof *c.matches);
	const int64_t rows = q_wanted(q_arg(f, 3), d);
	for (int64_t row = 0; row < rows; row++) draft_log(&c, row);
	return NULL;
}
