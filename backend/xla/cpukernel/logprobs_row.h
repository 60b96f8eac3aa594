// Log-probabilities of one row; follows sampling_row.h in the source of each level, which defines Q_LOGPROBS_ROW.
//
// The likeliest tokens are gathered in a heap, the worst of them on top. The largest lanes of the chunks give a bound
// that enough tokens reach, so that most vectors are compared with it and no more.

// worse reports whether a token comes after another in the list: its logit is lower, or equal and its id is higher.
static int worse(float l, int32_t id, float m, int32_t other) { return l < m || (l == m && id > other); }

// sink puts a token into a heap of n, moving it down from place i, so that none is worse than the one above it.
static void sink(float *logit, int32_t *id, int64_t n, int64_t i, float l, int32_t t) {
	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && worse(logit[child + 1], id[child + 1], logit[child], id[child])) child++;
		if (!worse(logit[child], id[child], l, t)) break;
		logit[i] = logit[child];
		id[i] = id[child];
	}
	logit[i] = l;
	id[i] = t;
}

// likeliest finds the n tokens with the largest logits, the likeliest first.
static void likeliest(sampled *s, int64_t n, float *logit, int32_t *id) {
	float low = bound(s, n);
	if (low <= -FLT_MAX) low = -INFINITY; // fewer lanes than wanted tokens
	int64_t held = 0;
	for (int64_t c = 0; c < s->chunks; c++) {
		if (s->largest[c] < low) continue;
		int64_t size;
		const float *p = chunk(s, c, &size);
		for (int64_t i = 0; i < size; i += 16) {
			for (unsigned lanes = v16_ge(v16_load(p + i), v16_set(low)); lanes; lanes &= lanes - 1) {
				int lane = __builtin_ctz(lanes);
				float l = p[i + lane];
				int64_t t = c * s->size + i + lane;
				if (t >= s->vocabulary) break;
				if (held < n) {
					logit[held] = l;
					id[held] = t;
					if (++held < n) continue;
					for (int64_t k = n / 2; k-- > 0;) sink(logit, id, n, k, logit[k], id[k]);
				} else if (l > logit[0]) { // among equal ones the first is kept
					sink(logit, id, n, 0, l, t);
				} else {
					continue;
				}
				low = logit[0];
			}
		}
	}
	for (int64_t k = n - 1; k > 0; k--) { // the worst remaining one goes to the end
		float l = logit[k];
		int32_t t = id[k];
		logit[k] = logit[0];
		id[k] = id[0];
		sink(logit, id, k, 0, l, t);
	}
}

void Q_LOGPROBS_ROW(void *args, int64_t i) {
	const q_logprobs_args *a = args;
	sampled s;
	whole_row(&s, &a->of, i);
	float *top = a->top + i * a->width;
	int32_t *id = a->id + i * a->width, token = a->token[i];
	int64_t n = a->count[i] < a->width ? a->count[i] : a->width;
	if (n < 0) n = 0;
	for (int64_t k = n; k < a->width; k++) id[k] = -1, top[k] = 0;
	a->logprob[i] = 0;
	if (!n && token < 0) return;
	float sum = scan(&s);
	if (!(sum > 0 && s.max < INFINITY)) {
		if (token >= 0) a->logprob[i] = NAN;
		for (int64_t k = 0; k < n; k++) id[k] = -1, top[k] = NAN;
		return;
	}
	if (token >= s.vocabulary) token = s.vocabulary - 1;
	if (token >= 0) {
		float centred = logit_of(&s, token) - s.max; // the same as in Q_SAMPLE_ROW
		a->logprob[i] = centred - logf(sum);
	}
	if (n) likeliest(&s, n, top, id);
	for (int64_t k = 0; k < n; k++) {
		float centred = top[k] - s.max;
		top[k] = centred - logf(sum);
	}
}
