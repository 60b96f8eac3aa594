// The tasks of the kernels in recurrence.h, at each level of code. Their bits are the same at all levels: numbers are
// added in one order, and no instruction multiplies and adds at once.
#ifndef QUIRE_RECURRENCE_TASK_H
#define QUIRE_RECURRENCE_TASK_H

#include "recurrence.h"

enum { Q_MAX_KEY = 512, Q_MAX_STATE = 1024 }; // maximum of key_dim and value_dim; of state_dim and head_dim

// A task of conv: blocks of Q_CHANNELS channels of each sequence.
enum { Q_CHANNELS = 256 };

// A task of delta: the tokens of one sequence, for one key head and its value heads.
typedef struct {
	q_sequences s;
	const void *in, *taps;
	const float *decay, *bias, *norm;
	void *y;
	int dtype;
	int64_t key_heads, group, key_dim, value_dim, k; // group: value heads of a key head
	int64_t channels, values, width;                 // numbers of the convolution, of all value heads, of a token
	float eps;
} q_delta;

// A task of mamba: the tokens of one sequence, for one head.
typedef struct {
	q_conv conv; // its y is the input of heads and groups
	const float *decay, *bias, *skip;
	void *y;
	int64_t heads, dim, groups, n;
	float min_step, max_step;
} q_mamba;

// A task of gate: a row.
typedef struct {
	const void *x, *gate;
	void *y;
	int dtype;
	int64_t width;
} q_gate;

// Task i of gated_norm handles rows [i * step, (i + 1) * step) below rows.
typedef struct {
	const void *x, *gate;
	const float *weight;
	void *y;
	int dtype;
	int64_t width, gates, groups; // numbers in a row of x and of gate; groups that are normalized
	float eps;
	int64_t rows, step;
} q_gated_norm;

typedef struct q_recurrences {
	void (*conv)(void *args, int64_t task); // q_conv
	void (*delta)(void *args, int64_t task);
	void (*mamba)(void *args, int64_t task);
	void (*gate)(void *args, int64_t task);
	void (*gated_norm)(void *args, int64_t task);
} q_recurrences;

extern const q_recurrences q_recurrences_plain, q_recurrences_avx2, q_recurrences_avx512;

#endif
