#define _POSIX_C_SOURCE 200809L
#include "step_clock.h"

#include <string.h>
#include <time.h>

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
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec, last = clock[1];
	if (clock[0] != 0 && last >= 0 && last < kinds) clock[2 + last] += now - clock[0];
	clock[0] = now;
	clock[1] = kind;
	memcpy(q_result(f, 1)->data, &kind, sizeof kind);
	return NULL;
}
