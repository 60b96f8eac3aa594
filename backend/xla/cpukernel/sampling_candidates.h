// The candidates of a row, the logits that may be kept, and how many of them top-k and top-p keep. The filters of
// filters_row.h and the sampler of sampling_row.h build on it.
#include "sampling_scan.h"

// exponential is e of sixteen logits.
static inline v16 exponential(const sampled *s, v16 logits) {
	return v16_exp_heated(v16_sub(logits, v16_set(s->max)), &s->heat);
}

// surprise is how much less likely sixteen logits are than the largest one, as a logarithm.
static inline v16 surprise(const sampled *s, v16 logits) {
	return v16_div(v16_sub(v16_set(s->max), logits), v16_set(s->temperature));
}

// distance is how far from the mean surprise sixteen logits are.
static inline v16 distance(const sampled *s, v16 logits) {
	v16 x = surprise(s, logits), mean = v16_set(s->mean);
	return v16_max(v16_sub(x, mean), v16_sub(mean, x));
}

// kept is e of sixteen logits, 0 for logits with an e below least and for logits that late filters dropped.
static inline v16 kept(const sampled *s, v16 logits, v16 least) {
	v16 e = v16_keep(exponential(s, logits), least);
	if (!s->late) return e;
	e = v16_only(v16_ge(v16_set(s->near), distance(s, logits)), e, v16_set(0));
	return v16_only(v16_ge(v16_set(s->most), e), e, v16_set(0));
}

// pieces are the upper and the lower bits of the weights of e.
static inline void pieces(v16 e, v16i *upper, v16i *lower) {
	const v16 scale = v16_set(1 << PIECE_BITS);
	v16 scaled = v16_mul(e, scale);
	*upper = v16_int(scaled);
	*lower = v16_int(v16_mul(v16_sub(scaled, v16i_float(*upper)), scale));
}

static inline void store_weights(uint64_t *weight, v16 e) {
	v16i upper, lower;
	int32_t u[16], l[16];
	pieces(e, &upper, &lower);
	v16i_store(u, upper);
	v16i_store(l, lower);
	for (int i = 0; i < 16; i++) weight[i] = ((uint64_t)u[i] << PIECE_BITS) + l[i];
}

// logit_below is below the logit of any token with this e or more; logit_above is above the logit of any token with
// this e or less.
static float logit_below(const sampled *s, float e) {
	float l = s->max + s->temperature * (logf(e) - 1e-3f);
	return l - fabsf(l) * 1e-6f;
}

static float logit_above(const sampled *s, float e) {
	float l = s->max + s->temperature * (logf(e) + 1e-3f);
	return l + fabsf(l) * 1e-6f;
}

// weigh sums the weights of the tokens with at least this e that are kept, chunk by chunk.
static uint64_t weigh(sampled *s, float least) {
	uint64_t total = 0;
	float bound = logit_below(s, least);
	for (int64_t c = 0; c < s->chunks; c++) {
		s->weights[c] = 0;
		if (s->largest[c] < bound) continue;
		int64_t n;
		const float *p = chunk(s, c, &n);
		v16i upper = v16i_zero(), lower = upper, u, l;
		for (int64_t i = 0; i < n; i += 16) {
			pieces(kept(s, v16_load(p + i), v16_set(least)), &u, &l);
			upper = v16i_add(upper, u);
			lower = v16i_add(lower, l);
		}
		s->weights[c] = ((uint64_t)v16i_sum(upper) << PIECE_BITS) + v16i_sum(lower);
		total += s->weights[c];
	}
	return total;
}

// bound returns a logit that at least `lanes` lanes reach, and no more than twice as many if they differ enough;
// -FLT_MAX if fewer than `lanes` exist.
static float bound(const sampled *s, int64_t lanes) {
	float low = s->max, high = s->max, step = 4;
	for (int known = 0, round = 0; round < 256; round++) {
		float middle = known ? low / 2 + high / 2 : s->max - step;
		if (middle <= -FLT_MAX) return -FLT_MAX;
		int64_t above = 0;
		for (int64_t c = 0; c < s->chunks; c++)
			above += __builtin_popcount(v16_ge(v16_load(s->lanes + 16 * c), v16_set(middle)));
		if (above >= lanes && (above <= 2 * lanes || middle == low || round >= 32)) return middle;
		if (above >= lanes) known = 1, low = middle;
		else if (middle == high) return low;
		else high = middle, step *= 2;
	}
	return -FLT_MAX;
}

// gather makes candidates of the tokens with logits in [low, high], in their order. It returns 0 if they are too many.
static int gather(sampled *s, float low, float high) {
	float *logits = s->logit;
	int n = 0;
	s->candidates = 0;
	for (int64_t c = 0; c < s->chunks; c++) {
		if (s->largest[c] < low) continue;
		int64_t size;
		const float *p = chunk(s, c, &size);
		for (int64_t i = 0; i < size;) {
			for (; i + 64 <= size; i += 64) { // mostly there are none among many
				v16 a = v16_max(v16_load(p + i), v16_load(p + i + 16)),
					b = v16_max(v16_load(p + i + 32), v16_load(p + i + 48));
				if (v16_ge(v16_max(a, b), v16_set(low))) break;
			}
			int64_t end = i + 64 < size ? i + 64 : size;
			for (; i < end; i += 16) {
				v16 l = v16_load(p + i);
				unsigned lanes = v16_ge(l, v16_set(low)) & v16_ge(v16_set(high), l);
				if (n + 16 > MAX_CANDIDATES) return 0;
				for (; lanes; lanes &= lanes - 1) {
					int lane = __builtin_ctz(lanes);
					s->id[n] = c * s->size + i + lane;
					logits[n++] = p[i + lane];
				}
			}
		}
	}
	s->candidates = n;
	for (; n & 15; n++) logits[n] = -INFINITY;
	for (int i = 0; i < n; i += 16) {
		v16 e = v16_keep(exponential(s, v16_load(logits + i)), v16_set(q_from_bits(LEAST)));
		v16_store(s->e + i, e);
		store_weights(s->weight + i, e);
	}
	return 1;
}

// gather_above makes candidates of the tokens with logits at or above a bound, and of those a little below, which
// rounding may have given the same e.
static int gather_above(sampled *s, float bound) { return gather(s, bound - s->temperature * 1e-5f, s->max); }

// weight_above is the weight of the candidates with at least this e.
static uint64_t weight_above(const sampled *s, float least) {
	uint64_t sum = 0;
	for (int i = 0; i < s->candidates; i++) sum += s->e[i] >= least ? s->weight[i] : 0;
	return sum;
}

// narrow finds the largest bit pattern in [lowest, high) at or above which the candidates below high have the needed
// number or weight; lowest if there is none. A histogram finds the bucket; then only its candidates are examined.
static int32_t narrow(const sampled *s, int by_weight, uint64_t need, int32_t lowest, int32_t high) {
	uint64_t histogram[BUCKETS] = {0}, amounts[MAX_CANDIDATES];
	int32_t bits[MAX_CANDIDATES];
	for (int i = 0; i < s->candidates; i++) {
		int32_t e = q_bits(s->e[i]);
		if (e >= lowest && e < high) histogram[(e - LEAST) >> COARSE] += by_weight ? s->weight[i] : 1;
	}
	int b = BUCKETS - 1, n = 0;
	for (; b >= 0 && histogram[b] < need; b--) need -= histogram[b];
	if (b < 0) return lowest;
	int32_t low = LEAST + (b << COARSE), above = low + (1 << COARSE);
	if (low < lowest) low = lowest;
	if (above > high) above = high;
	for (int i = 0; i < s->candidates; i++) {
		bits[n] = q_bits(s->e[i]);
		amounts[n] = by_weight ? s->weight[i] : 1;
		n += bits[n] >= low && bits[n] < above;
	}
	while (above - low > 1) { // there is enough at or above low, and too little at or above `above`
		int32_t middle = low + (above - low) / 2;
		uint64_t sum = 0;
		for (int i = 0; i < n; i++) sum += bits[i] >= middle ? amounts[i] : 0;
		if (sum >= need) low = middle;
		else above = middle;
	}
	return low;
}

// count adds the tokens whose e has a bit pattern in [low, low + (buckets << shift)), and is at least lowest, to a
// histogram.
static void count(sampled *s, int by_weight, int32_t lowest, int32_t low, int shift, int buckets, uint64_t *histogram) {
	int32_t from = low > lowest ? low : lowest;
	float least = q_from_bits(from), bound = logit_below(s, least);
	memset(histogram, 0, buckets * sizeof *histogram);
	for (int64_t c = 0; c < s->chunks; c++) {
		if (s->largest[c] < bound) continue;
		int64_t n;
		const float *p = chunk(s, c, &n);
		for (int64_t i = 0; i < n; i += 16) {
			float e[16];
			uint64_t weight[16];
			v16 x = exponential(s, v16_load(p + i));
			unsigned lanes = v16_ge(x, v16_set(least)) & ~v16_ge(x, v16_set(q_from_bits(low + (buckets << shift))));
			if (!lanes) continue;
			v16_store(e, x);
			if (by_weight) store_weights(weight, v16_keep(x, v16_set(least)));
			for (; lanes; lanes &= lanes - 1) {
				int lane = __builtin_ctz(lanes);
				histogram[(q_bits(e[lane]) - low) >> shift] += by_weight ? weight[lane] : 1;
			}
		}
	}
}

// search is narrow for all tokens of the row: a histogram of all, then the tokens of one bucket or, if those are too
// many, finer ones.
static int32_t search(sampled *s, int by_weight, uint64_t need, int32_t lowest) {
	uint64_t histogram[BUCKETS], above = 0;
	int32_t low = LEAST;
	for (int shift = COARSE; shift >= 0; shift -= FINE) {
		int buckets = shift == COARSE ? BUCKETS : 1 << FINE, b = buckets - 1;
		count(s, by_weight, lowest, low, shift, buckets, histogram);
		for (; b >= 0 && above + histogram[b] < need; b--) above += histogram[b];
		if (b < 0) return lowest;
		low += b << shift;
		int32_t high = low + (1 << shift), from = low > lowest ? low : lowest;
		if (shift && gather(s, logit_below(s, q_from_bits(from)), logit_above(s, q_from_bits(high)))) {
			low = narrow(s, by_weight, need - above, from, high);
			shift = 0;
		}
	}
	s->candidates = 0;
	return low;
}

// threefry is Threefry-2x32 with 20 rounds of the counter (position, stream): 64 random bits.
static uint64_t threefry(const uint32_t *key, uint32_t position, uint32_t stream) {
	static const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
	uint32_t schedule[3] = {key[0], key[1], 0x1bd11bda ^ key[0] ^ key[1]};
	uint32_t x0 = position + schedule[0], x1 = stream + schedule[1];
	for (int round = 0; round < 20; round++) {
		int r = rotations[round % 8];
		x0 += x1;
		x1 = (x1 << r | x1 >> (32 - r)) ^ x0;
		if (round % 4 == 3) {
			int n = round / 4 + 1;
			x0 += schedule[n % 3];
			x1 += schedule[(n + 1) % 3] + n;
		}
	}
	return (uint64_t)x0 << 32 | x1;
}

// part is floor(u * total / 2^64).
static uint64_t part(uint64_t u, uint64_t total) { return (unsigned __int128)u * total >> 64; }

// sample_all returns the token at target in the cumulative sum that weigh computed, for the same e.
static int32_t sample_all(sampled *s, uint64_t target, float least) {
	int64_t c = 0, n;
	for (; c < s->chunks - 1 && target >= s->weights[c]; c++) target -= s->weights[c];
	const float *p = chunk(s, c, &n);
	for (int64_t i = 0; i < n; i += 16) {
		uint64_t weight[16];
		store_weights(weight, kept(s, v16_load(p + i), v16_set(least)));
		for (int lane = 0; lane < 16; lane++) {
			if (target < weight[lane]) return c * s->size + i + lane;
			target -= weight[lane];
		}
	}
	return -1; // not reached: target is below the sum of the weights
}

// sample_candidate returns the token at target among the candidates with at least this e.
static int32_t sample_candidate(const sampled *s, uint64_t target, float least) {
	for (int i = 0; i < s->candidates; i++) {
		if (s->e[i] < least) continue;
		if (target < s->weight[i]) return s->id[i];
		target -= s->weight[i];
	}
	return -1; // not reached
}

// first returns the first token with the largest logit.
static int32_t first(sampled *s) {
	int64_t c = 0, n;
	while (c < s->chunks - 1 && s->largest[c] != s->max) c++;
	const float *p = chunk(s, c, &n);
	for (int64_t i = 0; i < n; i += 16) {
		unsigned lanes = v16_ge(v16_load(p + i), v16_set(s->max));
		if (lanes) return c * s->size + i + __builtin_ctz(lanes);
	}
	return -1; // not reached
}

// nucleus finds the candidates that hold the top_p of the weight of the tokens with at least lowest, and returns their
// least e. It returns 0 if they are too many, and stores the needed weight.
static int32_t nucleus(sampled *s, float top_p, int32_t lowest, uint64_t *need) {
	uint64_t fraction = top_p > 0 ? (uint64_t)(top_p * 0x1p32f) : 0;
	int gathered = s->candidates > 0;
	uint64_t whole = gathered ? weight_above(s, q_from_bits(lowest)) : weigh(s, q_from_bits(lowest));
	*need = (unsigned __int128)fraction * whole >> 32;
	if (*need < 1) *need = 1;
	for (int64_t lanes = 64; !gathered && lanes <= MAX_CANDIDATES / 4; lanes *= 4) {
		float logit = bound(s, lanes), e[16];
		if (!gather_above(s, logit)) break;
		v16_store(e, exponential(s, v16_set(logit)));
		int32_t complete = q_bits(e[0]); // there are no other tokens at or above it
		gathered = weight_above(s, q_from_bits(complete > lowest ? complete : lowest)) >= *need;
	}
	if (gathered) return narrow(s, 1, *need, lowest, ONE + 1);
	s->candidates = 0;
	return 0;
}
