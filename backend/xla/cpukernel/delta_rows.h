// The task of gated delta nets. Included after recurrence_rows.h.

// Tokens that are processed together for a part of a matrix.
enum { DELTA_TOKENS = 8 };

typedef struct {
	int64_t tokens;
	float q[DELTA_TOKENS][Q_MAX_KEY], k[DELTA_TOKENS][Q_MAX_KEY]; // rows of the key head
	float v[DELTA_TOKENS][Q_MAX_KEY], y[DELTA_TOKENS][Q_MAX_KEY]; // rows of a value head
	float keeps[DELTA_TOKENS], learns[DELTA_TOKENS];
} delta_chunk;

// A range of channels or of a state's numbers.
typedef struct {
	int64_t from, n;
} delta_part;

// delta_parts returns the ranges of a state that a task handles: channels of queries, keys and values in each row of
// inputs, and matrices.
static int delta_parts(const q_delta *a, int64_t head, delta_part *parts, int most) {
	int64_t keys = a->key_heads * a->key_dim, values = a->group * a->value_dim;
	int n = 0;
	for (int64_t i = 0; i < a->k - 1 && n + 4 <= most; i++) {
		parts[n++] = (delta_part){i * a->channels + head * a->key_dim, a->key_dim};
		parts[n++] = (delta_part){i * a->channels + keys + head * a->key_dim, a->key_dim};
		parts[n++] = (delta_part){i * a->channels + 2 * keys + head * values, values};
	}
	parts[n++] = (delta_part){(a->k - 1) * a->channels + head * a->key_dim * values, a->key_dim * values};
	return n;
}

// delta_move copies the task's parts of a state, or zeros if there is none, to another place.
static void delta_move(const q_delta *a, int64_t head, float *to, const float *from) {
	delta_part parts[3 * Q_MAX_TAPS + 1];
	if (to == from) return;
	int n = delta_parts(a, head, parts, 3 * Q_MAX_TAPS + 1);
	for (int i = 0; i < n; i++) {
		if (from) memcpy(to + parts[i].from, from + parts[i].from, parts[i].n * sizeof(float));
		else memset(to + parts[i].from, 0, parts[i].n * sizeof(float));
	}
}

// delta_convolve convolves n channels, starting with `first`, for some tokens starting with t, and advances the
// inputs in the state.
ALWAYS void delta_convolve(const q_delta *a, float *state, int64_t t, int64_t tokens, int64_t first, int64_t n,
	float (*to)[Q_MAX_KEY], const int dtype) {
	float taps[Q_MAX_TAPS][Q_MAX_KEY];
	spread(taps[0], Q_MAX_KEY, a->taps, dtype, first, n, a->k);
	for (int64_t i = 0; i < tokens; i++) {
		int64_t at = (t + i) * a->width + first;
		for (int64_t c = 0; c < n; c += 16) {
			v16 x = part(a->in, dtype, at + c, at + n), sum = v16_set(0);
			float *row = state + first;
			for (int64_t tap = 0; tap < a->k - 1; tap++, row += a->channels) {
				v16 input = part(row, Q_F32, c, n);
				sum = times_add(input, v16_load(taps[tap] + c), sum);
				if (tap) put(row - a->channels, Q_F32, c, n, input);
			}
			put(row - a->channels, Q_F32, c, n, x);
			sum = rounded(times_add(x, v16_load(taps[a->k - 1] + c), sum), dtype);
			v16_store(to[i] + c, rounded(silu(sum), dtype));
		}
	}
}

// delta_unit scales n numbers, followed by zeros, to the length scale.
ALWAYS void delta_unit(float *x, int64_t n, float scale) {
	v16 sum = v16_set(0);
	for (int64_t i = 0; i < n; i += 16) sum = times_add(v16_load(x + i), v16_load(x + i), sum);
	v16 by = v16_set(scale / sqrtf(v16_sum(sum) + 1e-6f));
	for (int64_t i = 0; i < n; i += 16) v16_store(x + i, v16_mul(v16_load(x + i), by));
}

// delta_has adds the row of a matrix times its number of the key to sums.
ALWAYS void delta_has(const float *row, float k, const int wide, int64_t n, v16 *sums) {
	for (int w = 0; w < wide; w++) sums[w] = times_add(part(row, Q_F32, 16 * w, 16 * w + n), v16_set(k), sums[w]);
}

// delta_step updates a row of the matrix, and adds it times its number of the query to sums.
ALWAYS void delta_step(
	float *row, v16 keeps, float k, float q, const v16 *delta, const int wide, int64_t n, v16 *sums) {
	for (int w = 0; w < wide; w++) {
		v16 was = part(row, Q_F32, 16 * w, 16 * w + n), is = times_add(was, keeps, v16_mul(v16_set(k), delta[w]));
		put(row, Q_F32, 16 * w, 16 * w + n, is);
		sums[w] = times_add(is, v16_set(q), sums[w]);
	}
}

// delta_columns applies the tokens of a chunk to `wide` times 16 columns of a head's matrix, starting with column j,
// or to the n that are left. These columns stay in the first cache. The matrix, f32[rows, dim], is multiplied by
// keeps; delta is what it lacks of v for key k, times learns; k times delta is added; and y is what it returns for q.
ALWAYS void delta_columns(
	float *matrix, int64_t rows, int64_t dim, delta_chunk *chunk, int64_t j, const int wide, int64_t n) {
	const int64_t pairs = rows & ~1;
	for (int64_t t = 0; t < chunk->tokens; t++) {
		const float *q = chunk->q[t], *k = chunk->k[t];
		v16 keeps = v16_set(chunk->keeps[t]), learns = v16_set(chunk->learns[t]), delta[2], even[2], odd[2];
		for (int w = 0; w < wide; w++) even[w] = odd[w] = v16_set(0);
		float *row = matrix + j;
		for (int64_t i = 0; i < pairs; i += 2, row += 2 * dim) {
			delta_has(row, k[i], wide, n, even);
			delta_has(row + dim, k[i + 1], wide, n, odd);
		}
		if (pairs < rows) delta_has(row, k[pairs], wide, n, even);
		for (int w = 0; w < wide; w++) {
			v16 has = v16_mul(v16_add(even[w], odd[w]), keeps);
			delta[w] = v16_mul(v16_sub(v16_load(chunk->v[t] + j + 16 * w), has), learns);
			even[w] = odd[w] = v16_set(0);
		}
		row = matrix + j;
		for (int64_t i = 0; i < pairs; i += 2, row += 2 * dim) {
			delta_step(row, keeps, k[i], q[i], delta, wide, n, even);
			delta_step(row + dim, keeps, k[i + 1], q[i + 1], delta, wide, n, odd);
		}
		if (pairs < rows) delta_step(row, keeps, k[pairs], q[pairs], delta, wide, n, even);
		for (int w = 0; w < wide; w++) v16_store(chunk->y[t] + j + 16 * w, v16_add(even[w], odd[w]));
	}
}

// delta_result normalizes what value head `head` read for token t, gates it and stores it.
ALWAYS void delta_result(const q_delta *a, float *y, int64_t t, int64_t head, const int dtype) {
	int64_t dim = a->value_dim, gates = t * a->width + a->channels + head * dim, to = t * a->values + head * dim;
	v16 sum = v16_set(0);
	for (int64_t j = 0; j < dim; j += 16) {
		v16 read = rounded(v16_load(y + j), dtype);
		v16_store(y + j, read);
		sum = times_add(read, read, sum);
	}
	v16 by = v16_set(1 / sqrtf(v16_sum(sum) / dim + a->eps));
	for (int64_t j = 0; j < dim; j += 16) {
		v16 x = v16_mul(rounded(v16_mul(v16_load(y + j), by), dtype), part(a->norm, Q_F32, j, dim));
		v16 gate = silu(part(a->in, dtype, gates + j, gates + dim));
		put(a->y, dtype, to + j, to + dim, v16_mul(rounded(x, dtype), gate));
	}
}

// delta_head processes the tokens of a chunk, starting with token t, in one value head: matrix is f32[key_dim,
// value_dim].
ALWAYS void delta_head(
	const q_delta *a, float *matrix, int64_t t, int64_t head, delta_chunk *chunk, const int dtype) {
	int64_t heads = a->key_heads * a->group, dim = a->value_dim, j = 0;
	for (int64_t i = 0; i < chunk->tokens; i++) {
		int64_t own = (t + i) * a->width + a->channels + a->values + head;
		float step = q_load(a->in, dtype, own + heads) + a->bias[head];
		float softplus = (step > 0 ? step : 0) + q_log1p(q_exp(-fabsf(step)));
		chunk->learns[i] = q_rounded(dtype, q_sigmoid(q_load(a->in, dtype, own)));
		chunk->keeps[i] = q_exp(-(q_exp(a->decay[head]) * softplus));
	}
	for (; j + 32 <= dim; j += 32) delta_columns(matrix, a->key_dim, dim, chunk, j, 2, 16);
	for (; j + 16 <= dim; j += 16) delta_columns(matrix, a->key_dim, dim, chunk, j, 1, 16);
	if (j < dim) delta_columns(matrix, a->key_dim, dim, chunk, j, 1, dim - j);
	for (int64_t i = 0; i < chunk->tokens; i++) delta_result(a, chunk->y[i], t + i, head, dtype);
}

ALWAYS void delta_of(const q_delta *a, int64_t task, const int dtype) {
	const q_sequences *s = &a->s;
	int64_t seq = task / a->key_heads, head = task % a->key_heads, keys = a->key_heads * a->key_dim, last = -1;
	int64_t end = s->begins[seq + 1] < s->tokens ? s->begins[seq + 1] : s->tokens;
	const float *was = q_page(s, s->from[seq]);
	float *state = NULL, *lost = NULL;
	delta_chunk chunk;
	for (int64_t t = s->begins[seq]; t < end; t += chunk.tokens) {
		if (t > last) { // the state continues in the page of the next tokens
			for (last = t; last < end - 1 && !q_page(s, s->to[last]); last++) {}
			float *to = q_page(s, s->to[last]);
			if (!to && !lost && !(lost = malloc(s->numbers * sizeof(float)))) {
				atomic_store(s->failed, 1);
				return;
			}
			if (!to) to = lost;
			delta_move(a, head, to, state ? state : was);
			state = to;
		}
		chunk.tokens = last + 1 - t < DELTA_TOKENS ? last + 1 - t : DELTA_TOKENS;
		delta_convolve(a, state, t, chunk.tokens, head * a->key_dim, a->key_dim, chunk.q, dtype);
		delta_convolve(a, state, t, chunk.tokens, keys + head * a->key_dim, a->key_dim, chunk.k, dtype);
		for (int64_t i = 0; i < chunk.tokens; i++) {
			delta_unit(chunk.q[i], a->key_dim, 1 / sqrtf(a->key_dim));
			delta_unit(chunk.k[i], a->key_dim, 1);
		}
		for (int64_t g = 0; g < a->group; g++) {
			int64_t value = head * a->group + g;
			int64_t channel = 2 * keys + value * a->value_dim;
			delta_convolve(a, state, t, chunk.tokens, channel, a->value_dim, chunk.v, dtype);
			float *matrix = state + (a->k - 1) * a->channels + value * a->key_dim * a->value_dim;
			delta_head(a, matrix, t, value, &chunk, dtype);
		}
	}
	free(lost);
}
TASK(delta, q_delta, dtype)
