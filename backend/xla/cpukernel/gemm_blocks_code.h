// The code of linear layers in blocks for one level: see gemm_blocks.h. A file that includes this defines, in
// addition to Q_V16: Q_CODE; Q_WIDE, the panel's width in v16; Q_ROWS, the rows of a tile; Q_VNNI if an instruction
// multiplies groups of four bytes; and Q_TILES if AMX does, 16 rows at a time.
#include "convert.h"
#include "gemm_blocks.h"

enum {
	PANEL = 16 * Q_WIDE,
	BLOCK_TILES = 96 / Q_ROWS,       // tiles whose sums are kept at a time
	MAX_ROWS = BLOCK_TILES * Q_ROWS, // rows in these tiles
	MAX_PANELS = 8 / Q_WIDE,         // panels of a task
	SUMS = MAX_ROWS * PANEL,
	STEP = 4 * PANEL, // bytes of four inputs of a panel, unpacked
	BLOCK = 8 * STEP, // and of 32
	CHUNK = 8,        // blocks that are unpacked at a time
	AHEAD = 12288,    // how many bytes ahead a stream of weights is prefetched
	OWN = 1 << 13,    // how many numbers of rows each thread packs for itself, at most
};

#include "gemm_finish.h"
#include "gemm_vec.h"

enum { WIDE = PANEL / LANES };

// ints is one register of LANES int32 numbers, whose bytes may also be unsigned weights, or signed activations.
// ints_dot adds to each number the four products of its bytes. If pairs of products must fit in 16 bits, ints_whole
// is ints_dot for weights that take all of 8 bits.
#if Q_V16 == 512
typedef __m512i ints;
ALWAYS ints ints_set(int32_t x) { return _mm512_set1_epi32(x); }
ALWAYS ints ints_load(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS ints ints_add(ints a, ints b) { return _mm512_add_epi32(a, b); }
ALWAYS ints ints_and(ints x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi8((char)mask)); }
ALWAYS ints ints_flip(ints x) { return _mm512_xor_si512(x, _mm512_set1_epi8((char)128)); }
ALWAYS ints ints_size(ints x) { return _mm512_abs_epi8(x); }
ALWAYS ints ints_sign(ints x, ints of) { // x, with the sign of bytes changed if those in `of` are negative
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
	__asm__("" : "+v"(sum)); // or the compiler keeps copies of sums, and runs out of registers
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
	__asm__("" : "+x"(sum)); // or the compiler adds products first, and runs out of registers
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

// ints_whole adds products of 8-bit weights, minus their offset of 128 if there is one: sums then start at
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

// bytes is 64 numbers of 8 bits, in whatever registers there are.
typedef uint8_t bytes __attribute__((vector_size(64), aligned(1), may_alias));

// look replaces 64 nibbles by the numbers of a table of 16.
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
enum { LESS_OFFSET = 1 }; // the offset of unpacked numbers is subtracted, so they are signed
#else
enum { LESS_OFFSET = 0 };
#endif

// unpack unpacks a block to bytes: [8][PANEL][4].
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

// chunk has the unpacked form of a chunk: weights as bytes, scales for each 16 or 32 inputs, minima.
typedef struct {
	uint8_t quants[CHUNK * BLOCK];
	float scales[CHUNK * 2 * PANEL], minima[CHUNK * PANEL];
} chunk;

// widen converts scales, which are integers times factors or float16, to float32.
ALWAYS void widen(float *to, const uint8_t *from, const float *factors) {
	if (!factors) {
		EACH(c, Q_WIDE) v16_store(to + 16 * c, v16_load_f16((const uint16_t *)from + 16 * c));
		return;
	}
	for (int c = 0; c < PANEL; c++) to[c] = (float)(int8_t)from[c] * factors[c];
}

// unpack_group is unpack_unit for a grouped format. A zero point becomes a minimum: minus the zero point times the
// scale.
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

// unpack_unit unpacks a unit to a chunk, starting at one of its blocks.
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

// Activations of a tile of n rows are packed as bytes [in/4][n][4], for AMX [in/32][16][32]. Then come, for each
// block, the rows' scales, the sums of their numbers in float32, and the initial values of the integer sums of 16 or
// 32 inputs if weights are read with their offset.
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

// activations_of returns the activations of rows from a tile's start: each array has room for all rows before the
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

// pack_block rounds 32 numbers of a row, and returns their scale. sums are the sums of each 16 rounded numbers, in
// float32, which represents them exactly. A NaN or infinity makes the sums or the scale not finite, and so the row's
// results.
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

// whole converts a sum of integers to an integer, and NaN to 0.
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
	for (int64_t b = 0; b < blocks; b++) // of rows of a tile after the last: their old contents may be slow to add
		for (int64_t r = n; r < pitch; r++) a.scales[b * pitch + r] = a.sums[b * pitch + r] = 0;
}

// The kinds of code: blocks of 32 with scales, with minima, of whole bytes; of 16; of whole bytes with minima.
enum { SCALES, MINIMA, HALVES, BYTES, BYTES_MINIMA, KINDS };

#ifdef Q_TILES
#include "gemm_blocks_tiles.h"
#else
// add_products adds integer products of a row and LANES columns to their sums.
ALWAYS void add_products(ints products, const float *scales, float scale, const float *minima, float sum, float *to) {
	vec y = vec_fma(ints_float(products), vec_mul(vec_load(scales), vec_set(scale)), vec_load(to));
	if (minima) y = vec_fma(vec_load(minima), vec_set(sum), y);
	vec_store(to, y);
}

// tile adds the products of some blocks to the sums of n rows, [rows][PANEL] at the first row. halves is 2 for blocks
// of 16; min reports that there are minima, and wide that weights have 8 bits, with an offset if there are no minima.
ALWAYS void tile(const int n, const int halves, const int min, const int wide, activations a, const chunk *w,
	int64_t blocks, float *sums) {
	const uint8_t *q = w->quants;
	const float *scales = w->scales, *minima = w->minima;
	for (; blocks > 0; blocks--) {
		for (int h = 0; h < halves; h++) {
			__asm__ volatile("" ::: "memory"); // or the compiler keeps a copy of the sums on the stack
			ints s[Q_ROWS][WIDE];
			EACH(r, n)
				EACH(j, WIDE) s[r][j] = wide ? whole_begin(a.begins[r], !min) : ints_set(a.begins[r]);
			for (int step = 0; step < 8 / halves; step++, q += STEP, a.x += 4 * n) {
				ints b[WIDE];
				EACH(j, WIDE) b[j] = ints_load(q + j * LANES * 4);
				EACH(r, n) {
					int32_t four;
					memcpy(&four, a.x + 4 * r, 4);
					ints x = ints_set(four);
					EACH(j, WIDE)
						s[r][j] = wide ? ints_whole(s[r][j], b[j], x, !min) : ints_dot(s[r][j], b[j], x);
				}
			}
			EACH(r, n)
				EACH(j, WIDE) {
					const float *m = min && h == halves - 1 ? minima + j * LANES : NULL;
					add_products(s[r][j], scales + j * LANES, a.scales[r], m, a.sums[r], sums + r * PANEL + j * LANES);
				}
			scales += PANEL;
			a.begins += n;
		}
		minima += PANEL;
		a.scales += n;
		a.sums += n;
	}
}

// tiles by rows and kind, so that the loops of each are unrolled.
typedef void (*tile_code)(activations, const chunk *, int64_t, float *);

#define TILE(name, n, halves, min, wide) \
	static __attribute__((noinline)) void name(activations a, const chunk *w, int64_t blocks, float *sums) { \
		tile(n, halves, min, wide, a, w, blocks, sums); \
	}
// clang-format off
#define TILES(n) \
	TILE(scales_##n, n, 1, 0, 0) TILE(minima_##n, n, 1, 1, 0) TILE(halves_##n, n, 2, 0, 0) \
	TILE(bytes_##n, n, 1, 0, 1) TILE(bytes_minima_##n, n, 1, 1, 1)
// clang-format on
#define COMMA ,
#if Q_ROWS == 4
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4)
#else
#define FOR_ROWS(f, _) f(1) _ f(2) _ f(3) _ f(4) _ f(5) _ f(6) _ f(7) _ f(8) _ f(9) _ f(10) _ f(11) _ f(12)
#endif
#define CODES(n) {scales_##n, minima_##n, halves_##n, bytes_##n, bytes_minima_##n}
FOR_ROWS(TILES, )
static const tile_code codes[Q_ROWS][KINDS] = {FOR_ROWS(CODES, COMMA)};
static void multiply(int64_t n, int kind, activations a, const chunk *w, int64_t blocks, float *sums) {
	codes[n - 1][kind](a, w, blocks, sums);
}
static void begin_tiles(const q_linear *l) {}
static void end_tiles(void) {}
#endif

#if Q_V16 >= 256 && !defined(Q_TILES)
#include "gemm_blocks_few.h"

// few_panels computes panels for few rows; it reports whether there is code for that.
static int few_panels(const q_linear_job *j, int64_t from, int64_t n) {
	const q_linear *l = j->l;
	const few_code code = few(l->blocks, l->rows);
	if (!code) return 0;
	const int64_t units = l->in / q_unit_in(l->blocks), bytes = units * q_unit_bytes(l->blocks, PANEL);
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	for (int64_t p = 0; p < n; p++)
		code(activations_of(j, 0), (const uint8_t *)l->weights + (from + p) * bytes, units, sums + p * SUMS);
	finish_panels(j, sums, NULL, 0, l->rows, from, n);
	return 1;
}
#else
static int few_panels(const q_linear_job *j, int64_t from, int64_t n) { return 0; }
#endif

static void panels(void *job, int64_t task) {
	const q_linear_job *j = job;
	const q_linear *l = j->l;
	const q_blocks f = l->blocks;
	const int64_t unit = q_unit_in(f), unit_bytes = q_unit_bytes(f, PANEL), unit_blocks = unit / Q_BLOCK_IN,
				  units = l->in / unit;
	const int64_t from = task * j->panels_a_task, n = least(j->panels_a_task, j->panels - from);
	if (few_panels(j, from, n)) return;
	const int64_t passes = (j->tiles + BLOCK_TILES - 1) / BLOCK_TILES,
				  a_pass = (j->tiles + passes - 1) / passes; // of tiles
	const int64_t a_chunk = CHUNK / unit_blocks;
	const int kind = f.bits == 8 && f.zero ? BYTES_MINIMA
	                 : f.zero              ? MINIMA
	                 : q_blocks_wide(f)    ? BYTES
	                 : f.size == 16        ? HALVES
	                 : f.min               ? MINIMA
	                                       : SCALES;
	float sums[MAX_PANELS * SUMS] __attribute__((aligned(64)));
	chunk w __attribute__((aligned(64)));
	begin_tiles(l);
	for (int64_t t0 = 0; t0 < j->tiles; t0 += a_pass) {
		const int64_t t1 = least(t0 + a_pass, j->tiles), row = tile_begin(j, t0), rows = tile_begin(j, t1) - row;
		for (int64_t p = 0; p < n; p++) {
			memset(sums + p * SUMS, 0, (t1 - t0) * Q_ROWS * PANEL * sizeof *sums);
			const uint8_t *b = (const uint8_t *)l->weights + (from + p) * units * unit_bytes;
			for (int64_t u = 0; u < units; u += a_chunk) {
				const int64_t some = least(a_chunk, units - u), block = u * unit_blocks;
				for (int64_t i = 0; i < some; i++, b += unit_bytes) unpack_unit(&w, i * unit_blocks, b, f);
				for (int64_t t = t0; t < t1; t++) {
					const int64_t begin = tile_begin(j, t), count = tile_begin(j, t + 1) - begin,
								  pitch = pitch_of(count);
					activations a = activations_of(j, begin);
					a.x += block * 32 * pitch;
					a.scales += block * pitch;
					a.sums += block * pitch;
					a.begins += block * q_halves(f) * pitch;
					multiply(count, kind, a, &w, some * unit_blocks, sums + p * SUMS + (begin - row) * PANEL);
				}
			}
		}
		finish_panels(j, sums, NULL, row, rows, from, n);
	}
	end_tiles();
}

const q_linear_code Q_CODE = {Q_ROWS, pack_tile, panels, 0, OWN, PART_ROWS};
