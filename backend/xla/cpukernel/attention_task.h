// What the kernels of ragged paged attention share: the call, divided into tasks.
#ifndef QUIRE_ATTENTION_TASK_H
#define QUIRE_ATTENTION_TASK_H

#include <stdatomic.h>
#include <stdint.h>

#include "cpu.h"
#include "ffi.h"

// Q_ATTENTION_BLOCK is how many tokens of context are read at a time. A token's result depends on it.
#define Q_ATTENTION_BLOCK 32

// q_attention_task is count consecutive tokens of one sequence with heads KV heads.
struct q_attention_task {
	int32_t token, count, head, heads;
	int64_t cost; // a measure of its duration
};

// q_cache_layout has the distance of pages in bytes, the tokens per page, and the vectors of a token, which are k0, v0,
// k1, v1, ...: a vector is at page * page_bytes + token in the page * token_stride + vector * vector_stride. Either the
// vectors of a token are adjacent or, by head, the vectors of a page's tokens: see attention.h.
//
// head_bytes is the distance of the keys of a token's KV heads, value_bytes the distance of a value from its key.
typedef struct {
	int64_t page_bytes, token_stride, vector_stride, head_bytes, value_bytes;
} q_cache_layout;

static inline q_cache_layout q_cache_lies(
	int by_head, int64_t page_size, int64_t vectors, int64_t each, int64_t vector_bytes) {
	const int64_t stride = by_head ? page_size * vector_bytes : vector_bytes;
	return (q_cache_layout){page_size * vectors * vector_bytes, by_head ? vector_bytes : vectors * vector_bytes, stride,
		each * stride, (each - 1) * stride};
}

struct q_attention {
	const char *q, *cache;
	char *out;
	const int32_t *slots, *pages, *token_seqs, *positions;
	int64_t tokens, heads, kv_heads, dim;
	int64_t page_count, page_size, per_seq;
	int64_t vector_bytes; // size of a key or a value, with its scale
	int64_t each;         // vectors per token and KV head: 2, or 1 if a value is its key
	q_cache_layout lies;
	int type, cache_type; // element types of q and out, and of cache
	int paged;
	int64_t window;
	// How many positions after its own a token sees, of the sequence's lens; NULL: none.
	int64_t ahead;
	const int32_t *lens;
	// [heads, bias_width]: what is added to a scaled score, by the distance of the key from the query, 0 being at
	// bias_zero; NULL: nothing. A block of keys may be read past the distances that there are.
	const float *bias;
	int64_t bias_width, bias_zero;
	float scale, soft_cap;
	const float *sinks; // [heads], or NULL
	// The next task of a thread usually follows the current one.
	const struct q_attention_task *tasks;
	int64_t task_count;
	_Atomic int failed; // set if a task found no memory
};

// q_attention_start and q_attention_end return the first position that a token sees, and the one after the last.
static inline int64_t q_attention_start(const struct q_attention *a, int64_t token) {
	const int64_t start = (int64_t)a->positions[token] + 1 - a->window;
	return a->window > 0 && start > 0 ? start : 0;
}

static inline int64_t q_attention_end(const struct q_attention *a, int64_t token) {
	const int64_t end = (int64_t)a->positions[token] + 1;
	if (!a->lens) return end;
	const int64_t after = a->lens[a->token_seqs[token]] - end;
	return end + (after < a->ahead ? after : a->ahead);
}

// q_attention_run runs the tasks of a call on seqs sequences.
q_error *q_attention_run(q_frame *f, struct q_attention *a, int64_t seqs);

// Caches of bytes, Q_S8 or, for 8-bit floats (e4m3), Q_U8: a key or value of dim numbers is dim bytes and a float32
// factor. Vectors whose numbers are all below Q_ATTENTION_TINY are zeros, with a scale of 0.
enum { Q_ATTENTION_SCALE = 4 };
#define Q_ATTENTION_TINY 0x1p-100f

static inline int q_attention_quantized(int dtype) { return dtype == Q_S8 || dtype == Q_U8; }

// q_quantize writes dim numbers, of a float type, as such a vector.
struct q_quantize {
	const char *from;
	char *to;
	int64_t dim;
	int type, cache_type;
};

void q_quantize_plain(const struct q_quantize *v);
void q_quantize_avx2(const struct q_quantize *v);
void q_quantize_avx512(const struct q_quantize *v);

// q_attend_LEVEL runs task i of args, a struct q_attention.
void q_attend_plain(void *args, int64_t i);
void q_attend_avx2(void *args, int64_t i);
void q_attend_avx512(void *args, int64_t i);
void q_attend_dot(void *args, int64_t i);
void q_attend_amx(void *args, int64_t i);

// q_attention_by_tiles reports whether code multiplies queries and keys by tiles of AMX. Then scores are rounded
// differently from other levels. It depends only on the model, so that a row gets the same in any call.
static inline int q_attention_by_tiles(void (*attend)(void *, int64_t), const struct q_attention *a) {
#if defined(Q_X86)
	return attend == q_attend_amx && a->type == Q_BF16 && a->cache_type == Q_BF16 && a->dim % 32 == 0;
#else
	return 0;
#endif
}

#endif
