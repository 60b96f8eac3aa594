// The code in use for everything except products of matrices: attention, normalization, rotation, sampling and
// recurrences at one level.
#ifndef QUIRE_CODE_H
#define QUIRE_CODE_H

#include <stdint.h>

struct q_quantize;
struct q_recurrences;

// Each runs a task of q_parallel: see attention_task.h, norm.h, sampling.h and recurrence_task.h for the arguments.
typedef struct {
	void (*attend)(void *args, int64_t task);
	void (*quantize)(const struct q_quantize *v); // handles a vector, not a task
	void (*norm_rows)(void *args, int64_t task);
	void (*rope_rows)(void *args, int64_t task);
	void (*sample_row)(void *args, int64_t task);
	void (*logprobs_row)(void *args, int64_t task);
	void (*entropy_row)(void *args, int64_t task);
	const struct q_recurrences *recurrences;
} q_code;

// q_code_at returns the code of a level, or of the next lower level that has one.
const q_code *q_code_at(int level);

// q_code_use sets the level of the code in use, q_code_in_use returns that code: plain by default.
void q_code_use(int level);
const q_code *q_code_in_use(void);

// q_code_same reports whether code gives the bytes of AVX2's for fixed inputs, which exercise every branch of its
// loops. If q_attention_by_tiles holds, attention may round differently. It takes about 10 ms, and needs a processor
// that has both.
int q_code_same(const q_code *code);

#endif
