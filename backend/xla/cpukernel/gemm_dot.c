// Linear layers by AVX-512's dot products: of pairs of bf16 numbers, and (VNNI) of four 8-bit numbers. A step is 32
// bits of each row of activations and of each column of a panel. Activations are packed in tiles of up to ROWS rows,
// [steps][rows of the tile]; for 8-bit weights, they are followed by the rows' scales and initial sums.
#include "cpu.h"

#if defined(Q_X86)
#ifdef Q_EMULATE
#pragma GCC target("avx2,fma,f16c")
#define Q_V16 256
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma,f16c")
#define Q_V16 512
#endif
#include <immintrin.h>

#include "convert.h"

enum {
	Q_WIDE = 2,
	PANEL = 32,
	ROWS = 12,         // rows of a tile, so that its sums stay in registers
	BLOCK_STEPS = 288, // maximum of a block: 36 kB of a panel
	BLOCK_TILES = 8,   // tiles whose sums are kept at a time
	MAX_PANELS = 4,    // panels of a task
	SUMS = BLOCK_TILES * ROWS * PANEL,
	STEP = PANEL * 4, // bytes per step of a panel
	AHEAD = 4096,     // how many bytes ahead a stream of weights is prefetched
	OWN_FLOATS = 1 << 17, // how many numbers of rows each thread packs for itself, at most
	OWN_BYTES = 1 << 13,  // the same for rows that are rounded, which takes longer
};
#include "gemm_finish.h"

// lanes is a register of sixteen sums, float32 or int32.
#ifdef Q_EMULATE
typedef struct {
	uint32_t x[16];
} lanes;
ALWAYS lanes lanes_set(uint32_t x) {
	lanes y;
	for (int i = 0; i < 16; i++) y.x[i] = x;
	return y;
}
ALWAYS lanes lanes_load(const void *p) {
	lanes y;
	memcpy(&y, p, 64);
	return y;
}
ALWAYS void lanes_store(void *p, lanes x) { memcpy(p, &x, 64); }
ALWAYS lanes lanes_flip(lanes x) {
	for (int i = 0; i < 16; i++) x.x[i] ^= 0x80808080;
	return x;
}
// As in Intel's manual: the second of a pair is added first.
static __attribute__((noinline)) lanes lanes_bf16(lanes sum, lanes w, lanes x) {
	for (int i = 0; i < 16; i++) {
		float s;
		memcpy(&s, &sum.x[i], 4);
		s = __builtin_fmaf(q_from_bf16(w.x[i] >> 16), q_from_bf16(x.x[i] >> 16), s);
		s = __builtin_fmaf(q_from_bf16(w.x[i] & 0xffff), q_from_bf16(x.x[i] & 0xffff), s);
		memcpy(&sum.x[i], &s, 4);
	}
	return sum;
}
static __attribute__((noinline)) lanes lanes_u8s8(lanes sum, lanes w, lanes x) {
	for (int i = 0; i < 16; i++) {
		for (int k = 0; k < 32; k += 8) sum.x[i] += (uint32_t)((int32_t)(uint8_t)(w.x[i] >> k) * (int8_t)(x.x[i] >> k));
	}
	return sum;
}
#else
typedef __m512i lanes;
ALWAYS lanes lanes_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
ALWAYS lanes lanes_load(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS void lanes_store(void *p, lanes x) { _mm512_storeu_si512(p, x); }
ALWAYS lanes lanes_flip(lanes x) { return _mm512_xor_si512(x, _mm512_set1_epi8((char)0x80)); }
ALWAYS lanes lanes_bf16(lanes sum, lanes w, lanes x) {
	return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)w, (__m512bh)x));
}
ALWAYS lanes lanes_u8s8(lanes sum, lanes w, lanes x) { return _mm512_dpbusd_epi32(sum, w, x); }
#endif

static int64_t steps_of(const q_linear_job *j) { return j->padded_in / (j->l->weights_dtype == Q_S8 ? 4 : 2); }
static int64_t tile_begin(const q_linear_job *j, int64_t tile) { return j->l->rows * tile / j->tiles; }
static uint32_t *packed(const q_linear_job *j, int64_t row) { return (uint32_t *)j->rows + row * steps_of(j); }
static float *row_scales(const q_linear_job *j) { return (float *)packed(j, j->l->rows); }
static int32_t *first_sums(const q_linear_job *j) { return (int32_t *)row_scales(j) + j->l->rows; }

#ifndef Q_EMULATE
// turn writes sixteen steps of each of n <= ROWS rows, which are so many bytes apart, as [16][n].
static void turn(uint32_t *to, const char *from, int64_t apart, int64_t n) {
	__m512i a[16], b[16];
	const __mmask16 rows = (__mmask16)((1u << n) - 1);
	EACH(r, 16) a[r] = r < n ? _mm512_loadu_si512(from + r * apart) : _mm512_setzero_si512();
	// Two rows by one, then two pairs of rows, within each quarter; then the quarters of all.
	EACH(r, 8) {
		b[2 * r] = _mm512_unpacklo_epi32(a[2 * r], a[2 * r + 1]);
		b[2 * r + 1] = _mm512_unpackhi_epi32(a[2 * r], a[2 * r + 1]);
	}
	EACH(r, 4) {
		a[4 * r] = _mm512_unpacklo_epi64(b[4 * r], b[4 * r + 2]);
		a[4 * r + 1] = _mm512_unpackhi_epi64(b[4 * r], b[4 * r + 2]);
		a[4 * r + 2] = _mm512_unpacklo_epi64(b[4 * r + 1], b[4 * r + 3]);
		a[4 * r + 3] = _mm512_unpackhi_epi64(b[4 * r + 1], b[4 * r + 3]);
	}
	EACH(k, 4) {
		__m512i low = _mm512_shuffle_i32x4(a[k], a[4 + k], 0x88), high = _mm512_shuffle_i32x4(a[k], a[4 + k], 0xdd);
		__m512i low2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0x88),
				high2 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0xdd);
		_mm512_mask_storeu_epi32(to + k * n, rows, _mm512_shuffle_i32x4(low, low2, 0x88));
		_mm512_mask_storeu_epi32(to + (4 + k) * n, rows, _mm512_shuffle_i32x4(high, high2, 0x88));
		_mm512_mask_storeu_epi32(to + (8 + k) * n, rows, _mm512_shuffle_i32x4(low, low2, 0xdd));
		_mm512_mask_storeu_epi32(to + (12 + k) * n, rows, _mm512_shuffle_i32x4(high, high2, 0xdd));
	}
}

// round64 rounds 64 numbers of a row, starting with i, to 8 bits, as round16 does. Halves of a register are unpacked
// and packed by quarters.
ALWAYS __m512i round64(const q_linear *l, int64_t row, int64_t i, float inverse) {
	if (l->dtype != Q_BF16) {
		int8_t q[64] __attribute__((aligned(64)));
		EACH(k, 4) round16(l, row, i + 16 * k, 16, inverse, q + 16 * k);
		return lanes_load(q);
	}
	const __m512i zero = _mm512_setzero_si512();
	const __m512 by = _mm512_set1_ps(inverse);
	__m512i words[2];
	EACH(h, 2) {
		const __m512i x = lanes_load((const uint16_t *)l->x + row * l->in + i + 32 * h);
		const __m512 low = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, x)),
					 high = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, x));
		words[h] = _mm512_packs_epi32(
			_mm512_cvtps_epi32(_mm512_mul_ps(low, by)), _mm512_cvtps_epi32(_mm512_mul_ps(high, by)));
	}
	return _mm512_permutexvar_epi64(
		_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packs_epi16(words[0], words[1]));
}

// round_rows packs the rows of a tile, rounded, in groups of 64 inputs, and sums them. It returns how many inputs it
// handled.
static int64_t round_rows(const q_linear_job *j, int64_t begin, int64_t n, const float *inverse, int32_t *sums) {
	enum { INPUTS = 64 };
	int8_t rounded[16][INPUTS] __attribute__((aligned(64)));
	lanes all[ROWS];
	for (int64_t r = 0; r < n; r++) all[r] = lanes_set(0);
	int64_t i = 0;
	for (; i + INPUTS <= j->l->in; i += INPUTS) {
		for (int64_t r = 0; r < n; r++) {
			const lanes x = round64(j->l, begin + r, i, inverse[r]);
			lanes_store(rounded[r], x);
			all[r] = lanes_u8s8(all[r], lanes_set(0x01010101), x);
		}
		turn(packed(j, begin) + i / 4 * n, (const char *)rounded, INPUTS, n);
	}
	for (int64_t r = 0; r < n; r++) sums[r] = _mm512_reduce_add_epi32(all[r]);
	return i;
}
#endif

// pack_tile_s8 rounds the rows of a tile. The instruction's first factor is unsigned: weights are read as w + 128,
// and a row's sums start at -128 times the sum of its activations. They wrap around in between, and are exact in the
// end.
static void pack_tile_s8(const q_linear_job *j, int64_t begin, int64_t n) {
	uint32_t *to = packed(j, begin);
	float inverse[ROWS] = {0};
	int32_t sums[ROWS] = {0};
	for (int64_t r = 0; r < n; r++) row_scales(j)[begin + r] = row_scale(j->l, begin + r, &inverse[r]);
	int64_t i = 0;
#ifndef Q_EMULATE
	i = round_rows(j, begin, n, inverse, sums);
#endif
	for (; i < j->padded_in; i += 16) {
		for (int64_t r = 0; r < n; r++) {
			int8_t q[16];
			round16(j->l, begin + r, i, least(16, j->l->in - i), inverse[r], q);
			for (int k = 0; k < 16; k++) sums[r] += q[k];
			for (int64_t k = 0; k < least(16, j->padded_in - i); k += 4) memcpy(&to[(i + k) / 4 * n + r], q + k, 4);
		}
	}
	for (int64_t r = 0; r < n; r++) first_sums(j)[begin + r] = -128 * sums[r];
}

static void pack_tile(void *job, int64_t t) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int64_t begin = tile_begin(j, t), n = tile_begin(j, t + 1) - begin, steps = steps_of(j);
	if (l->weights_dtype == Q_S8) {
		pack_tile_s8(j, begin, n);
		return;
	}
	uint32_t *to = packed(j, begin);
	int64_t s = 0;
#ifndef Q_EMULATE
	const char *x = (const char *)l->x + 2 * begin * l->in;
	for (; 2 * (s + 16) <= l->in; s += 16) turn(to + s * n, x + 4 * s, 2 * l->in, n);
#endif
	for (; s < steps; s++) {
		for (int64_t r = 0; r < n; r++) {
			const uint16_t *from = (const uint16_t *)l->x + (begin + r) * l->in;
			uint32_t pair = 2 * s < l->in ? from[2 * s] : 0;
			if (2 * s + 1 < l->in) pair |= (uint32_t)from[2 * s + 1] << 16;
			to[s * n + r] = pair;
		}
	}
}

// tile adds steps to the sums of n rows. a is [steps][n], b a block of a panel, sums [rows][PANEL] at the first row.
// first, if not NULL, has the initial values of the rows' sums. ahead is what to prefetch: a line every step, `far`
// bytes apart.
ALWAYS void tile(const int n, const int s8, const uint32_t *a, const char *b, int64_t steps, float *sums,
	const int32_t *first, const char *ahead, int64_t far) {
	lanes s[ROWS][Q_WIDE];
	if (first) {
		EACH(r, n)
			EACH(j, Q_WIDE) s[r][j] = lanes_set(s8 ? (uint32_t)first[r] : 0);
	} else {
		EACH(r, n)
			EACH(j, Q_WIDE) s[r][j] = lanes_load(sums + r * PANEL + j * 16);
	}
	for (; steps > 0; steps--, a += n, b += STEP) {
		lanes w[Q_WIDE];
		EACH(j, Q_WIDE) {
			w[j] = lanes_load(b + j * 64);
			if (s8) w[j] = lanes_flip(w[j]);
		}
		EACH(r, n) {
			lanes x = lanes_set(a[r]);
			EACH(j, Q_WIDE) s[r][j] = s8 ? lanes_u8s8(s[r][j], w[j], x) : lanes_bf16(s[r][j], w[j], x);
		}
		__builtin_prefetch(ahead, 0, 2);
		ahead += far;
	}
	EACH(r, n)
		EACH(j, Q_WIDE) lanes_store(sums + r * PANEL + j * 16, s[r][j]);
}

typedef void (*tile_code)(const uint32_t *, const char *, int64_t, float *, const int32_t *, const char *, int64_t);
#define TILE(name, n, s8) \
	static __attribute__((noinline)) void name(const uint32_t *a, const char *b, int64_t steps, float *sums, \
		const int32_t *first, const char *ahead, int64_t far) { \
		tile(n, s8, a, b, steps, sums, first, ahead, far); \
	}
#define TILES(n) TILE(bf16_##n, n, 0) TILE(s8_##n, n, 1)
// clang-format off
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#define CODES(n) {bf16_##n, s8_##n}
static const tile_code codes[ROWS][2] = {
	CODES(1), CODES(2), CODES(3), CODES(4), CODES(5), CODES(6), CODES(7), CODES(8), CODES(9), CODES(10), CODES(11),
	CODES(12)};
// clang-format on

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int s8 = l->weights_dtype == Q_S8;
	const int64_t steps = steps_of(j), panel = steps * STEP, from = task * j->panels_a_task,
				  n = least(j->panels_a_task, j->panels - from);
	// Blocks of about the same size, because sums are loaded and stored for each.
	const int64_t blocks = j->tiles == 1 ? 1 : (steps + BLOCK_STEPS - 1) / BLOCK_STEPS;
	const int64_t a_block = (steps + blocks - 1) / blocks;
	const char *weights = (const char *)l->weights + from * panel, *end = (const char *)l->weights + j->panels * panel;
	static const int32_t zeros[ROWS];
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	for (int64_t t0 = 0; t0 < j->tiles; t0 += BLOCK_TILES) {
		const int64_t t1 = least(t0 + BLOCK_TILES, j->tiles), row = tile_begin(j, t0), rows = tile_begin(j, t1) - row;
		for (int64_t k = 0; k < steps; k += a_block) {
			const int64_t some = least(a_block, steps - k);
			for (int64_t p = 0; p < n; p++) {
				const char *b = weights + p * panel + k * STEP;
				// What comes next: the same block of the next panel, or the next block of the first, or the start of
				// the next task.
				const char *next = p + 1 < n          ? b + panel
				                   : k + some < steps ? weights + (k + some) * STEP
				                                      : weights + n * panel;
				int64_t left = next + some * STEP <= end ? some * STEP / 64 : 0; // lines of it to prefetch
				for (int64_t t = t0; t < t1; t++) {
					const int64_t begin = tile_begin(j, t), count = tile_begin(j, t + 1) - begin;
					const char *ahead = next;
					int64_t far = 0;
					if (j->tiles == 1) {
						ahead = b + AHEAD; // one pass: prefetch in the stream itself
						far = STEP;
					} else if (left > 0) {
						far = 64;
						next += some * 64;
						left -= some;
					}
					const int32_t *first = k > 0 ? NULL : s8 ? first_sums(j) + begin : zeros;
					codes[count - 1][s8](packed(j, begin) + k * count, b, some, sums + p * SUMS + (begin - row) * PANEL,
						first, ahead, far);
				}
			}
		}
		finish_panels(j, sums, s8 ? row_scales(j) + row : NULL, row, rows, from, n);
	}
}

const q_linear_code q_linear_dot = {ROWS, pack_tile, panels, OWN_FLOATS, OWN_BYTES, Q_PART_ROWS};
#endif
