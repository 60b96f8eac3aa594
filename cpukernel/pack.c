#include "gemm.h"

#include <string.h>

// source is the row of a matrix that packed column c comes from, or -1.
static int64_t source(int64_t c, int64_t out, int gate_up) {
	if (!gate_up) return c < out ? c : -1;
	int64_t half = out / 2, i = c / (2 * Q_TURN) * Q_TURN + c % Q_TURN;
	if (i >= half) return -1;
	return c % (2 * Q_TURN) < Q_TURN ? i : half + i;
}

#define PACK(name, type) \
	static void name(type *to, const type *matrix, int64_t out, int64_t in, int gate_up, q_layout l, int64_t panel) { \
		enum { BLOCK = 64 }; \
		int64_t padded = q_padded_in(in, l); \
		to += panel * l.panel * padded; \
		for (int64_t begin = 0; begin < padded; begin += BLOCK) { \
			int64_t end = begin + BLOCK < padded ? begin + BLOCK : padded; \
			for (int64_t c = 0; c < l.panel; c++) { \
				int64_t row = source(panel * l.panel + c, out, gate_up); \
				const type *from = matrix + row * in; \
				type *column = to + c * l.group; \
				int64_t i = begin; \
				for (; row >= 0 && i < end && i < in; i++) column[i / l.group * l.panel * l.group + i % l.group] = from[i]; \
				for (; i < end; i++) column[i / l.group * l.panel * l.group + i % l.group] = 0; \
			} \
		} \
	}
PACK(pack8, int8_t)
PACK(pack16, uint16_t)
PACK(pack32, uint32_t)

void q_pack(void *packed, const void *matrix, int dtype, int64_t out, int64_t in, int gate_up, q_layout layout, int64_t from, int64_t to) {
	for (int64_t p = from; p < to; p++) {
		switch (q_size(dtype)) {
		case 1: pack8(packed, matrix, out, in, gate_up, layout, p); break;
		case 2: pack16(packed, matrix, out, in, gate_up, layout, p); break;
		case 4: pack32(packed, matrix, out, in, gate_up, layout, p); break;
		}
	}
}
