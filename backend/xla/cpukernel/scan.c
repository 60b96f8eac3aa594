#include "scan.h"

#include <string.h>

q_error *quire_prefix_sums(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 1, 1)) || (e = q_shape(f, q_arg(f, 0), "x", Q_S32, -1))) return e;
	const int64_t n = q_arg(f, 0)->dims[0];
	if ((e = q_shape(f, q_result(f, 0), "sums", Q_S32, n))) return e;
	const uint32_t *x = q_arg(f, 0)->data;
	uint32_t *sums = q_result(f, 0)->data, sum = 0;
	for (int64_t i = 0; i < n; i++) sums[i] = sum += x[i];
	return NULL;
}

q_error *quire_positions(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 1, 2)) || (e = q_shape(f, q_arg(f, 0), "mask", Q_PRED, -1)) ||
		(e = q_shape(f, q_result(f, 0), "positions", Q_S32, -1)) ||
		(e = q_check_shape(f, q_result(f, 1), "count", Q_S32, 0, NULL)))
		return e;
	const int64_t n = q_arg(f, 0)->dims[0], most = q_result(f, 0)->dims[0];
	const uint8_t *mask = q_arg(f, 0)->data;
	int32_t *positions = q_result(f, 0)->data;
	int64_t count = 0;
	for (int64_t i = 0; i < n;) {
		uint64_t eight = 0;
		if (i + 8 <= n) memcpy(&eight, mask + i, 8);
		if (i + 8 <= n && !eight) { // usually there are none
			i += 8;
			continue;
		}
		for (const int64_t end = i + 8 <= n ? i + 8 : n; i < end; i++) {
			if (!mask[i]) continue;
			if (count < most) positions[count] = (int32_t)i;
			count++;
		}
	}
	for (int64_t k = count; k < most; k++) positions[k] = (int32_t)n;
	*(int32_t *)q_result(f, 1)->data = (int32_t)count;
	return NULL;
}

q_error *quire_count_rows(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 1, 1)) || (e = q_shape(f, q_arg(f, 0), "mask", Q_PRED, -1, -1))) return e;
	const int64_t rows = q_arg(f, 0)->dims[0], n = q_arg(f, 0)->dims[1];
	if ((e = q_shape(f, q_result(f, 0), "counts", Q_S32, rows))) return e;
	const uint8_t *mask = q_arg(f, 0)->data;
	int32_t *counts = q_result(f, 0)->data;
	for (int64_t row = 0; row < rows; row++) {
		int32_t count = 0;
		for (int64_t i = 0; i < n; i++) count += mask[row * n + i] != 0;
		counts[row] = count;
	}
	return NULL;
}

q_error *quire_owners(q_frame *f) {
	if (q_skip(f)) return NULL;
	q_error *e;
	if ((e = q_count(f, 1, 1)) || (e = q_shape(f, q_arg(f, 0), "ends", Q_S32, -1)) ||
		(e = q_shape(f, q_result(f, 0), "owners", Q_S32, -1)))
		return e;
	const int64_t n = q_arg(f, 0)->dims[0], most = q_result(f, 0)->dims[0];
	const int32_t *ends = q_arg(f, 0)->data;
	int32_t *owners = q_result(f, 0)->data;
	// Each end counts from its own place on, so they need not be in order.
	memset(owners, 0, (size_t)most * sizeof *owners);
	for (int64_t i = 0; i < n; i++) {
		const int64_t from = ends[i] < 0 ? 0 : ends[i];
		if (from < most) owners[from]++;
	}
	for (int64_t k = 1; k < most; k++) owners[k] += owners[k - 1];
	return NULL;
}
