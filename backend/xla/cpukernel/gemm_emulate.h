// AMX's tiles in memory, for tests on processors without them: the intrinsics that gemm_amx.c uses, as Intel's manual
// defines them.
#ifndef QUIRE_GEMM_EMULATE_H
#define QUIRE_GEMM_EMULATE_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "convert.h"

static _Thread_local struct {
	int rows, bytes;
	uint8_t data[16][64];
} emulated[8];

static inline void emulate_config(const uint8_t *config) {
	for (int i = 0; i < 8; i++) {
		emulated[i].rows = config[48 + i];
		emulated[i].bytes = config[16 + 2 * i] | config[17 + 2 * i] << 8;
	}
}

static inline void emulate_zero(int t) { memset(emulated[t].data, 0, sizeof emulated[t].data); }

static inline void emulate_load(int t, const void *p, int64_t stride) {
	emulate_zero(t);
	for (int r = 0; r < emulated[t].rows; r++)
		memcpy(emulated[t].data[r], (const char *)p + r * stride, emulated[t].bytes);
}

static inline void emulate_store(int t, void *p, int64_t stride) {
	for (int r = 0; r < emulated[t].rows; r++) memcpy((char *)p + r * stride, emulated[t].data[r], emulated[t].bytes);
}

static inline void emulate_bf16(int c, int a, int b) {
	for (int m = 0; m < emulated[c].rows; m++) {
		for (int n = 0; n < emulated[c].bytes / 4; n++) {
			float sums[2] = {0, 0}, old;
			for (int k = 0; k < emulated[a].bytes / 4; k++) {
				for (int i = 0; i < 2; i++) {
					uint16_t x, w;
					memcpy(&x, emulated[a].data[m] + 4 * k + 2 * i, 2);
					memcpy(&w, emulated[b].data[k] + 4 * n + 2 * i, 2);
					sums[i] = __builtin_fmaf(q_from_bf16(x), q_from_bf16(w), sums[i]);
				}
			}
			memcpy(&old, emulated[c].data[m] + 4 * n, 4);
			old += sums[0] + sums[1];
			memcpy(emulated[c].data[m] + 4 * n, &old, 4);
		}
	}
}

static inline void emulate_bytes(int c, int a, int b, int sign) {
	for (int m = 0; m < emulated[c].rows; m++) {
		for (int n = 0; n < emulated[c].bytes / 4; n++) {
			int32_t sum;
			memcpy(&sum, emulated[c].data[m] + 4 * n, 4);
			for (int k = 0; k < emulated[a].bytes; k++) {
				uint8_t w = emulated[b].data[k / 4][4 * n + k % 4];
				sum += (int8_t)emulated[a].data[m][k] * (sign ? (int8_t)w : w);
			}
			memcpy(emulated[c].data[m] + 4 * n, &sum, 4);
		}
	}
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _tile_dpbsud
#define _tile_loadconfig(p) emulate_config((const uint8_t *)(p))
#define _tile_release() ((void)0)
#define _tile_zero(t) emulate_zero(t)
#define _tile_loadd(t, p, stride) emulate_load(t, p, stride)
#define _tile_stored(t, p, stride) emulate_store(t, p, stride)
#define _tile_dpbf16ps(c, a, b) emulate_bf16(c, a, b)
#define _tile_dpbssd(c, a, b) emulate_bytes(c, a, b, 1)
#define _tile_dpbsud(c, a, b) emulate_bytes(c, a, b, 0)

#endif
