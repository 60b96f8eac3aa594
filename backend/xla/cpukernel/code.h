// The code in use for what is not a product of matrices: attention, normalization, rotation, sampling and recurrences
// at one level.
#ifndef QUIRE_CODE_H
#define QUIRE_CODE_H

#include <stdint.h>

struct q_quantize;
struct q_recurrences;

// Each runs a task of q_parallel: see attention_task.h, norm.h, sampling.h and recurrence_task.h for the arguments.
typedef struct {
	void (*attend)(void *args, int64_t task);
	void (*quantize)(const struct q_quantize *v); // no task, but a vector
	void (*norm_rows)(void *args, int64_t task);
	void (*rope_rows)(void *args, int64_t task);
	void (*sample_row)(void *args, int64_t task);
	void (*logprobs_row)(void *args, int64_t task);
	void (*entropy_row)(void *args, int64_t task);
	const struct q_recurrences *recurrences;
} q_code;

// q_code_at is the code of a level: that of the next lower one where a level has none.
const q_code *q_code_at(int level);

// q_code_use sets the level of the code in use, q_code_in_use returns that code: plain before.
void q_code_use(int level);
const q_code *q_code_in_use(void);

// q_code_same says that code gives the bytes of AVX2's for fixed inputs, which take its loops' every turn. Where
// q_attention_by_tiles holds, attention may round otherwise. It takes about 10 ms, and needs a processor that has both.
int q_code_same(const q_code *code);

#endif
