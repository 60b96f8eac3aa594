// What the kernels of ragged paged attention share: the call, cut into tasks.
#ifndef QUIRE_ATTENTION_TASK_H
#define QUIRE_ATTENTION_TASK_H

#include <stdatomic.h>
#include <stdint.h>

// Q_ATTENTION_BLOCK is how many tokens of context are read at a time. What a token gets depends on it.
#define Q_ATTENTION_BLOCK 32

// q_attention_task is count consecutive tokens of one sequence with heads KV heads.
struct q_attention_task {
	int32_t token, count, head, heads;
	int64_t cost; // some measure of how long it takes
};

struct q_attention {
	const char *q, *cache;
	char *out;
	const int32_t *slots, *pages, *token_seqs, *positions;
	int64_t tokens, heads, kv_heads, dim;
	int64_t page_count, page_size, per_seq, token_bytes;
	int type, cache_type; // element types of q and out, and of cache
	int paged;
	int64_t window;
	float scale, soft_cap;
	const struct q_attention_task *tasks;
	_Atomic int failed; // some task found no memory
};

// q_attend_LEVEL runs task i of args, a struct q_attention.
void q_attend_plain(void *args, int64_t i);
void q_attend_avx2(void *args, int64_t i);
void q_attend_avx512(void *args, int64_t i);

#endif
