#include "crowd.h"

#include <string.h>

#define MS INT64_C(1000000)
enum {
	SPAN_STEPS = 3, // minimum length of a span
	LOST_OF = 4,    // a span is crowded if more than a LOST_OF-th of it is lost
	FEWER = 4,      // how many lower thread counts are tried
	TRIAL_OF = 10,  // failed trials take at most this part of the time
};
// factors of the time; a trial ends early if it is far worse
static const double better = 0.9, worse = 1.05, far_worse = 1.5;
static const int64_t shortest_span = 50 * MS, longest_span = 500 * MS, // except for long steps
	first_pause = 250 * MS, longest_pause = 4000 * MS;

static void begin_span(q_crowd *c) {
	memset(c->now, 0, sizeof c->now);
	c->span = c->lost = 0;
}

static int span_is_over(const q_crowd *c) {
	int64_t most = 0;
	for (int i = 0; i < Q_CROWD_KINDS; i++) most = c->now[i].steps > most ? c->now[i].steps : most;
	return c->span >= longest_span || (c->span >= shortest_span && most >= SPAN_STEPS);
}

// compare sums the steps of the trial whose kinds also ran before it, and what they would have taken then.
static void compare(const q_crowd *c, double *took, double *then) {
	*took = *then = 0;
	for (int i = 0; i < Q_CROWD_KINDS; i++) {
		if (!c->then[i].steps) continue;
		*took += (double)c->now[i].ns;
		*then += (double)c->now[i].steps * (double)c->then[i].ns / (double)c->then[i].steps;
	}
}

static void try_threads(q_crowd *c, int64_t threads) {
	c->before = c->threads;
	c->threads = threads;
	memcpy(c->then, c->now, sizeof c->then);
	begin_span(c);
}

// end_trial keeps the number of threads that was tried, or returns to the previous one.
static void end_trial(q_crowd *c, int stays) {
	const int fewer = c->threads < c->before;
	if (stays) {
		c->pause = first_pause;
		c->failed = 0;
	} else {
		c->threads = c->before;
		c->pause = c->pause * 2 < longest_pause ? c->pause * 2 : longest_pause;
		if (c->pause < first_pause) c->pause = first_pause;
		c->failed += fewer;
	}
	c->rest = stays || c->pause > TRIAL_OF * c->span ? c->pause : TRIAL_OF * c->span;
	c->before = 0;
	begin_span(c);
}

// some returns about one thread, or a quarter if there are many.
static int64_t some(int64_t threads) { return threads >= 8 ? threads / 4 : 1; }

static int64_t fewer(const q_crowd *c) {
	switch (c->failed % FEWER) {
	case 0: return c->threads - some(c->threads);
	case 1: return (c->threads + 1) / 2;
	case 2: return (c->threads + 3) / 4;
	default: return 1;
	}
}

static int64_t more(const q_crowd *c) {
	const int64_t threads = c->threads + some(c->threads);
	return threads < c->most ? threads : c->most;
}

int64_t q_crowd_step(q_crowd *c, int kind, int64_t ns, int64_t lost) {
	if (c->threads < 1 || c->threads > c->most) c->threads = c->most;
	if (c->most <= 1 || kind < 0 || kind >= Q_CROWD_KINDS || ns <= 0) return c->threads;
	c->now[kind].steps++;
	c->now[kind].ns += ns;
	c->span += ns;
	c->lost += lost < ns ? lost : ns;
	c->rest -= ns;
	double took, then;
	compare(c, &took, &then);
	if (c->before && then > 0 && took > far_worse * then) {
		end_trial(c, 0);
		return c->threads;
	}
	if (!span_is_over(c)) return c->threads;
	const int crowded = c->lost > c->span / LOST_OF;
	if (c->before) {
		// Using all threads is the default, although the last ones gain little if steps wait for memory.
		const int holds = c->threads > c->before && !crowded && took < worse * then;
		end_trial(c, then > 0 && (took < better * then || holds));
		return c->threads;
	}
	if (!crowded) c->failed = 0;
	if (c->rest > 0) {
		begin_span(c);
		return c->threads;
	}
	c->rest = 0;
	if (crowded && c->threads > 1 && (c->failed < FEWER || c->threads == c->most)) {
		try_threads(c, fewer(c));
	} else if (c->threads < c->most) {
		try_threads(c, more(c));
	} else {
		begin_span(c);
	}
	return c->threads;
}
