// How many threads kernels use while other processes occupy the processors: a kernel waits for the slowest of its
// threads, and one that has lost its processor to another process delays all of them.
#ifndef QUIRE_CROWD_H
#define QUIRE_CROWD_H

#include <stdint.h>

enum { Q_CROWD_KINDS = 8 };

// q_crowd_sum is the time of steps, in nanoseconds.
typedef struct {
	int64_t steps, ns;
} q_crowd_sum;

// q_crowd decides from the steps of one program. Initially all fields except most are zero. It looks at spans of
// several steps. If much of a span was lost, the next one is a trial with fewer threads: with one or some fewer and,
// if that fails, later with half of them, a quarter and one. A number that was tried is kept if its steps took
// clearly less time than the ones before. There are also trials with more threads, which are kept if little was lost
// and the steps took about as long.
typedef struct {
	int64_t most;    // maximum number of threads
	int64_t threads; // threads in use; 0 means most
	int64_t before;  // during a trial: the previous number
	q_crowd_sum then[Q_CROWD_KINDS], now[Q_CROWD_KINDS];
	int64_t span, lost; // the current span and its loss, in nanoseconds
	int64_t rest;       // time until the next trial
	int64_t pause;      // the last pause between trials
	int failed;         // consecutive failed trials of fewer threads
} q_crowd;

// q_crowd_step counts a step of some kind, below Q_CROWD_KINDS, that took ns. lost is the part of ns that was not used
// for work. It returns how many threads the next one should use.
int64_t q_crowd_step(q_crowd *c, int kind, int64_t ns, int64_t lost);

#endif
