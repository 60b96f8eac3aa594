// The threads of q_parallel, whoever lends them.
#ifndef QUIRE_POOL_H
#define QUIRE_POOL_H

#include <stdint.h>

// A pool has so many threads, the calling one included. schedule has another one call work(data), some time, and says
// whether it will.
typedef struct {
	int64_t threads;
	int (*schedule)(void *context, void (*work)(void *), void *data);
	void *context;
} q_pool;

// q_pool_run does what q_parallel_then does, on a pool.
void q_pool_run(q_pool p, int64_t first_tasks, void (*first)(void *args, int64_t i), int64_t tasks,
	void (*task)(void *args, int64_t i), void *args);

// q_pool_waited is how long calls of q_pool_run have waited for other threads, in nanoseconds, all of the process
// together.
int64_t q_pool_waited(void);

// q_pool_check runs some jobs on threads of its own, of which some are late and some never come, and says what is
// wrong, or returns NULL: each task is to run once, and none of the second stage before all of the first are through.
const char *q_pool_check(int64_t threads, int64_t refused, int64_t late, int64_t first_tasks, int64_t tasks);

// q_pool_busy runs jobs of one task for each thread, which is busy for so many nanoseconds.
void q_pool_busy(int64_t threads, int64_t jobs, int64_t nanoseconds);

#endif
