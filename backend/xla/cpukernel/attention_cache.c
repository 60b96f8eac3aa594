#define _GNU_SOURCE // madvise
// Kernels that write a cache of keys and values in place. Their result is their operand.
#include "attention.h"

#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "attention_task.h"
#include "code.h"
#include "convert.h"
#include "ffi.h"

static float load(const void *data, int dtype, int64_t i) {
	switch (dtype) {
	case Q_BF16: return q_from_bf16(((const uint16_t *)data)[i]);
	case Q_F16: return q_from_f16(((const uint16_t *)data)[i]);
	default: return ((const float *)data)[i];
	}
}

static void store(void *data, int dtype, int64_t i, float x) {
	switch (dtype) {
	case Q_BF16: ((uint16_t *)data)[i] = q_to_bf16(x); break;
	case Q_F16: ((uint16_t *)data)[i] = q_to_f16(x); break;
	default: ((float *)data)[i] = x; break;
	}
}

static int is_float(int dtype) { return dtype == Q_F32 || dtype == Q_BF16 || dtype == Q_F16; }

// q_in_place checks that the result has the operand's storage: XLA copies an operand that it cannot alias, and then
// it does not.
static q_error *in_place(q_frame *f, const q_array *operand, const q_array *result) {
	if (operand->data == result->data) return NULL;
	return q_fail(f, "the cache is not updated in place");
}

struct update {
	char *cache;
	const char *k, *v;
	const int32_t *dests;
	int64_t tokens, pages, page_size, heads, dim, vector_bytes;
	int64_t each; // vectors per token and head: 1 if v is NULL, else 2
	q_cache_layout lies;
	int cache_type, type;
};

// place returns the position for the vectors of new token t, or NULL.
static char *place(const struct update *u, int64_t t) {
	const int64_t dest = u->dests[t];
	if (dest < 0 || dest >= u->pages * u->page_size) return NULL;
	return u->cache + dest / u->page_size * u->lies.page_bytes + dest % u->page_size * u->lies.token_stride;
}

// write_vector stores vector h of token t of x, keys or values.
static void write_vector(const struct update *u, const char *x, int64_t t, int64_t h, char *to) {
	const int64_t at = (t * u->heads + h) * u->dim, size = q_size(u->type);
	if (q_attention_quantized(u->cache_type)) {
		const struct q_quantize v = {x + at * size, to, u->dim, u->type, u->cache_type};
		q_code_in_use()->quantize(&v);
	} else if (u->type == u->cache_type) {
		memcpy(to, x + at * size, u->dim * size);
	} else {
		for (int64_t d = 0; d < u->dim; d++) store(to, u->cache_type, d, load(x, u->type, at + d));
	}
}

// update_token writes one new token.
static void update_token(const struct update *u, int64_t t) {
	char *to = place(u, t);
	for (int64_t h = 0; to && h < u->heads; h++) {
		write_vector(u, u->k, t, h, to);
		to += u->lies.vector_stride;
		if (!u->v) continue;
		write_vector(u, u->v, t, h, to);
		to += u->lies.vector_stride;
	}
}

// prefetch_token prefetches the place of a new token. New tokens are far apart.
static void prefetch_token(const struct update *u, int64_t t) {
	enum { LINE = 64 };
	const char *to = place(u, t);
	for (int64_t v = 0; to && v < u->each * u->heads; v++, to += u->lies.vector_stride)
		for (int64_t i = 0; i < u->vector_bytes; i += LINE) __builtin_prefetch(to + i, 1, 3);
}

// A task handles UPDATE_TOKENS, and prefetches the places of the token that comes AHEAD later.
enum { UPDATE_TOKENS = 16, AHEAD = 4 };

static void update_tokens(void *args, int64_t task) {
	const struct update *u = args;
	int64_t begin = task * UPDATE_TOKENS, end = begin + UPDATE_TOKENS < u->tokens ? begin + UPDATE_TOKENS : u->tokens;
	for (int64_t t = begin; t < end && t < begin + AHEAD; t++) prefetch_token(u, t);
	for (int64_t t = begin; t < end; t++) {
		if (t + AHEAD < end) prefetch_token(u, t + AHEAD);
		update_token(u, t);
	}
}

q_error *quire_kv_update(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	const int each = q_args(f) == 3 ? 1 : 2;
	int by_head;
	if ((e = q_count(f, 2 + each, 1)) || (e = q_bool(f, "by_head", &by_head))) return e;
	const q_array *cache = q_arg(f, 0), *k = q_arg(f, 1), *v = q_arg(f, each), *dests = q_arg(f, 1 + each);
	const int64_t scale_bytes = q_attention_quantized(cache->dtype) ? Q_ATTENTION_SCALE : 0;
	if ((e = in_place(f, cache, q_result(f, 0))) || (e = q_shape(f, cache, "cache", 0, -1, -1, -1, -1)) ||
		(e = q_shape(f, k, "k", 0, -1, cache->dims[by_head ? 1 : 2] / each, cache->dims[3] - scale_bytes)) ||
		(e = q_shape(f, v, "v", k->dtype, k->dims[0], k->dims[1], k->dims[2])) ||
		(e = q_shape(f, dests, "dests", Q_S32, k->dims[0])))
		return e;
	if ((!is_float(cache->dtype) && !scale_bytes) || !is_float(k->dtype)) {
		return q_fail(f, "element types %d and %d: f32, bf16 and f16 are supported, and s8 and u8 for the cache",
			cache->dtype, k->dtype);
	}
	struct update u = {.cache = cache->data,
		.k = k->data,
		.v = each == 2 ? v->data : NULL,
		.each = each,
		.dests = dests->data,
		.tokens = k->dims[0],
		.pages = cache->dims[0],
		.page_size = cache->dims[by_head ? 2 : 1],
		.heads = k->dims[1],
		.dim = k->dims[2],
		.vector_bytes = cache->dims[3] * q_size(cache->dtype),
		.cache_type = cache->dtype,
		.type = k->dtype};
	u.lies = q_cache_lies(by_head, u.page_size, u.each * u.heads, u.each, u.vector_bytes);
	q_parallel(f, (u.tokens + UPDATE_TOKENS - 1) / UPDATE_TOKENS, update_tokens, &u);
	return NULL;
}

struct copy {
	char *cache;
	const int32_t *from, *to;
	int64_t pages;
	size_t bytes;
};

static void copy_page(void *args, int64_t i) {
	const struct copy *c = args;
	int64_t from = c->from[i], to = c->to[i];
	if (from < 0 || to < 0 || from >= c->pages || to >= c->pages || from == to) return;
	memcpy(c->cache + to * c->bytes, c->cache + from * c->bytes, c->bytes);
}

// page_bytes returns the size of a page of a cache [P, ...].
static int64_t page_bytes(const q_array *cache) {
	int64_t bytes = q_size(cache->dtype);
	for (int64_t i = 1; i < cache->rank; i++) bytes *= cache->dims[i];
	return bytes;
}

static q_error *has_pages(q_frame *f, const q_array *cache) {
	if (cache->rank > 1) return NULL;
	return q_fail(f, "the cache has %d axes: pages and their numbers are needed", (int)cache->rank);
}

q_error *quire_copy_pages(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 3, 1))) return e;
	const q_array *cache = q_arg(f, 0), *from = q_arg(f, 1), *to = q_arg(f, 2);
	if ((e = in_place(f, cache, q_result(f, 0))) || (e = has_pages(f, cache)) ||
		(e = q_shape(f, from, "src", Q_S32, -1)) || (e = q_shape(f, to, "dst", Q_S32, from->dims[0])))
		return e;
	struct copy c = {cache->data, from->data, to->data, cache->dims[0], page_bytes(cache)};
	int64_t copies = 0;
	for (int64_t i = 0; i < from->dims[0]; i++) copies += c.from[i] >= 0 && c.to[i] >= 0;
	// Few pages are copied without waking a thread.
	q_parallel(copies * c.bytes < 1 << 18 ? NULL : f, copies ? from->dims[0] : 0, copy_page, &c);
	return NULL;
}

q_error *quire_zero_pages(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 2, 1))) return e;
	const q_array *cache = q_arg(f, 0), *mask = q_arg(f, 1);
	if ((e = in_place(f, cache, q_result(f, 0))) || (e = has_pages(f, cache)) ||
		(e = q_shape(f, mask, "mask", Q_PRED, cache->dims[0])))
		return e;
	size_t bytes = page_bytes(cache);
	for (int64_t p = 0; p < cache->dims[0]; p++) {
		if (((const uint8_t *)mask->data)[p]) memset((char *)cache->data + p * bytes, 0, bytes);
	}
	return NULL;
}

#if defined(__linux__)
static char *down(char *p, size_t to) { return (char *)((uintptr_t)p / to * to); }
static char *up(char *p, size_t to) { return down(p + to - 1, to); }
#endif

// zeros clears memory without touching what it can return to the system: pages of an anonymous mapping that were
// returned read as zeros, and take memory once they are written. A cache is as large as the memory allows, and most
// jobs use little of it.
static void zeros(char *to, size_t bytes) {
#if defined(__linux__)
	const size_t large = 1 << 21, small = sysconf(_SC_PAGESIZE);
	char *begin = up(to, small), *end = down(to + bytes, small);
	if (bytes >= large && madvise(begin, end - begin, MADV_DONTNEED) == 0) {
		char *first = up(to, large), *last = down(to + bytes, large);
		if (first < last) madvise(first, last - first, MADV_HUGEPAGE); // fewer faults; advice
		memset(to, 0, begin - to);
		memset(end, 0, to + bytes - end);
		return;
	}
#endif
	memset(to, 0, bytes);
}

q_error *quire_zeros(q_frame *f) {
	if (q_skip(f)) return NULL;
	int64_t n;
	q_error *e;
	if ((e = q_int(f, "results", &n)) || (e = q_count(f, 1, n)) || (e = q_shape(f, q_arg(f, 0), "zero", 0))) return e;
	for (int64_t i = 0; i < n; i++) {
		const q_array *y = q_result(f, i);
		zeros(y->data, (size_t)q_elements(y) * q_size(y->dtype));
	}
	return NULL;
}
