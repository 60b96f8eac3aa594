// The threads of q_parallel, regardless of their owner.
#ifndef QUIRE_POOL_H
#define QUIRE_POOL_H

#include <stdint.h>

// A pool has so many threads, including the calling one. schedule makes another one call work(data) eventually, and
// reports whether it will.
typedef struct {
	int64_t threads;
	int (*schedule)(void *context, void (*work)(void *), void *data);
	void *context;
} q_pool;

// q_pool_run does the same as q_parallel_then, on a pool.
void q_pool_run(q_pool p, int64_t first_tasks, void (*first)(void *args, int64_t i), int64_t tasks,
	void (*task)(void *args, int64_t i), void *args);

// q_pool_waited returns how long calls of q_pool_run have waited for other threads, in nanoseconds, summed over the
// process.
int64_t q_pool_waited(void);

// q_pool_check runs some jobs on threads of its own, some of them late and some missing. It returns what is wrong, or
// NULL. Each task must run once, and no task of the second stage before all tasks of the first are done.
const char *q_pool_check(int64_t threads, int64_t refused, int64_t late, int64_t first_tasks, int64_t tasks);

// q_pool_busy runs jobs of one task per thread; each task is busy for so many nanoseconds.
void q_pool_busy(int64_t threads, int64_t jobs, int64_t nanoseconds);

#endif
