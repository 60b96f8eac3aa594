// Filters of one row other than top-k, top-p and min-p.
//
// If the tokens that a filter needs are all candidates, it sets the e and the weights of the tokens that it drops to 0.
// Otherwise it sets in the row's floor, near and most what is kept, and passes over all chunks obey that.
#include "sampling_candidates.h"

// raise_floor drops the logits that are more than n standard deviations of all below the largest. Distances are
// counted in units of 2^-11, up to 2^9, so that sums are exact: see topNSigma in package sampling.
static void raise_floor(sampled *s, float n) {
	int64_t count = 0, sum = 0;
	uint64_t squares = 0;
	const v16 most = v16_set(-512), max = v16_set(s->max), none = v16_set(0);
	for (int64_t c = 0; c < s->chunks; c++) {
		int64_t size;
		const float *p = chunk(s, c, &size);
		v16i units = v16i_zero(), hh = units, hl = units, ll = units;
		for (int64_t i = 0; i < size; i += 16) {
			v16 l = v16_load(p + i);
			unsigned finite = v16_ge(l, v16_set(-FLT_MAX));
			v16 below = v16_sub(none, v16_max(v16_sub(l, max), most)); // at most 2^9
			v16i unit = v16_int(v16_mul(v16_only(finite, below, none), v16_set(1 << 11)));
			v16 u = v16i_float(unit), high = v16i_float(v16_int(v16_mul(u, v16_set(0x1p-10f))));
			v16 low = v16_sub(u, v16_mul(high, v16_set(1 << 10)));
			count += __builtin_popcount(finite);
			units = v16i_add(units, unit);
			hh = v16i_add(hh, v16_int(v16_mul(high, high)));
			hl = v16i_add(hl, v16_int(v16_mul(high, low)));
			ll = v16i_add(ll, v16_int(v16_mul(low, low)));
		}
		sum += v16i_sum(units);
		squares += ((uint64_t)v16i_sum(hh) << 20) + ((uint64_t)v16i_sum(hl) << 11) + v16i_sum(ll);
	}
	float mean = (float)sum / (float)count, variance = (float)squares / (float)count - mean * mean;
	s->floor = s->max - sqrtf(variance > 0 ? variance : 0) * n * 0x1p-11f;
	for (int64_t c = 0; c < s->chunks; c++) {
		v16 lanes = v16_load(s->lanes + 16 * c);
		v16_store(s->lanes + 16 * c, v16_only(v16_ge(lanes, v16_set(s->floor)), lanes, v16_set(-INFINITY)));
		if (s->largest[c] < s->floor) s->largest[c] = -INFINITY;
	}
}

// drop removes candidates that have less than this e, or are farther from the mean surprise than near.
static void drop(sampled *s, float least, float near) {
	for (int i = 0; i < s->candidates; i += 16) {
		v16 e = v16_keep(v16_load(s->e + i), v16_set(least));
		if (near < INFINITY) e = v16_only(v16_ge(v16_set(near), distance(s, v16_load(s->logit + i))), e, v16_set(0));
		v16_store(s->e + i, e);
		store_weights(s->weight + i, e);
	}
}

// add_entropy adds the weights of sixteen tokens, and the weights of e times surprise.
static inline void add_entropy(const sampled *s, v16 logits, v16 e, v16i sums[4]) {
	v16i u, l;
	pieces(e, &u, &l);
	sums[0] = v16i_add(sums[0], u);
	sums[1] = v16i_add(sums[1], l);
	v16 x = v16_only(v16_ge(e, v16_set(q_from_bits(LEAST))), surprise(s, logits), v16_set(0));
	pieces(v16_mul(e, x), &u, &l);
	sums[2] = v16i_add(sums[2], u);
	sums[3] = v16i_add(sums[3], l);
}

// entropy computes the mean surprise of the tokens with at least this e, and returns their weight.
static uint64_t entropy(sampled *s, float least) {
	uint64_t total = 0, moment = 0;
	float bound = logit_below(s, least);
	for (int64_t c = 0; c < (s->candidates ? 1 : s->chunks); c++) {
		v16i sums[4] = {v16i_zero(), v16i_zero(), v16i_zero(), v16i_zero()};
		if (s->candidates) {
			for (int i = 0; i < s->candidates; i += 16)
				add_entropy(s, v16_load(s->logit + i), v16_load(s->e + i), sums);
		} else {
			if (s->largest[c] < bound) continue;
			int64_t n;
			const float *p = chunk(s, c, &n);
			for (int64_t i = 0; i < n; i += 16) {
				v16 l = v16_load(p + i);
				add_entropy(s, l, v16_keep(exponential(s, l), v16_set(least)), sums);
			}
		}
		total += ((uint64_t)v16i_sum(sums[0]) << PIECE_BITS) + v16i_sum(sums[1]);
		moment += ((uint64_t)v16i_sum(sums[2]) << PIECE_BITS) + v16i_sum(sums[3]);
	}
	s->mean = (float)moment / (float)total;
	return total;
}

enum { FAR = 20, FAR_FINE = 10, FAR_BUCKETS = 0x7f800000 >> FAR }; // buckets of bit patterns of distances

// nearest returns the smallest distance up to which the candidates have the needed weight.
static float nearest(const sampled *s, uint64_t need) {
	uint64_t histogram[FAR_BUCKETS] = {0}, weights[MAX_CANDIDATES];
	float far[MAX_CANDIDATES + 16];
	int32_t bits[MAX_CANDIDATES];
	for (int i = 0; i < s->candidates; i += 16) v16_store(far + i, distance(s, v16_load(s->logit + i)));
	for (int i = 0; i < s->candidates; i++) {
		if (s->weight[i]) histogram[q_bits(far[i]) >> FAR] += s->weight[i];
	}
	int b = 0, n = 0;
	for (; b < FAR_BUCKETS - 1 && histogram[b] < need; b++) need -= histogram[b];
	for (int i = 0; i < s->candidates; i++) {
		bits[n] = q_bits(far[i]);
		weights[n] = s->weight[i];
		n += s->weight[i] && bits[n] >> FAR == b;
	}
	int32_t few = (b << FAR) - 1, enough = few + (1 << FAR);
	while (enough - few > 1) {
		int32_t middle = few + (enough - few) / 2;
		uint64_t sum = 0;
		for (int i = 0; i < n; i++) sum += bits[i] <= middle ? weights[i] : 0;
		if (sum >= need) enough = middle;
		else few = middle;
	}
	return q_from_bits(enough);
}

// nearest_of_all is nearest for all tokens with at least this e, by finer and finer histograms.
static float nearest_of_all(sampled *s, float least, uint64_t need) {
	uint64_t histogram[FAR_BUCKETS];
	float bound = logit_below(s, least);
	int32_t low = 0;
	for (int shift = FAR; shift >= 0; shift -= FAR_FINE) {
		int buckets = shift == FAR ? FAR_BUCKETS : 1 << FAR_FINE, b = 0;
		const v16 from = v16_set(q_from_bits(low)),
				  to = v16_set(q_from_bits(shift == FAR ? 0x7f800000 : low + (buckets << shift)));
		memset(histogram, 0, buckets * sizeof *histogram);
		for (int64_t c = 0; c < s->chunks; c++) {
			if (s->largest[c] < bound) continue;
			int64_t n;
			const float *p = chunk(s, c, &n);
			for (int64_t i = 0; i < n; i += 16) {
				float far[16];
				uint64_t weight[16];
				v16 l = v16_load(p + i), e = v16_keep(exponential(s, l), v16_set(least)), d = distance(s, l);
				unsigned lanes = v16_ge(e, v16_set(q_from_bits(LEAST))) & v16_ge(d, from) & ~v16_ge(d, to);
				if (!lanes) continue;
				v16_store(far, d);
				store_weights(weight, e);
				for (; lanes; lanes &= lanes - 1) {
					int lane = __builtin_ctz(lanes);
					histogram[(q_bits(far[lane]) - low) >> shift] += weight[lane];
				}
			}
		}
		for (; b < buckets - 1 && histogram[b] < need; b++) need -= histogram[b];
		low += b << shift;
	}
	return q_from_bits(low);
}

// typical keeps the tokens of at least this e whose surprise is nearest to the mean, with this much of their weight:
// see package sampling.
static void typical(sampled *s, float mass, float least) {
	drop(s, least, INFINITY);
	uint64_t total = entropy(s, least), need = (unsigned __int128)(uint64_t)(mass * 0x1p32f) * total >> 32;
	if (need < 1) need = 1;
	int gathered = s->candidates > 0;
	for (int64_t lanes = 64; !gathered && lanes <= MAX_CANDIDATES / 4; lanes *= 4) {
		// Tokens that are not candidates are at least as far as `far`: if the nearer candidates suffice, they do not
		// matter.
		float logit = bound(s, lanes), d[16];
		if (!gather_above(s, logit)) break;
		v16_store(d, v16_sub(surprise(s, v16_set(logit)), v16_set(s->mean)));
		float far = d[0];
		uint64_t sum = 0;
		drop(s, least, INFINITY);
		for (int i = 0; i < s->candidates; i += 16) {
			unsigned near = far > 0 ? ~v16_ge(distance(s, v16_load(s->logit + i)), v16_set(far)) & 0xffff : 0;
			for (; near; near &= near - 1) sum += s->weight[i + __builtin_ctz(near)];
		}
		gathered = sum >= need;
	}
	if (gathered) {
		drop(s, least, nearest(s, need));
		return;
	}
	s->candidates = 0;
	s->near = nearest_of_all(s, least, need);
	s->most = 1;
	s->late = 1;
}

// xtc drops the likeliest tokens of at least this e if the row's random number is below the probability: see package
// sampling.
static void xtc(sampled *s, float least) {
	const q_sample_args *a = s->args;
	uint64_t random = threefry(a->key + 2 * s->row, a->positions[s->row], 1) >> 32;
	if (random >= (uint64_t)(a->xtc_probability[s->row] * 0x1p32f)) return;
	uint64_t total = s->candidates ? weight_above(s, least) : weigh(s, least);
	uint64_t need = (unsigned __int128)(uint64_t)(a->xtc_threshold[s->row] * 0x1p32f) * total >> 32;
	if (need < 1) need = 1;
	if (need > (uint64_t)1 << 36) return; // more than the likeliest token has
	float top = need * 0x1p-36, most = 2;
	if (top * 0x1p36 < need) top = nextafterf(top, 2); // the smallest e with this weight
	if (top < least) top = least;
	if (s->candidates) {
		for (int i = 0; i < s->candidates; i++) most = s->e[i] >= top && s->e[i] < most ? s->e[i] : most;
		for (int i = 0; i < s->candidates; i++) {
			if (s->e[i] > most) s->e[i] = s->weight[i] = 0;
		}
		return;
	}
	float bound = logit_below(s, top), e[16];
	for (int64_t c = 0; c < s->chunks; c++) {
		if (s->largest[c] < bound) continue;
		int64_t n;
		const float *p = chunk(s, c, &n);
		for (int64_t i = 0; i < n; i += 16) {
			v16 x = kept(s, v16_load(p + i), v16_set(top));
			unsigned lanes = v16_ge(x, v16_set(top));
			if (!lanes) continue;
			v16_store(e, x);
			for (; lanes; lanes &= lanes - 1) most = e[__builtin_ctz(lanes)] < most ? e[__builtin_ctz(lanes)] : most;
		}
	}
	if (most > 1) return; // there is none
	if (!s->late) s->mean = 0, s->near = INFINITY;
	s->most = most;
	s->late = 1;
}
