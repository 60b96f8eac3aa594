// The part of gemm_kernel.h for 8-bit weights. Both factors are widened to 16 bits, so that an instruction that
// multiplies pairs and adds them to 32 bits cannot overflow: a pair of products is at most 2 * 127 * 127, and 2^31
// holds the sum of 133,000 products. Integer sums are exact in any order.

// ints is one register of LANES int32 numbers. ints_pairs multiplies pairs of int16 and adds each two products.
#if Q_V16 == 512
typedef __m512i ints;
ALWAYS ints ints_zero(void) { return _mm512_setzero_si512(); }
ALWAYS ints ints_load(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS void ints_store(void *p, ints x) { _mm512_storeu_si512(p, x); }
ALWAYS ints ints_pair(const int16_t *p) {
	int32_t pair;
	memcpy(&pair, p, 4);
	return _mm512_set1_epi32(pair);
}
ALWAYS ints ints_widen(const int8_t *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p)); }
ALWAYS ints ints_pairs(ints x, ints w, ints sum) {
	sum = _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
	__asm__("" : "+v"(sum)); // or the compiler adds products first, and runs out of registers
	return sum;
}
ALWAYS vec ints_float(ints x, float scale) { return _mm512_mul_ps(_mm512_cvtepi32_ps(x), _mm512_set1_ps(scale)); }
#elif Q_V16 == 256
typedef __m256i ints;
ALWAYS ints ints_zero(void) { return _mm256_setzero_si256(); }
ALWAYS ints ints_load(const void *p) { return _mm256_loadu_si256(p); }
ALWAYS void ints_store(void *p, ints x) { _mm256_storeu_si256(p, x); }
ALWAYS ints ints_pair(const int16_t *p) {
	int32_t pair;
	memcpy(&pair, p, 4);
	return _mm256_set1_epi32(pair);
}
ALWAYS ints ints_widen(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }
ALWAYS ints ints_pairs(ints x, ints w, ints sum) {
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
	__asm__("" : "+x"(sum)); // or the compiler adds products first, and runs out of registers
	return sum;
}
ALWAYS vec ints_float(ints x, float scale) { return _mm256_mul_ps(_mm256_cvtepi32_ps(x), _mm256_set1_ps(scale)); }
#else
typedef struct {
	int16_t x[2 * LANES];
} pairs16;
typedef union {
	int32_t sum[LANES];
	pairs16 pairs;
} ints;
ALWAYS ints ints_zero(void) { return (ints){{0}}; }
ALWAYS ints ints_load(const void *p) {
	ints x;
	memcpy(&x, p, sizeof x);
	return x;
}
ALWAYS void ints_store(void *p, ints x) { memcpy(p, &x, sizeof x); }
ALWAYS ints ints_pair(const int16_t *p) {
	ints x;
	EACH(i, 2 * LANES) x.pairs.x[i] = p[i % 2];
	return x;
}
ALWAYS ints ints_widen(const int8_t *p) {
	ints x;
	EACH(i, 2 * LANES) x.pairs.x[i] = p[i];
	return x;
}
ALWAYS ints ints_pairs(ints x, ints w, ints s) {
	EACH(i, LANES) s.sum[i] += x.pairs.x[2 * i] * w.pairs.x[2 * i] + x.pairs.x[2 * i + 1] * w.pairs.x[2 * i + 1];
	return s;
}
ALWAYS vec ints_float(ints x, float scale) {
	vec y;
	EACH(i, LANES) y[i] = (float)x.sum[i] * scale;
	return y;
}
#endif

// widen_s8 widens a block of a panel to [in/2][PANEL][2] of 16-bit numbers.
static void widen_s8(int16_t *to, const int8_t *b, int64_t in) {
	for (; in > 0; in -= 2, to += 2 * PANEL, b += 2 * PANEL)
		EACH(j, WIDE) ints_store(to + j * 2 * LANES, ints_widen(b + j * 2 * LANES));
}

// tile_s8 is tile for blocks of int8 (narrow) or int16 weights. a is [in/2][n][2]. The last block's sums become
// float32, each row's times its scale.
ALWAYS void tile_s8(const int n, const int narrow, const int16_t *a, const char *b, int64_t in, float *sums, int first,
	const float *last, const char *ahead, int64_t step) {
	ints s[Q_ROWS][WIDE];
	EACH(r, n)
		EACH(j, WIDE) s[r][j] = ints_zero();
	if (!first) {
		EACH(r, n)
			EACH(j, WIDE) s[r][j] = ints_load(sums + r * PANEL + j * LANES);
	}
	for (; in > 0; in -= 4) {
		EACH(i, 2) {
			ints w[WIDE];
			EACH(j, WIDE) {
				int64_t at = i * 2 * PANEL + j * 2 * LANES;
				w[j] = narrow ? ints_widen((const int8_t *)b + at) : ints_load((const int16_t *)b + at);
			}
			EACH(r, n) {
				ints x = ints_pair(a + (i * n + r) * 2);
				EACH(j, WIDE) s[r][j] = ints_pairs(x, w[j], s[r][j]);
			}
		}
		a += 4 * n;
		b += 4 * PANEL * (narrow ? 1 : 2);
		__builtin_prefetch(ahead, 0, 2);
		ahead += step;
	}
	if (last) {
		EACH(r, n)
			EACH(j, WIDE) vec_store(sums + r * PANEL + j * LANES, ints_float(s[r][j], last[r]));
	} else {
		EACH(r, n)
			EACH(j, WIDE) ints_store(sums + r * PANEL + j * LANES, s[r][j]);
	}
}

typedef void (*tile_s8_code)(
	const int16_t *, const char *, int64_t, float *, int, const float *, const char *, int64_t);

#define TILE_S8(name, n, narrow) \
	static __attribute__((noinline)) void name(const int16_t *a, const char *b, int64_t in, float *sums, int first, \
		const float *last, const char *ahead, int64_t step) { \
		tile_s8(n, narrow, a, b, in, sums, first, last, ahead, step); \
	}
#define TILES_S8(n) TILE_S8(s16_##n, n, 0) TILE_S8(s8_##n, n, 1)
#define ROW_S8(n) {s16_##n, s8_##n}
FOR_ROWS(TILES_S8, )
static const tile_s8_code codes_s8[Q_ROWS][2] = {FOR_ROWS(ROW_S8, COMMA)};

// 8-bit activations: [in/2][rows of the tile][2] for each tile, and each row's scale after all of them.
static int16_t *packed_s8(const q_linear_job *j, int64_t row) { return (int16_t *)j->rows + row * j->padded_in; }
static float *row_scales(const q_linear_job *j) {
	return (float *)((char *)j->rows + (j->l->rows * j->padded_in * 2 + 63) / 64 * 64);
}

// pack_tile_s8 rounds the rows of a tile.
static void pack_tile_s8(const q_linear_job *j, int64_t begin, int64_t n) {
	int16_t *to = packed_s8(j, begin);
	const int64_t in = j->l->in, padded_in = j->padded_in;
	for (int64_t r = 0; r < n; r++) {
		float inverse;
		row_scales(j)[begin + r] = row_scale(j->l, begin + r, &inverse);
		int8_t q[16];
		int16_t wide[16];
		int64_t i = 0;
		for (; i + 16 <= in; i += 16) {
			round16(j->l, begin + r, i, 16, inverse, q);
			EACH(k, 16) wide[k] = q[k];
			EACH(k, 8) memcpy(to + (i + 2 * k) * n + r * 2, wide + 2 * k, 4);
		}
		for (; i < padded_in; i += 16) {
			round16(j->l, begin + r, i, least(16, in - i), inverse, q);
			EACH(k, 16) wide[k] = q[k];
			for (int64_t k = 0; k < least(16, padded_in - i); k += 2) memcpy(to + (i + k) * n + r * 2, wide + k, 4);
		}
	}
}
