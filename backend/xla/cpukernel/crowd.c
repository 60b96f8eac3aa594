#include "crowd.h"

#include <string.h>

#define MS INT64_C(1000000)
enum {
	SPAN_STEPS = 3, // at least, of a span
	LOST_OF = 4,    // a span is crowded if more than its LOST_OF-th part is lost
	FEWER = 4,      // numbers of fewer threads that are tried
	TRIAL_OF = 10,  // trials that fail take at most this part of the time
};
static const double better = 0.9, worse = 1.05, far_worse = 1.5; // times as long; a trial ends where it is far worse
static const int64_t shortest_span = 50 * MS, longest_span = 500 * MS, // but for long steps
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

// compare sums up the steps of the trial that are of kinds that ran before it too, and what they would have taken then.
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

// end_trial keeps the number of threads that was tried, or goes back to the one before.
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

// some is about one thread, of many a quarter.
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
		// All threads are the rule, though the last ones gain little where steps wait for memory.
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
