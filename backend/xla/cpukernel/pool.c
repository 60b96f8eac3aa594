// The threads that kernels share: tasks in equal shares, and helpers that stay awake from one kernel to the next.
#define _POSIX_C_SOURCE 200809L
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ffi.h"
#include "nanoseconds.h"

// A job has one or two stages: no task of the second starts before all of the first are done.
enum { STAGES = 2, LINE = 64 };

// share is what is left of a thread's tasks in each stage: the first in the low half, the end in the high half. The
// thread takes them from the front, because they are adjacent; other threads, once they have none, take the last.
typedef struct {
	_Alignas(LINE) _Atomic uint64_t left[STAGES];
} share;

static int64_t take(share *s, int at, int last) {
	uint64_t left = atomic_load_explicit(&s->left[at], memory_order_relaxed);
	for (;;) {
		uint64_t first = (uint32_t)left, end = left >> 32;
		if (first >= end) return -1;
		uint64_t then = last ? (end - 1) << 32 | first : end << 32 | (first + 1);
		if (atomic_compare_exchange_weak_explicit(
				&s->left[at], &left, then, memory_order_relaxed, memory_order_relaxed))
			return (int64_t)(last ? end - 1 : first);
	}
}

typedef struct {
	void (*task)(void *, int64_t);
	int64_t tasks;
} stage;

// job is the work of one q_parallel. It lives until the last thread that was asked to help has looked at it, which may
// be long after q_parallel has returned. args does not live that long, but is only used for a task that was taken, and
// q_parallel waits for such tasks. The data that helpers need is on few cache lines, because each line moves from one
// processor to another.
typedef struct {
	_Alignas(LINE) _Atomic int64_t came; // number of threads that have a share
	int64_t threads;
	void *args;
	stage stages[STAGES];
	_Alignas(LINE) _Atomic int64_t done[STAGES]; // number of tasks that are done
	_Atomic int64_t owners;                      // number of threads that may still look at the job
	_Atomic int waiting;                         // threads that sleep until a stage is done
	int64_t most;                                // number of shares
	pthread_mutex_t lock;
	pthread_cond_t stage_done;
	share shares[]; // [most]
} job;

static job *new_job(int64_t most) {
	size_t size = sizeof(job) + most * sizeof(share);
	job *j = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
	if (!j) return NULL;
	j->most = most;
	atomic_init(&j->owners, 1);
	atomic_init(&j->waiting, 0);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->stage_done, NULL);
	return j;
}

static void release(job *j) {
	if (!j || atomic_fetch_sub_explicit(&j->owners, 1, memory_order_acq_rel) != 1) return;
	pthread_cond_destroy(&j->stage_done);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

// take_job returns a job for so many threads, each of which owns it until it calls release. It reuses the calling
// thread's last but one job if no thread looks at that any more, so that no thread frees memory that another thread
// allocated.
static job *take_job(int64_t threads) {
	static _Thread_local job *jobs[2]; // also owned
	static _Thread_local int turn;
	job **at = &jobs[turn ^= 1];
	if (!*at || (*at)->most < threads || atomic_load_explicit(&(*at)->owners, memory_order_acquire) != 1) {
		release(*at);
		*at = new_job(threads);
	}
	if (*at) atomic_fetch_add_explicit(&(*at)->owners, threads, memory_order_relaxed);
	return *at;
}

int64_t q_share(int64_t tasks, int64_t threads, int64_t thread) {
	int64_t more = tasks % threads;
	return thread * (tasks / threads) + (thread < more ? thread : more);
}

static void set_stage(job *j, int at, int64_t tasks, void (*task)(void *, int64_t)) {
	j->stages[at] = (stage){task, tasks};
	atomic_store_explicit(&j->done[at], 0, memory_order_relaxed);
	for (int64_t i = 0; i < j->threads; i++) {
		uint64_t first = q_share(tasks, j->threads, i), end = q_share(tasks, j->threads, i + 1);
		atomic_store_explicit(&j->shares[i].left[at], end << 32 | first, memory_order_relaxed);
	}
}

// Kernels run with subnormal numbers flushed to zero, as XLA's own code does, on every thread, because a result must
// not depend on the thread.
#if defined(__x86_64__)
enum { FLUSH = 0x8040 }; // FTZ and DAZ of MXCSR

static unsigned begin_flush(void) {
	unsigned before = __builtin_ia32_stmxcsr();
	__builtin_ia32_ldmxcsr(before | FLUSH);
	return before;
}

static void end_flush(unsigned before) { __builtin_ia32_ldmxcsr(before); }
#else
static unsigned begin_flush(void) { return 0; }

static void end_flush(unsigned before) { (void)before; }
#endif

static void pause_briefly(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

// A waiting thread looks this many times, some tens of nanoseconds apart, and then yields its processor: the thread
// that it waits for may need it. A kernel may run a thread on the processor of the one that wakes it, although
// another processor is idle: see bench/threads.md.
enum { LOOKS = 128 };

// run does tasks of a stage until all are taken. The tasks done from one share are counted together, at the end.
static void run(job *j, int at, int64_t thread) {
	const int64_t tasks = j->stages[at].tasks;
	void (*task)(void *, int64_t) = j->stages[at].task;
	for (int64_t k = 0; tasks > 0 && k < j->threads; k++) {
		share *of = j->shares + (thread + k) % j->threads;
		int64_t mine = 0;
		for (int64_t i; (i = take(of, at, k > 0)) >= 0; mine++) task(j->args, i);
		if (mine && atomic_fetch_add(&j->done[at], mine) + mine == tasks && atomic_load(&j->waiting)) {
			pthread_mutex_lock(&j->lock);
			pthread_cond_broadcast(&j->stage_done);
			pthread_mutex_unlock(&j->lock);
		}
	}
}

static int is_done(job *j, int at) {
	return atomic_load_explicit(&j->done[at], memory_order_acquire) == j->stages[at].tasks;
}

// finish waits until the other threads are done with their last tasks of a stage: usually sleeping is not worth it.
static void finish(job *j, int at) {
	for (int i = 1; i <= 4096; i++) {
		if (is_done(j, at)) return;
		pause_briefly();
		if (i % LOOKS == 0) sched_yield();
	}
	pthread_mutex_lock(&j->lock);
	atomic_fetch_add(&j->waiting, 1);
	while (atomic_load(&j->done[at]) < j->stages[at].tasks) pthread_cond_wait(&j->stage_done, &j->lock);
	atomic_fetch_sub(&j->waiting, 1);
	pthread_mutex_unlock(&j->lock);
}

static _Atomic int64_t waited; // waiting time of threads that called q_pool_run, in nanoseconds

int64_t q_pool_waited(void) { return atomic_load_explicit(&waited, memory_order_relaxed); }

// finish_own is finish for the thread that owns the job.
static void finish_own(job *j, int at) {
	if (is_done(j, at)) return;
	const int64_t begin = q_nanoseconds(CLOCK_MONOTONIC);
	finish(j, at);
	atomic_fetch_add_explicit(&waited, q_nanoseconds(CLOCK_MONOTONIC) - begin, memory_order_relaxed);
}

// work does what is left to do of a job, and waits for the end of all stages except the last.
static void work(job *j, int64_t thread, void (*wait)(job *, int)) {
	unsigned mode = begin_flush();
	for (int at = 0; at < STAGES; at++) {
		run(j, at, thread);
		if (at + 1 < STAGES) wait(j, at);
	}
	end_flush(mode);
}

// A thread that has helped stays in a seat for a moment, so that the next job finds it at once: kernels follow each
// other by microseconds, and waking a thread takes tens of them. A seat is empty (NULL), its thread waits (&nobody), or
// it holds the job that its thread helps with.
typedef struct {
	_Alignas(LINE) _Atomic(job *) job;
} seat;

enum { SEATS = 128, STAY_NS = 1000000 };
static seat seats[SEATS];
static _Atomic int seated; // number of seats that were ever taken
static _Atomic int awake;  // number of threads that help or wait in a seat
static job nobody;

// sit takes a seat, or returns NULL if there is none.
static seat *sit(void) {
	for (int i = 0; i < SEATS; i++) {
		job *empty = NULL;
		if (!atomic_compare_exchange_strong(&seats[i].job, &empty, &nobody)) continue;
		for (int s = atomic_load(&seated); s <= i && !atomic_compare_exchange_weak(&seated, &s, i + 1);) {}
		return &seats[i];
	}
	return NULL;
}

// stay waits in a seat for a job. If none comes in time, it leaves the seat and returns NULL.
static job *stay(seat *s) {
	for (int64_t until = q_nanoseconds(CLOCK_MONOTONIC) + STAY_NS; q_nanoseconds(CLOCK_MONOTONIC) < until;) {
		for (int i = 0; i < LOOKS; i++) { // reading the clock takes longer than a look
			job *j = atomic_load_explicit(&s->job, memory_order_acquire);
			if (j != &nobody) return j;
			pause_briefly();
		}
		sched_yield();
	}
	job *j = &nobody;
	return atomic_compare_exchange_strong(&s->job, &j, NULL) ? NULL : j;
}

// give_job gives the job to a waiting thread, and reports whether there was one. While other threads are awake, it
// looks for one several times: a thread that has just finished another job sits down sooner than a sleeping one
// wakes, and with one more awake there may be more threads than processors. So for half of the looks it waits for the
// threads of the first seats, if these are all taken: threads in other seats exceed what is needed, and leave if no
// job comes.
static int give_job(job *j, int looks) {
	const int later = looks / 2;
	for (; looks > 0 && atomic_load_explicit(&awake, memory_order_relaxed) > 0; looks--) {
		int patient = looks > later;
		for (int i = 0; i < atomic_load_explicit(&seated, memory_order_relaxed); i++) {
			job *in = atomic_load_explicit(&seats[i].job, memory_order_relaxed);
			if (in == &nobody && atomic_compare_exchange_strong(&seats[i].job, &in, j)) return 1;
			if (!in) patient = 0;
			if (patient && i + 1 == j->threads - 1) break;
		}
		pause_briefly();
	}
	return 0;
}

static void help(void *data) {
	atomic_fetch_add(&awake, 1);
	seat *s = NULL;
	for (job *j = data; j; j = s ? stay(s) : NULL) {
		__builtin_prefetch(&j->shares[1], 1); // likely its own
		int64_t thread = atomic_fetch_add_explicit(&j->came, 1, memory_order_relaxed);
		for (int i = 0; i < 4; i++) __builtin_prefetch((char *)j->args + i * LINE);
		work(j, thread, finish);
		release(j);
		if (s) atomic_store(&s->job, &nobody);
		else s = sit();
	}
	atomic_fetch_sub(&awake, 1);
}

// alone does the work on the calling thread.
static void alone(int64_t tasks, void (*task)(void *, int64_t), void *args) {
	unsigned mode = begin_flush();
	for (int64_t i = 0; i < tasks; i++) task(args, i);
	end_flush(mode);
}

void q_pool_run(q_pool p, int64_t first_tasks, void (*first)(void *, int64_t), int64_t tasks,
	void (*task)(void *, int64_t), void *args) {
	int64_t most = first_tasks > tasks ? first_tasks : tasks, threads = p.threads < most ? p.threads : most;
	job *j = threads > 1 && most <= UINT32_MAX ? take_job(threads) : NULL;
	if (!j) {
		alone(first_tasks, first, args);
		alone(tasks, task, args);
		return;
	}
	j->args = args;
	j->threads = threads;
	atomic_store_explicit(&j->came, 1, memory_order_relaxed); // the calling thread has the first share
	set_stage(j, 0, first_tasks, first);
	set_stage(j, 1, tasks, task);
	int looks = 32;
	for (int64_t i = 1; i < threads; i++) {
		if (give_job(j, looks)) continue;
		looks = 1;
		if (!p.schedule(p.context, help, j)) release(j);
	}
	work(j, 0, finish_own);
	finish_own(j, STAGES - 1);
	release(j);
}

static int schedule(void *frame, void (*work)(void *), void *data) { return q_schedule(frame, work, data); }

void q_parallel_then(q_frame *f, int64_t first_tasks, void (*first)(void *, int64_t), int64_t tasks,
	void (*task)(void *, int64_t), void *args) {
	q_pool p = {first_tasks > 1 || tasks > 1 ? q_threads(f) : 1, schedule, f};
	q_pool_run(p, first_tasks, first, tasks, task, args);
}

void q_parallel(q_frame *f, int64_t tasks, void (*task)(void *, int64_t), void *args) {
	q_parallel_then(f, 0, NULL, tasks, task, args);
}
