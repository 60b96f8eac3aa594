#define _POSIX_C_SOURCE 200809L
#include "step_clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "crowd.h"
#include "nanoseconds.h"
#include "pool.h"

static _Atomic int64_t fewer_ns;

int64_t q_step_fewer_ns(void) { return atomic_load_explicit(&fewer_ns, memory_order_relaxed); }

// use_threads makes the next step run on the best number of threads after a step of some kind that took from last, 0
// for none, to now. If several programs run at once, only the steps of the one count that started last.
static void use_threads(q_frame *f, int64_t kind, int64_t last, int64_t now) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static q_crowd crowd;
	static int64_t last_step, last_waited;
	// this thread's previous call, and its processor time then
	static _Thread_local int64_t last_here, last_ran;
	const int64_t ran = q_nanoseconds(CLOCK_THREAD_CPUTIME_ID), waited = q_pool_waited(), all = q_all_threads(f);
	pthread_mutex_lock(&lock);
	if (crowd.most != all) {
		crowd = (q_crowd){.most = all};
		q_use_threads(all);
	}
	if (last != 0 && last == last_step) {
		if (crowd.threads > 0 && crowd.threads < all)
			atomic_fetch_add_explicit(&fewer_ns, now - last, memory_order_relaxed);
		const int64_t away = last == last_here ? now - last - (ran - last_ran) : 0, waits = waited - last_waited;
		q_use_threads(q_crowd_step(&crowd, (int)kind, now - last, away > waits ? away : waits));
	}
	if (last == 0 || last == last_step) last_step = now, last_waited = waited;
	pthread_mutex_unlock(&lock);
	last_here = now, last_ran = ran;
}

q_error *quire_step_clock(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 2, 2)) || (e = q_shape(f, q_arg(f, 0), "clock", Q_S64, -1)) ||
		(e = q_check_shape(f, q_arg(f, 1), "kind", Q_S32, 0, NULL)) ||
		(e = q_shape(f, q_result(f, 0), "new clock", Q_S64, q_arg(f, 0)->dims[0])) ||
		(e = q_check_shape(f, q_result(f, 1), "same kind", Q_S32, 0, NULL)))
		return e;
	int64_t kinds = q_arg(f, 0)->dims[0] - 2;
	if (kinds < 1) return q_fail(f, "the clock has %lld places, but needs 3 at least", (long long)kinds + 2);
	int64_t *clock = q_result(f, 0)->data;
	if (clock != q_arg(f, 0)->data) memcpy(clock, q_arg(f, 0)->data, (size_t)(kinds + 2) * sizeof *clock);
	int32_t kind;
	memcpy(&kind, q_arg(f, 1)->data, sizeof kind);
	const int64_t now = q_nanoseconds(CLOCK_MONOTONIC), last = clock[1];
	if (clock[0] != 0 && last >= 0 && last < kinds) clock[2 + last] += now - clock[0];
	use_threads(f, last, clock[0], now);
	clock[0] = now;
	clock[1] = kind;
	memcpy(q_result(f, 1)->data, &kind, sizeof kind);
	return NULL;
}
