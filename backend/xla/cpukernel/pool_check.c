#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "nanoseconds.h"
#include "pool.h"

// lender lends threads: the first ones are refused, the next ones come late.
typedef struct {
	int64_t refused, late;
} lender;

typedef struct {
	void (*work)(void *);
	void *data;
	int late;
} loan;

static void *lend(void *data) {
	loan l = *(loan *)data;
	free(data);
	if (l.late) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	l.work(l.data);
	return NULL;
}

static int schedule(void *context, void (*work)(void *), void *data) {
	lender *from = context;
	if (from->refused-- > 0) return 0;
	loan *l = malloc(sizeof *l);
	if (!l) return 0;
	*l = (loan){work, data, from->late-- > 0};
	pthread_t thread;
	if (pthread_create(&thread, NULL, lend, l)) {
		free(l);
		return 0;
	}
	pthread_detach(thread);
	return 1;
}

typedef struct {
	int64_t first_tasks;
	_Atomic int64_t first_done;
	_Atomic int early;
	_Atomic int *ran; // how often, of both stages' tasks
} seen;

static void first(void *args, int64_t i) {
	seen *s = args;
	atomic_fetch_add(&s->ran[i], 1);
	for (volatile int k = 0; k < 1000 * (i % 7); k++) {}
	atomic_fetch_add(&s->first_done, 1);
}

static void second(void *args, int64_t i) {
	seen *s = args;
	if (atomic_load(&s->first_done) != s->first_tasks) atomic_store(&s->early, 1);
	for (volatile int k = 0; k < 1000 * (i % 5); k++) {}
	atomic_fetch_add(&s->ran[s->first_tasks + i], 1);
}

// check_job runs one job, and returns what is wrong.
static const char *check_job(q_pool p, int64_t first_tasks, int64_t tasks) {
	seen s = {.first_tasks = first_tasks, .ran = calloc(first_tasks + tasks + 1, sizeof(_Atomic int))};
	if (!s.ran) return "no memory";
	q_pool_run(p, first_tasks, first, tasks, second, &s);
	const char *wrong =
		atomic_load(&s.early) ? "a task of the second stage began before the first stage was done" : NULL;
	for (int64_t i = 0; i < first_tasks + tasks && !wrong; i++) {
		int ran = atomic_load(&s.ran[i]);
		if (ran != 1) wrong = ran ? "a task ran twice" : "a task did not run";
	}
	free(s.ran);
	return wrong;
}

const char *q_pool_check(int64_t threads, int64_t refused, int64_t late, int64_t first_tasks, int64_t tasks) {
	enum { JOBS = 4 }; // a thread reuses its jobs
	lender from = {refused, late};
	const char *wrong = NULL;
	for (int i = 0; i < JOBS && !wrong; i++)
		wrong = check_job((q_pool){threads, schedule, &from}, first_tasks, tasks);
	return wrong;
}

static void busy(void *args, int64_t i) {
	const int64_t until = q_nanoseconds(CLOCK_MONOTONIC) + *(const int64_t *)args;
	while (q_nanoseconds(CLOCK_MONOTONIC) < until) {}
}

void q_pool_busy(int64_t threads, int64_t jobs, int64_t nanoseconds) {
	lender from = {0};
	for (int64_t i = 0; i < jobs; i++)
		q_pool_run((q_pool){threads, schedule, &from}, 0, NULL, threads, busy, &nanoseconds);
}
