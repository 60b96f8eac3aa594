// The part of gemm_kernel.h for matrices of 8-bit floats with scales: see gemm_blocks.h. Activations are not rounded.
// Up to 256 inputs of a panel are unpacked to float32, each number times its scale and rounded once, and all tiles of
// rows use them: the sums equal a float32 matrix's.
#include "gemm_blocks.h"

enum { E4M3_IN = 256 };

typedef uint32_t lanes __attribute__((vector_size(64), aligned(1), may_alias));
typedef float float_lanes __attribute__((vector_size(64), aligned(1), may_alias));

// widen_e4m3 unpacks a unit to [inputs][PANEL].
static void widen_e4m3(float *to, const uint8_t *unit, q_blocks b) {
	float scales[PANEL];
	for (int c = 0; c < PANEL; c++) scales[c] = q_group_scale(unit, b, c);
	const uint8_t *from = unit + q_group_bytes(b, PANEL);
	for (int64_t step = 0; step < b.size / 4; step++, from += 4 * PANEL, to += 4 * PANEL) {
		EACH(c, PANEL / 16) {
			const lanes four = *(const lanes *)(from + 64 * c);
			const float_lanes scale = *(const float_lanes *)(scales + 16 * c);
			EACH(i, 4) {
				const lanes q = four >> 8 * i, size = q & 0x7f;
				lanes y = (size << 20) + (120u << 23), low = (lanes)(size < 8);
				y = (low & (lanes)((float_lanes)y * 2 - 0x1p-6f)) | (~low & y);
				*(float_lanes *)(to + i * PANEL + 16 * c) = (float_lanes)(y | (q & 0x80) << 24) * scale;
			}
		}
	}
}

static void panels_e4m3(const q_linear_job *j, int64_t task) {
	const q_linear *l = j->l;
	const int64_t in = l->in, unit = l->blocks.size, bytes = q_unit_bytes(l->blocks, PANEL);
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	const int64_t passes = (j->tiles + BLOCK_TILES - 1) / BLOCK_TILES,
				  a_pass = (j->tiles + passes - 1) / passes; // tiles per pass
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	float wide[E4M3_IN * PANEL] __attribute__((aligned(64)));
	for (int64_t t0 = 0; t0 < j->tiles; t0 += a_pass) {
		const int64_t t1 = least(t0 + a_pass, j->tiles), row = tile_begin(j, t0), rows = tile_begin(j, t1) - row;
		for (int64_t p = 0; p < n; p++) {
			const uint8_t *b = (const uint8_t *)l->weights + (from + p) * (in / unit) * bytes;
			for (int64_t k = 0; k < in; k += E4M3_IN) {
				const int64_t some = least(E4M3_IN, in - k);
				for (int64_t i = 0; i < some; i += unit, b += bytes) widen_e4m3(wide + i * PANEL, b, l->blocks);
				for (int64_t t = t0; t < t1; t++) {
					const int64_t begin = tile_begin(j, t), count = tile_begin(j, t + 1) - begin;
					const char *ahead = t == t0 ? (const char *)b + AHEAD : (const char *)wide;
					float *sum = sums + p * SUMS + (begin - row) * PANEL;
					codes[count - 1][FLOATS]((const float *)j->rows + begin * in + k * count, (const char *)wide,
						NULL, some, sum, k == 0, ahead, t == t0 ? 4 * PANEL : 0);
				}
			}
		}
		finish_panels(j, sums, NULL, row, rows, from, n);
	}
}
