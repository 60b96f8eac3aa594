// How many threads kernels use while other processes take the processors: a kernel waits for the slowest of its
// threads, and one that has lost its processor to another process keeps all of them waiting.
#ifndef QUIRE_CROWD_H
#define QUIRE_CROWD_H

#include <stdint.h>

enum { Q_CROWD_KINDS = 8 };

// q_crowd_sum is the time of steps, in nanoseconds.
typedef struct {
	int64_t steps, ns;
} q_crowd_sum;

// q_crowd decides by the steps of one program. All zero but most, it is at its beginning. It looks at spans of some
// steps. Where much of a span was lost, the next one is a trial of fewer threads: of one or some fewer, and where that
// fails, later of half of them, of a quarter and of one. A number that was tried stays if its steps took clearly less
// time than those before it. There are trials of more threads too, which stay as well if little was lost and the steps
// took about as long.
typedef struct {
	int64_t most;    // threads there may be
	int64_t threads; // in use; 0 is most
	int64_t before;  // while others are tried: how many there were
	q_crowd_sum then[Q_CROWD_KINDS], now[Q_CROWD_KINDS];
	int64_t span, lost; // of now, in nanoseconds
	int64_t rest;       // until the next trial
	int64_t pause;      // the last one between trials
	int failed;         // trials of fewer threads, since the last one that did not
} q_crowd;

// q_crowd_step counts a step of some kind, below Q_CROWD_KINDS, that took ns, of which lost were not for work. It
// returns how many threads the next one is to use.
int64_t q_crowd_step(q_crowd *c, int kind, int64_t ns, int64_t lost);

#endif
