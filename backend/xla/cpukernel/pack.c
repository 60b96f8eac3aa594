#include "gemm.h"

#include <stdint.h>
#include <string.h>

// source returns the row of a matrix that packed column c comes from, or -1.
static int64_t source(int64_t c, int64_t out, int gate_up) {
	if (!gate_up) return c < out ? c : -1;
	int64_t half = out / 2, i = c / (2 * Q_TURN) * Q_TURN + c % Q_TURN;
	if (i >= half) return -1;
	return c % (2 * Q_TURN) < Q_TURN ? i : half + i;
}

// A panel is packed by blocks of inputs that stay in the cache while its columns are written.
#define PACK(name, type) \
	static void name(type *to, const type *const rows[], int64_t in, int64_t panel, int64_t group) { \
		enum { BLOCK = 64 }; \
		for (int64_t begin = 0; begin < in; begin += BLOCK) { \
			int64_t end = begin + BLOCK < in ? begin + BLOCK : in; \
			for (int64_t c = 0; c < panel; c++) { \
				const type *from = rows[c]; \
				if (!from) continue; \
				type *column = to + c * group; \
				if (group == 1) \
					for (int64_t i = begin; i < end; i++) column[i * panel] = from[i]; \
				else \
					for (int64_t i = begin; i < end; i++) column[i / group * panel * group + i % group] = from[i]; \
			} \
		} \
	}
PACK(pack8, int8_t)
PACK(pack16, uint16_t)
PACK(pack32, uint32_t)

void q_pack(void *packed, const void *rows, int dtype, int64_t out, int64_t in, int gate_up, q_layout l, int64_t first,
	int64_t n, int64_t from, int64_t to) {
	enum { MOST = 64 }; // columns of a panel
	const int64_t panel_bytes = l.panel * q_padded_in(in, l) * (int64_t)q_size(dtype);
	size_t size = q_size(dtype), group = size * l.group;
	if (in % l.group == 0 && group <= 4 && (uintptr_t)rows % group == 0) { // each group is moved as one number
		in /= l.group;
		size = group;
		l.group = 1;
	}
	for (int64_t p = from; p < to; p++) {
		const void *columns[MOST];
		int any = 0;
		for (int64_t c = 0; c < l.panel; c++) {
			int64_t row = source(p * l.panel + c, out, gate_up);
			columns[c] = row >= first && row < first + n ? (const char *)rows + (row - first) * in * size : NULL;
			any |= columns[c] != NULL;
		}
		if (!any) continue;
		void *panel = (char *)packed + p * panel_bytes;
		if (size == 1) pack8(panel, (const int8_t *const *)columns, in, l.panel, l.group);
		else if (size == 2) pack16(panel, (const uint16_t *const *)columns, in, l.panel, l.group);
		else pack32(panel, (const uint32_t *const *)columns, in, l.panel, l.group);
	}
}
