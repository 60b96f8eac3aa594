// The task of Mamba-2. Included after recurrence_rows.h.

// Tokens that are processed together for a part of a matrix.
enum { MAMBA_TOKENS = 8 };

typedef struct {
	int64_t tokens, first;
	float writes[MAMBA_TOKENS][Q_MAX_STATE], reads[MAMBA_TOKENS][Q_MAX_STATE]; // rows of the group
	float keeps[MAMBA_TOKENS], step[MAMBA_TOKENS];
} mamba_chunk;

// widen converts n numbers, starting with p[from], to float32, followed by up to 15 zeros.
ALWAYS void widen(float *to, const void *p, const int dtype, int64_t from, int64_t n) {
	for (int64_t i = 0; i < n; i += 16) v16_store(to + i, part(p, dtype, from + i, from + n));
}

// mamba_step updates a row of the matrix, and adds it times the group's read number to sums.
ALWAYS void mamba_step(
	float *row, v16 keeps, float write, float read, const v16 *adds, const int wide, int64_t n, v16 *sums) {
	for (int w = 0; w < wide; w++) {
		v16 was = part(row, Q_F32, 16 * w, 16 * w + n), is = times_add(was, keeps, v16_mul(adds[w], v16_set(write)));
		put(row, Q_F32, 16 * w, 16 * w + n, is);
		sums[w] = times_add(is, v16_set(read), sums[w]);
	}
}

// mamba_columns applies the tokens of a chunk to `wide` times 16 columns of a head's matrix, starting with column j,
// or to the n that are left. These columns stay in the first cache. The matrix, f32[n, dim], is multiplied by keeps;
// x times step is added to each of its rows, times the group's write number; y is the sum of the rows, each times the
// read number, plus skip times x.
ALWAYS void mamba_columns(const q_mamba *a, float *matrix, int64_t head, const mamba_chunk *chunk, int64_t j,
	const int wide, int64_t n, const int dtype) {
	const int64_t pairs = a->n & ~1;
	v16 skip = v16_set(a->skip[head]);
	for (int64_t t = 0; t < chunk->tokens; t++) {
		const float *writes = chunk->writes[t], *reads = chunk->reads[t];
		int64_t token = chunk->first + t, from = token * a->conv.channels + head * a->dim + j;
		int64_t to = (token * a->heads + head) * a->dim + j;
		v16 keeps = v16_set(chunk->keeps[t]), x[2], adds[2], even[2], odd[2];
		for (int w = 0; w < wide; w++) {
			x[w] = part(a->conv.y, dtype, from + 16 * w, from + 16 * w + n);
			adds[w] = v16_mul(x[w], v16_set(chunk->step[t]));
			even[w] = odd[w] = v16_set(0);
		}
		float *row = matrix + j;
		for (int64_t i = 0; i < pairs; i += 2, row += 2 * a->dim) {
			mamba_step(row, keeps, writes[i], reads[i], adds, wide, n, even);
			mamba_step(row + a->dim, keeps, writes[i + 1], reads[i + 1], adds, wide, n, odd);
		}
		if (pairs < a->n) mamba_step(row, keeps, writes[pairs], reads[pairs], adds, wide, n, even);
		for (int w = 0; w < wide; w++) {
			v16 y = times_add(x[w], skip, v16_add(even[w], odd[w]));
			put(a->y, dtype, to + 16 * w, to + 16 * w + n, y);
		}
	}
}

// mamba_head processes the tokens of a chunk in one head.
ALWAYS void mamba_head(const q_mamba *a, float *matrix, int64_t head, mamba_chunk *chunk, const int dtype) {
	int64_t inner = a->heads * a->dim, group = head / (a->heads / a->groups), dim = a->dim, j = 0;
	for (int64_t i = 0; i < chunk->tokens; i++) {
		int64_t t = chunk->first + i, row = t * a->conv.channels + inner;
		widen(chunk->writes[i], a->conv.y, dtype, row + group * a->n, a->n);
		widen(chunk->reads[i], a->conv.y, dtype, row + (a->groups + group) * a->n, a->n);
		float in = q_load(a->conv.in, dtype, t * a->conv.width + inner + a->conv.channels + head) + a->bias[head];
		float step = (in > 0 ? in : 0) + q_log1p(q_exp(-fabsf(in)));
		if (step < a->min_step) step = a->min_step;
		if (a->max_step > 0 && step > a->max_step) step = a->max_step;
		chunk->step[i] = step;
		chunk->keeps[i] = q_exp(-(step * q_exp(a->decay[head])));
	}
	for (; j + 32 <= dim; j += 32) mamba_columns(a, matrix, head, chunk, j, 2, 16, dtype);
	for (; j + 16 <= dim; j += 16) mamba_columns(a, matrix, head, chunk, j, 1, 16, dtype);
	if (j < dim) mamba_columns(a, matrix, head, chunk, j, 1, dim - j, dtype);
}

ALWAYS void mamba_of(const q_mamba *a, int64_t task, const int dtype) {
	const q_sequences *s = &a->conv.s;
	int64_t seq = task / a->heads, head = task % a->heads, size = a->n * a->dim, last = -1;
	int64_t at = (a->conv.k - 1) * a->conv.channels + head * size; // offset of the matrix in a state
	int64_t end = s->begins[seq + 1] < s->tokens ? s->begins[seq + 1] : s->tokens;
	const float *was = q_page(s, s->from[seq]);
	float *matrix = NULL, *lost = NULL;
	mamba_chunk chunk;
	if (was) was += at;
	for (int64_t t = s->begins[seq]; t < end; t += chunk.tokens) {
		if (t > last) { // the state continues in the page of the next tokens
			for (last = t; last < end - 1 && !q_page(s, s->to[last]); last++) {}
			float *to = q_page(s, s->to[last]);
			if (!to && !lost && !(lost = malloc(size * sizeof(float)))) {
				atomic_store(s->failed, 1);
				return;
			}
			to = to ? to + at : lost;
			const float *from = matrix ? matrix : was;
			if (!from) memset(to, 0, size * sizeof(float));
			else if (from != to) memcpy(to, from, size * sizeof(float));
			matrix = to;
		}
		chunk.first = t;
		chunk.tokens = last + 1 - t < MAMBA_TOKENS ? last + 1 - t : MAMBA_TOKENS;
		mamba_head(a, matrix, head, &chunk, dtype);
	}
	free(lost);
}
TASK(mamba, q_mamba, conv.dtype)
