// Sampling of one row. Included by sampling_plain.c, sampling_avx2.c and sampling_avx512.c, which define
// Q_SAMPLE_ROW.
//
// The row is cut into chunks of `size` numbers. A first pass, which alone reads memory outside the cache, finds the
// largest logit, the sum of exponentials, and of each chunk the largest number in each of the 16 lanes. A filter keeps
// few tokens of most rows: the largest lanes give a bound above which there are enough of them, and the logits above
// it, the candidates, are all that the rest looks at. Rows that keep more find their threshold from histograms, in
// passes over all chunks.
#include "filters_row.h"

// find_masks sets the row's masks.
static void find_masks(sampled *s) {
	const q_sample_args *a = s->args;
	s->mask = NULL;
	s->masked = 0;
	for (int64_t lane = 0; a->masks && lane < a->lanes; lane++) {
		int32_t mask = a->mask_of[s->row * a->lanes + lane];
		if (mask < 0 || mask >= a->num_masks) continue;
		s->mask = s->masked ? NULL : a->masks + mask * a->words;
		s->masked = 1;
	}
}

// scan_masked computes max, lanes and largest again through the masks, for a row that has a distribution. It returns
// 0 if they forbid all tokens.
static int scan_masked(sampled *s) {
	s->max = -INFINITY;
	for (int64_t c = 0; c < s->chunks; c++) {
		int64_t n;
		if (all_barred(s, c)) {
			v16_store(s->lanes + 16 * c, v16_set(-INFINITY));
			s->largest[c] = -INFINITY;
			continue;
		}
		const float *p = chunk(s, c, &n);
		largest_lanes(s, c, p, n);
		if (s->largest[c] > s->max) s->max = s->largest[c];
	}
	return s->max > -INFINITY;
}

// sample samples the token of a row that has a distribution; *whole is the weight of the tokens that it was sampled
// from.
static int32_t sample(sampled *s, uint64_t *whole) {
	const q_sample_args *a = s->args;
	int64_t k = a->top_k[s->row];
	int32_t lowest = LEAST;
	s->candidates = 0;
	if (a->top_n_sigma && a->top_n_sigma[s->row] > 0) raise_floor(s, a->top_n_sigma[s->row]);
	if (k > 0 && k < s->vocabulary) {
		if (k <= MAX_CANDIDATES / 4 && gather_above(s, bound(s, k))) lowest = narrow(s, 0, k, lowest, ONE + 1);
		else lowest = search(s, 0, k, lowest);
	}
	if (a->top_p[s->row] < 1) {
		uint64_t need;
		int32_t found = nucleus(s, a->top_p[s->row], lowest, &need);
		lowest = found ? found : search(s, 1, need, lowest);
	}
	float least = q_from_bits(lowest), min_p = a->min_p[s->row];
	if (min_p > least) least = min_p < 1 ? min_p : 1;
	if (a->typical && a->typical[s->row] > 0) typical(s, a->typical[s->row], least);
	if (a->xtc_probability && a->xtc_probability[s->row] > 0) xtc(s, least);
	uint64_t u = threefry(a->key + 2 * s->row, a->positions[s->row], 0);
	if (s->candidates) {
		*whole = weight_above(s, least);
		return sample_candidate(s, part(u, *whole), least);
	}
	*whole = weigh(s, least);
	return sample_all(s, part(u, *whole), least);
}

static float logit_of(const sampled *s, int32_t token) {
	int64_t i = s->row * s->vocabulary + token;
	if (s->args->dtype == Q_F32) return ((const float *)s->args->logits)[i];
	uint16_t h[16] = {((const uint16_t *)s->args->logits)[i]};
	float x[16];
	v16_store(x, s->args->dtype == Q_BF16 ? v16_load_bf16(h) : v16_load_f16(h));
	return x[0];
}

void Q_SAMPLE_ROW(void *args, int64_t i) {
	const q_sample_args *a = args;
	sampled s;
	s.args = a;
	s.row = i;
	s.vocabulary = a->vocabulary;
	s.size = MIN_SIZE;
	while (s.size * MAX_CHUNKS < s.vocabulary) s.size *= 2;
	s.chunks = (s.vocabulary + s.size - 1) / s.size;
	s.masked = s.late = 0;
	s.floor = -INFINITY;
	float sum = scan(&s), max = s.max;
	a->token[i] = -1;
	a->logprob[i] = a->processed[i] = 0;
	if (!(sum > 0 && max < INFINITY)) return;
	find_masks(&s);
	if (s.masked && !scan_masked(&s)) return; // the log-probability is still computed from all tokens
	s.temperature = a->temperature[i];
	if (!(s.temperature >= FLT_MIN)) { // greedy; the device may flush lower values to zero
		a->token[i] = first(&s);
		a->logprob[i] = s.max - max - logf(sum); // 0 - logf(sum), never -0: as in logprobs_row.h
		return;
	}
	if (s.temperature < 0x1p-100f)
		s.temperature = 0x1p-100f; // high enough for its multiples to be normal numbers, and with the same result
	s.heat = v16_heated(s.temperature);
	uint64_t whole;
	int32_t token = sample(&s, &whole);
	if (token < 0) return; // not reached
	float centred = logit_of(&s, token) - s.max;
	a->token[i] = token;
	a->logprob[i] = s.masked ? logit_of(&s, token) - max - logf(sum) : centred - logf(sum);
	a->processed[i] = centred / s.temperature - logf((float)whole * 0x1p-36f);
}
