// What the code for many rows (gemm_blocks_code.h), for few rows (gemm_blocks_few.h) and for AMX (gemm_blocks_tiles.h)
// shares: registers of integers, unpacked chunks of weights, and packed rows.
#ifndef QUIRE_GEMM_BLOCKS_STEP_H
#define QUIRE_GEMM_BLOCKS_STEP_H

#include "convert.h"
#include "gemm_blocks.h"

enum {
	PANEL = 16 * Q_WIDE,
	BLOCK_TILES = 96 / Q_ROWS,       // tiles whose sums are kept at a time
	MAX_ROWS = BLOCK_TILES * Q_ROWS, // their rows
	MAX_PANELS = 8 / Q_WIDE,         // panels a task
	SUMS = MAX_ROWS * PANEL,
	STEP = 4 * PANEL, // bytes of four inputs of a panel, unpacked
	BLOCK = 8 * STEP, // and of 32
	CHUNK = 8,        // blocks that are unpacked at a time
	AHEAD = 12288,    // bytes by which a stream of weights is read ahead
	OWN = 1 << 13,    // numbers of rows that each thread packs for itself
};

#include "gemm_finish.h"
#include "gemm_vec.h"

enum { WIDE = PANEL / LANES };

// ints is one register of LANES int32 numbers, whose bytes may also be weights, without a sign, or activations, with
// one. ints_dot adds to each number the four products of its bytes. Where pairs of them must fit in 16 bits, ints_whole
// is ints_dot for weights that take all of 8 bits.
#if Q_V16 == 512
typedef __m512i ints;
ALWAYS ints ints_set(int32_t x) { return _mm512_set1_epi32(x); }
ALWAYS ints ints_load(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS ints ints_add(ints a, ints b) { return _mm512_add_epi32(a, b); }
ALWAYS ints ints_and(ints x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi8((char)mask)); }
ALWAYS ints ints_flip(ints x) { return _mm512_xor_si512(x, _mm512_set1_epi8((char)128)); }
ALWAYS ints ints_size(ints x) { return _mm512_abs_epi8(x); }
ALWAYS ints ints_sign(ints x, ints of) { // x, with the sign of each byte changed if the byte of `of` is below 0
	return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(of), _mm512_setzero_si512(), x);
}
ALWAYS vec ints_float(ints x) { return _mm512_cvtepi32_ps(x); }
ALWAYS vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
ALWAYS ints ints_dot(ints sum, ints w, ints x) {
#ifdef Q_VNNI
	sum = _mm512_dpbusd_epi32(sum, w, x);
#else
	sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(w, x), _mm512_set1_epi16(1)));
#endif
	__asm__("" : "+v"(sum)); // otherwise the compiler keeps copies of sums and runs out of registers
	return sum;
}
#elif Q_V16 == 256
typedef __m256i ints;
ALWAYS ints ints_set(int32_t x) { return _mm256_set1_epi32(x); }
ALWAYS ints ints_load(const void *p) { return _mm256_loadu_si256(p); }
ALWAYS ints ints_add(ints a, ints b) { return _mm256_add_epi32(a, b); }
ALWAYS ints ints_and(ints x, int mask) { return _mm256_and_si256(x, _mm256_set1_epi8((char)mask)); }
ALWAYS ints ints_flip(ints x) { return _mm256_xor_si256(x, _mm256_set1_epi8((char)128)); }
ALWAYS ints ints_size(ints x) { return _mm256_abs_epi8(x); }
ALWAYS ints ints_sign(ints x, ints of) { return _mm256_sign_epi8(x, of); }
ALWAYS vec ints_float(ints x) { return _mm256_cvtepi32_ps(x); }
ALWAYS vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
ALWAYS ints ints_dot(ints sum, ints w, ints x) {
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
	__asm__("" : "+x"(sum)); // otherwise the compiler adds products first and runs out of registers
	return sum;
}
#else
typedef struct {
	int32_t x[LANES];
} ints;
ALWAYS ints ints_set(int32_t x) {
	ints y;
	EACH(i, LANES) y.x[i] = x;
	return y;
}
ALWAYS ints ints_load(const void *p) {
	ints x;
	memcpy(&x, p, sizeof x);
	return x;
}
ALWAYS ints ints_and(ints x, int mask) {
	EACH(i, LANES) x.x[i] &= (int32_t)(mask * 0x01010101u);
	return x;
}
ALWAYS vec ints_float(ints x) {
	vec y;
	EACH(i, LANES) y[i] = (float)x.x[i];
	return y;
}
ALWAYS vec vec_mul(vec a, vec b) { return a * b; }
ALWAYS ints ints_dot(ints sum, ints w, ints x) {
	EACH(i, LANES) {
		EACH(k, 4) sum.x[i] += (int32_t)(uint8_t)(w.x[i] >> 8 * k) * (int8_t)(x.x[i] >> 8 * k);
	}
	return sum;
}
#endif

// ints_whole adds products of weights of 8 bits, less their offset of 128 if there is one: sums then start at
// whole_begin.
#if Q_V16 >= 256 && !defined(Q_VNNI)
ALWAYS ints ints_whole(ints sum, ints w, ints x, const int offset) {
	if (!offset) return ints_dot(ints_dot(sum, ints_and(w, 127), x), ints_and(w, 128), x);
	w = ints_flip(w);
	return ints_dot(sum, ints_size(w), ints_sign(x, w));
}
ALWAYS ints whole_begin(int32_t begin, const int offset) { return ints_set(offset ? 0 : begin); }
#else
ALWAYS ints ints_whole(ints sum, ints w, ints x, const int offset) { return ints_dot(sum, w, x); }
ALWAYS ints whole_begin(int32_t begin, const int offset) { return ints_set(begin); }
#endif

// bytes are 64 numbers of 8 bits, in the registers of the level.
typedef uint8_t bytes __attribute__((vector_size(64), aligned(1), may_alias));

// look replaces 64 nibbles by what they stand for in a table of 16.
ALWAYS void look(bytes *x, const uint8_t *table) {
#if Q_V16 == 512
	const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
	_mm512_storeu_si512(x, _mm512_shuffle_epi8(t, _mm512_loadu_si512(x)));
#elif Q_V16 == 256
	const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
	EACH(h, 2) {
		__m256i *half = (__m256i *)x + h;
		_mm256_storeu_si256(half, _mm256_shuffle_epi8(t, _mm256_loadu_si256(half)));
	}
#else
	EACH(i, 64) (*x)[i] = table[(*x)[i]];
#endif
}

#ifdef Q_TILES
enum { LESS_OFFSET = 1 }; // unpacked numbers are without their offset, with a sign
#else
enum { LESS_OFFSET = 0 };
#endif

// unpack makes bytes of a block: [8][PANEL][4].
ALWAYS void unpack(uint8_t *to, const uint8_t *from, const int bits, const uint8_t *table, int offset) {
	const bytes less = (bytes){0} + (uint8_t)offset;
	if (bits == 8 && !LESS_OFFSET) {
		memcpy(to, from, BLOCK);
		return;
	}
	for (int64_t i = 0; bits == 8 && i < BLOCK; i += 64) *(bytes *)(to + i) = *(const bytes *)(from + i) - less;
	if (bits == 8) return;
	const uint8_t *high = from + BLOCK / 2;
	for (int64_t i = 0; i < STEP; i += 64) {
		EACH(s, 4) {
			bytes x = *(const bytes *)(from + s * STEP + i), low = x & 15, up = x >> 4;
			if (bits == 5) {
				bytes h = *(const bytes *)(high + i);
				low |= (h >> s & 1) << 4;
				up |= (h >> (s + 4) & 1) << 4;
			}
			if (bits == 6) {
				low |= (*(const bytes *)(high + i) >> 2 * s & 3) << 4;
				up |= (*(const bytes *)(high + STEP + i) >> 2 * s & 3) << 4;
			}
			if (table) {
				look(&low, table);
				look(&up, table);
			}
			if (LESS_OFFSET) low -= less, up -= less;
			*(bytes *)(to + s * STEP + i) = low;
			*(bytes *)(to + (s + 4) * STEP + i) = up;
		}
	}
}

// block is what is kept of a chunk: weights as bytes, scales of each 16 or 32 inputs, minima.
typedef struct {
	uint8_t quants[CHUNK * BLOCK];
	float scales[CHUNK * 2 * PANEL], minima[CHUNK * PANEL];
} chunk;

// widen makes float32 of scales, integers times factors or float16.
ALWAYS void widen(float *to, const uint8_t *from, const float *factors) {
	if (!factors) {
		EACH(c, Q_WIDE) v16_store(to + 16 * c, v16_load_f16((const uint16_t *)from + 16 * c));
		return;
	}
	for (int c = 0; c < PANEL; c++) to[c] = (float)(int8_t)from[c] * factors[c];
}

// unpack_group is unpack_unit of a grouped format. A zero point is a minimum: minus the zero point times the scale.
static void unpack_group(chunk *to, int64_t block, const uint8_t *from, q_blocks b) {
	float *scales = to->scales + block * PANEL, *minima = to->minima + block * PANEL;
	const int64_t blocks = b.size / Q_BLOCK_IN, size = q_quant_bytes(b, PANEL);
	EACH(c, Q_WIDE) {
		const uint8_t *at = from + 16 * c * (b.group == 3 ? 4 : 2);
		v16_store(scales + 16 * c, b.group == 3   ? v16_load((const float *)at)
		                           : b.group == 2 ? v16_load_bf16((const uint16_t *)at)
		                                          : v16_load_f16((const uint16_t *)at));
	}
	const uint8_t *zeros = q_group_zeros(from, b, PANEL);
	for (int c = 0; b.zero && c < PANEL; c++) minima[c] = -(float)zeros[c] * scales[c];
	for (int64_t i = 1; i < blocks; i++) {
		memcpy(scales + i * PANEL, scales, PANEL * sizeof *scales);
		if (b.zero) memcpy(minima + i * PANEL, minima, PANEL * sizeof *minima);
	}
	from += q_group_bytes(b, PANEL);
	for (int64_t i = 0; i < blocks; i++, from += size) {
		for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(from + AHEAD + line, 0, 2);
		if (b.bits == 4) unpack(to->quants + (block + i) * BLOCK, from, 4, NULL, b.offset);
		else unpack(to->quants + (block + i) * BLOCK, from, 8, NULL, b.offset);
	}
}

// unpack_unit unpacks a unit to a chunk, from one of its blocks on.
static void unpack_unit(chunk *to, int64_t block, const uint8_t *from, q_blocks b) {
	if (b.group) {
		unpack_group(to, block, from, b);
		return;
	}
	const int64_t size = q_block_bytes(b, PANEL), quants = q_quant_bytes(b, PANEL), scales = q_scale_bytes(b, PANEL);
	float factors[PANEL], minimum_factors[PANEL] = {0};
	if (b.super) {
		widen(factors, from, NULL);
		if (b.min) widen(minimum_factors, from + 2 * PANEL, NULL);
		for (int c = 0; b.min && c < PANEL; c++) minimum_factors[c] = -minimum_factors[c];
		from += q_header_bytes(b, PANEL);
	}
	for (int64_t i = q_unit_in(b) / Q_BLOCK_IN; i > 0; i--, block++, from += size) {
		for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(from + AHEAD + line, 0, 2);
		uint8_t *q = to->quants + block * BLOCK;
		if (b.table) unpack(q, from, 4, q_blocks_tables[b.table], b.offset);
		else if (b.bits == 4) unpack(q, from, 4, NULL, b.offset);
		else if (b.bits == 5) unpack(q, from, 5, NULL, b.offset);
		else if (b.bits == 6) unpack(q, from, 6, NULL, b.offset);
		else unpack(q, from, 8, NULL, b.offset);
		const int halves = 32 / b.size;
		for (int c = 0; b.exponent && c < PANEL; c++) to->scales[block * PANEL + c] = q_power_of_two(from[quants + c]);
		for (int h = 0; !b.exponent && h < halves; h++)
			widen(to->scales + (block * halves + h) * PANEL, from + quants + h * scales / halves,
				b.super ? factors : NULL);
		if (b.min) widen(to->minima + block * PANEL, from + quants + scales, b.super ? minimum_factors : NULL);
	}
}

// Activations of a tile of n rows lie packed as bytes [in/4][n][4], for AMX [in/32][16][32]; then come, of each block,
// the rows' scales, the sums of their numbers in float32, and the initial values of the integer sums of 16 or 32
// inputs, if weights are read with their offset.
typedef struct {
	int8_t *x;
	float *scales, *sums;
	int32_t *begins;
} activations;

#ifdef Q_TILES
enum { PART_ROWS = 0 };
static int64_t tile_begin(const q_linear_job *j, int64_t tile) { return least(tile * Q_ROWS, j->l->rows); }
static int64_t room(const q_linear_job *j) { return j->tiles * Q_ROWS; }
static int64_t pitch_of(int64_t count) { return Q_ROWS; }
#else
enum { PART_ROWS = Q_PART_ROWS };
static int64_t tile_begin(const q_linear_job *j, int64_t tile) { return j->l->rows * tile / j->tiles; }
static int64_t room(const q_linear_job *j) { return j->l->rows; }
static int64_t pitch_of(int64_t count) { return count; }
#endif

// activations_of returns the activations of rows from the start of a tile: each array has room for all rows before the
// next.
ALWAYS activations activations_of(const q_linear_job *j, int64_t row) {
	const int64_t in = j->l->in, rows = room(j), blocks = in / Q_BLOCK_IN;
	char *scratch = j->rows;
	activations a = {.x = (int8_t *)scratch + row * in};
	scratch += rows * in;
	a.scales = (float *)scratch + row * blocks;
	a.sums = (float *)scratch + (rows + row) * blocks;
	a.begins = (int32_t *)scratch + (2 * rows + 2 * row) * blocks;
	return a;
}

// pack_block rounds 32 numbers of a row, and returns their scale. sums are the sums of each 16 rounded numbers, exact
// in float32. A NaN makes the sums and the scale NaN, and so the row's results.
ALWAYS float pack_block(const q_linear *l, int64_t at, int8_t q[32], v16 sums[2]) {
	const v16 magic = v16_set(0x1.8p23f), zero = v16_set(0);
	v16 largest = zero;
	EACH(h, 2) {
		sums[h] = load16(l->x, at + 16 * h, l->dtype, 16);
		largest = v16_max(largest, v16_max(sums[h], v16_sub(zero, sums[h])));
	}
	// Numbers so small that 127 / most would be infinite become 0.
	const float most = v16_largest(largest), inverse = most > 0x1p-120f ? 127 / most : 0;
	EACH(h, 2) {
		sums[h] = v16_sub(v16_add(v16_mul(sums[h], v16_set(inverse)), magic), magic);
		v16_store_s8(q + 16 * h, sums[h]);
	}
	return most * (1.0f / 127);
}

// whole is a sum of integers as one, and 0 if it is not a number.
ALWAYS int32_t whole(float sum) { return sum == sum ? (int32_t)sum : 0; }

static void pack_tile(void *job, int64_t t) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const int64_t begin = tile_begin(j, t), n = tile_begin(j, t + 1) - begin, pitch = pitch_of(n),
				  blocks = l->in / Q_BLOCK_IN;
	const activations a = activations_of(j, begin);
	for (int64_t r = 0; r < n; r++) {
		for (int64_t b = 0; b < blocks; b++) {
			int8_t q[32];
			v16 halves[2];
			const float scale = pack_block(l, (begin + r) * l->in + b * 32, q, halves);
			const float sum = 0.0f + v16_sum(v16_add(halves[0], halves[1])); // never -0
#ifdef Q_TILES
			memcpy(a.x + (b * Q_ROWS + r) * 32, q, 32);
#else
			for (int s = 0; s < 8; s++) memcpy(a.x + ((b * 8 + s) * n + r) * 4, q + 4 * s, 4);
#endif
			a.scales[b * pitch + r] = scale + (sum - sum);
			a.sums[b * pitch + r] = scale * sum;
			if (LESS_OFFSET) continue;
			if (l->blocks.size != 16) {
				a.begins[b * pitch + r] = -l->blocks.offset * whole(sum);
			} else {
				EACH(h, 2) a.begins[(2 * b + h) * pitch + r] = -l->blocks.offset * whole(v16_sum(halves[h]));
			}
		}
	}
	for (int64_t b = 0; b < blocks; b++) // clears the tile's rows beyond the last: old contents may be slow to add
		for (int64_t r = n; r < pitch; r++) a.scales[b * pitch + r] = a.sums[b * pitch + r] = 0;
}

// The kinds of code: blocks of 32 with scales, with minima, of whole bytes; of 16; of whole bytes with minima.
enum { SCALES, MINIMA, HALVES, BYTES, BYTES_MINIMA, KINDS };

#endif
