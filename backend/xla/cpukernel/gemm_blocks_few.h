// Products of few rows: weights are unpacked in registers and multiplied at once. To unpack a chunk to memory first
// takes longer than to read it, and pays only if many rows use it. The numbers are added in the same order as for many
// rows, so rows have the same bits.
#include "gemm_blocks_step.h"

enum { FEW = 4 }; // rows

// ints_up shifts the bits of each pair of bytes up, or down if by is negative.
#if Q_V16 == 512
ALWAYS ints ints_up(ints x, const int by) { return by < 0 ? _mm512_srli_epi16(x, -by) : _mm512_slli_epi16(x, by); }
ALWAYS ints ints_or(ints a, ints b) { return _mm512_or_si512(a, b); }
ALWAYS vec vec_s8(const uint8_t *p) {
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
ALWAYS vec vec_minus(vec x) { return _mm512_sub_ps(_mm512_set1_ps(-0.0f), x); }
#else
ALWAYS ints ints_up(ints x, const int by) { return by < 0 ? _mm256_srli_epi16(x, -by) : _mm256_slli_epi16(x, by); }
ALWAYS ints ints_or(ints a, ints b) { return _mm256_or_si256(a, b); }
ALWAYS vec vec_s8(const uint8_t *p) {
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
ALWAYS vec vec_minus(vec x) { return _mm256_sub_ps(_mm256_set1_ps(-0.0f), x); }
#endif

// quants unpacks LANES columns of a step of four inputs, given the position of the bytes in the block.
ALWAYS ints quants(const uint8_t *from, const int bits, const int step) {
	if (bits == 8) return ints_load(from + step * STEP);
	const ints x = ints_load(from + step % 4 * STEP), low = ints_and(step < 4 ? x : ints_up(x, -4), 15);
	const uint8_t *high = from + BLOCK / 2;
	if (bits == 5) return ints_or(low, ints_and(ints_up(ints_load(high), 4 - step), 16));
	if (bits == 6) return ints_or(low, ints_and(ints_up(ints_load(high + step / 4 * STEP), 4 - 2 * (step % 4)), 48));
	return low;
}

// few_panel computes a panel for n rows, [n][PANEL]. super and min are the fields of q_blocks; blocks of 6 bits have 16
// inputs.
ALWAYS void few_panel(const int n, const int bits, const int super, const int min, activations a, const uint8_t *from,
	int64_t units, float *to) {
	const int halves = bits == 6 ? 2 : 1, each = super ? Q_SUPER_IN / Q_BLOCK_IN : 1;
	const int64_t quant_bytes = 4 * bits * PANEL, scale_bytes = halves * (super ? 1 : 2) * PANEL,
				  size = quant_bytes + scale_bytes * (1 + min);
	vec y[FEW][WIDE];
	EACH(r, n)
		EACH(j, WIDE) y[r][j] = vec_set(0);
	for (int64_t u = 0; u < units; u++) {
		vec factors[WIDE], minimum_factors[WIDE];
		if (super) {
			EACH(j, WIDE) {
				factors[j] = vec_f16((const uint16_t *)from + j * LANES);
				if (min) minimum_factors[j] = vec_minus(vec_f16((const uint16_t *)from + PANEL + j * LANES));
			}
			from += 2 * PANEL * (1 + min);
		}
		for (int b = 0; b < each; b++, from += size) {
			for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(from + AHEAD + line, 0, 2);
			EACH(h, halves) {
				ints s[FEW][WIDE];
				EACH(r, n)
					EACH(j, WIDE) s[r][j] = bits == 8 ? whole_begin(a.begins[r], 1) : ints_set(a.begins[r]);
				EACH(k, 8 / halves) {
					const int step = h * 4 + k;
					EACH(j, WIDE) {
						const ints w = quants(from + j * LANES * 4, bits, step);
						EACH(r, n) {
							int32_t four;
							memcpy(&four, a.x + 4 * (step * n + r), 4);
							const ints x = ints_set(four);
							s[r][j] = bits == 8 ? ints_whole(s[r][j], w, x, 1) : ints_dot(s[r][j], w, x);
						}
					}
				}
				a.begins += n;
				const uint8_t *scales = from + quant_bytes + h * (scale_bytes / halves), *minima = scales + scale_bytes;
				EACH(j, WIDE) {
					const vec scale = super ? vec_mul(vec_s8(scales + j * LANES), factors[j])
					                        : vec_f16((const uint16_t *)scales + j * LANES);
					EACH(r, n) y[r][j] = vec_fma(ints_float(s[r][j]), vec_mul(scale, vec_set(a.scales[r])), y[r][j]);
					if (!min) continue;
					const vec minimum = super ? vec_mul(vec_s8(minima + j * LANES), minimum_factors[j])
					                          : vec_f16((const uint16_t *)minima + j * LANES);
					EACH(r, n) y[r][j] = vec_fma(minimum, vec_set(a.sums[r]), y[r][j]);
				}
			}
			a.x += 32 * n;
			a.scales += n;
			a.sums += n;
		}
	}
	EACH(r, n)
		EACH(j, WIDE) vec_store(to + r * PANEL + j * LANES, y[r][j]);
}

typedef void (*few_code)(activations, const uint8_t *, int64_t, float *);

#define FEW_PANEL(name, n, bits, super, min) \
	static __attribute__((noinline)) void name##_##n(activations a, const uint8_t *w, int64_t units, float *to) { \
		few_panel(n, bits, super, min, a, w, units, to); \
	}
// clang-format off
#define FEW_PANELS(n) \
	FEW_PANEL(few4, n, 4, 0, 0) FEW_PANEL(few4_min, n, 4, 0, 1) FEW_PANEL(few4_super, n, 4, 1, 1) \
	FEW_PANEL(few5, n, 5, 0, 0) FEW_PANEL(few5_min, n, 5, 0, 1) FEW_PANEL(few5_super, n, 5, 1, 1) \
	FEW_PANEL(few6_super, n, 6, 1, 0) FEW_PANEL(few8, n, 8, 0, 0)
// clang-format on
FEW_PANELS(1)
FEW_PANELS(2)
FEW_PANELS(3)
FEW_PANELS(4)
#define FEW_CODES(name) {name##_1, name##_2, name##_3, name##_4}

// few returns the code for a format and so many rows; NULL if there is none.
static few_code few(q_blocks f, int64_t rows) {
	static const few_code by[][FEW] = {FEW_CODES(few4), FEW_CODES(few4_min), FEW_CODES(few4_super), FEW_CODES(few5),
		FEW_CODES(few5_min), FEW_CODES(few5_super), FEW_CODES(few6_super), FEW_CODES(few8)};
	if (rows > FEW || f.group || f.table || f.exponent) return NULL;
	if (f.bits == 8) return by[7][rows - 1];
	if (f.bits == 6) return f.super && f.size == 16 && !f.min ? by[6][rows - 1] : NULL;
	if (f.size != 32 || (f.super && !f.min)) return NULL;
	return by[(f.bits - 4) * 3 + f.min + f.super][rows - 1];
}
