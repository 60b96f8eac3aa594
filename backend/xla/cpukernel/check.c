// Code for processors that few tests have run on, held to AVX2's results when a process begins.
#include <stdlib.h>
#include <string.h>

#include "attention_task.h"
#include "code.h"
#include "convert.h"
#include "cpu.h"
#include "norm.h"
#include "recurrence_task.h"
#include "sampling.h"

enum { INPUT = 1 << 20, OUTPUT = 1 << 17 };

// The memory of all cases, one after another: what they read, in parts, and what each of the two codes writes,
// including what follows it.
typedef struct {
	const q_code *code;
	char *input, *output[2];
	int64_t used;
	uint32_t random;
	int64_t page; // tokens a page of a cache of keys and values
	int64_t each; // vectors of a token and KV head: see attention_task.h
	int rows;     // attention of a whole row: its tokens see tokens after them, with a bias
	int same;
} check;

static float number(check *c) { return (float)((c->random = c->random * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1; }

// part returns the next n bytes of the input.
static void *part(check *c, int64_t n) {
	if (c->used + n > INPUT) return c->same = 0, c->input; // a mistake in the sizes below
	void *p = c->input + c->used;
	c->used += (n + 63) / 64 * 64;
	return p;
}

// numbers are n of a dtype, below size.
static void *numbers(check *c, int dtype, int64_t n, float size) {
	void *p = part(c, n * q_size(dtype));
	for (int64_t i = 0; c->same && i < n; i++) {
		float x = number(c) * size;
		if (dtype == Q_F32) ((float *)p)[i] = x;
		else ((uint16_t *)p)[i] = dtype == Q_BF16 ? q_to_bf16(x) : q_to_f16(x);
	}
	return p;
}

static void begin(check *c) {
	c->used = 0;
	for (int i = 0; i < 2; i++) memset(c->output[i], 0x5a, OUTPUT);
}

// near does the same for n bf16 numbers that may be rounded once or the other way; everything after them must be equal.
static void near(check *c, int64_t n) {
	const uint16_t *x = (const uint16_t *)c->output[0], *y = (const uint16_t *)c->output[1];
	for (int64_t i = 0; i < n; i++) {
		const float a = q_from_bf16(x[i]), b = q_from_bf16(y[i]), room = 0x1p-10f + 0x1p-7f * (a < 0 ? -a : a);
		if (!(a - b <= room && b - a <= room)) c->same = 0;
	}
	c->same = c->same && memcmp(x + n, y + n, OUTPUT - 2 * n) == 0;
}

static void compare(check *c) { c->same = c->same && memcmp(c->output[0], c->output[1], OUTPUT) == 0; }

// bytes are vectors of a quantized cache, of dim bytes and a scale.
static void *bytes(check *c, int dtype, int64_t vectors, int64_t dim) {
	char *p = part(c, vectors * (dim + Q_ATTENTION_SCALE)), *to = p;
	for (int64_t i = 0; c->same && i < vectors; i++) {
		for (int64_t d = 0; d < dim; d++) {
			int x = (int)(number(c) * 126); // number in e4m3, a sign and a size
			*to++ = dtype == Q_S8 || x >= 0 ? x : -x | 0x80;
		}
		float scale = (2 + number(c)) / 100;
		memcpy(to, &scale, sizeof scale);
		to += sizeof scale;
	}
	return p;
}

static void attention(check *c, int type, int cache_type, int64_t kv_heads, int64_t group, int64_t dim, int64_t count,
	int64_t context, int64_t window, float soft_cap) {
	enum { PAGES = 4 };
	begin(c);
	const int quantized = q_attention_quantized(cache_type);
	int64_t heads = kv_heads * group, vectors = PAGES * c->page * c->each * kv_heads,
			vector_bytes = dim * q_size(cache_type) + (quantized ? Q_ATTENTION_SCALE : 0);
	int32_t *token_seqs = part(c, count * 4), *positions = part(c, count * 4), *slots = part(c, 4),
			*pages = part(c, PAGES * 4);
	struct q_attention a = {.q = numbers(c, type, count * heads * dim, 2),
		.cache = quantized ? bytes(c, cache_type, vectors, dim) : numbers(c, cache_type, vectors * dim, 2),
		.slots = slots,
		.pages = pages,
		.token_seqs = token_seqs,
		.positions = positions,
		.tokens = count,
		.heads = heads,
		.kv_heads = kv_heads,
		.dim = dim,
		.page_count = PAGES,
		.page_size = c->page,
		.per_seq = PAGES,
		.vector_bytes = vector_bytes,
		.each = c->each,
		.lies = q_cache_lies(context % 2, c->page, c->each * kv_heads, c->each, vector_bytes), // both layouts
		.type = type,
		.cache_type = cache_type,
		.paged = 1,
		.window = window,
		.scale = 0.25f,
		.soft_cap = soft_cap};
	const struct q_attention_task task = {.token = 0, .count = count, .head = 0, .heads = kv_heads};
	a.tasks = &task;
	if (c->rows) {
		int32_t *len = part(c, 4);
		*len = context;
		a.lens = len;
		a.ahead = 9;
		a.bias_zero = context;
		a.bias_width = 2 * context + 1 + Q_ATTENTION_BLOCK;
		a.bias = numbers(c, Q_F32, heads * a.bias_width, 2);
	}
	if (!c->same) return;
	for (int i = 0; i < PAGES; i++) pages[i] = PAGES - 1 - i;
	for (int64_t t = 0; t < count; t++) token_seqs[t] = 0, positions[t] = context - count + t;
	*slots = 0;
	for (int i = 0; i < 2; i++) {
		a.out = c->output[i];
		q_parallel(NULL, 1, i ? c->code->attend : q_code_at(Q_AVX2)->attend, &a);
		if (a.failed) c->same = 0;
	}
	if (q_attention_by_tiles(c->code->attend, &a)) near(c, count * heads * dim);
	else compare(c);
}

static void quantize(check *c, int type, int cache_type, int64_t dim, float size) {
	begin(c);
	struct q_quantize v = {.from = numbers(c, type, dim, size), .dim = dim, .type = type, .cache_type = cache_type};
	for (int i = 0; c->same && i < 2; i++) {
		v.to = c->output[i];
		(i ? c->code->quantize : q_code_at(Q_AVX2)->quantize)(&v);
	}
	compare(c);
}

static void norm(check *c, int dtype, int weight, int64_t groups, int64_t width) {
	enum { ROWS = 3 };
	begin(c);
	q_norm_args a = {.x = numbers(c, dtype, ROWS * groups * width, 30),
		.weight = numbers(c, weight, width, 2),
		.dtype = dtype,
		.weight_dtype = weight,
		.groups = groups,
		.width = width,
		.eps = 1e-5f,
		.rows = ROWS,
		.step = 2};
	for (int i = 0; c->same && i < 2; i++) {
		a.y = c->output[i];
		q_parallel(NULL, 2, i ? c->code->norm_rows : q_code_at(Q_AVX2)->norm_rows, &a);
	}
	compare(c);
}

static void rope(check *c, int dtype, int64_t dim, int rotate, int weights) {
	enum { ROWS = 3, HEADS = 3, KV_HEADS = 2, THIRD = OUTPUT / 192 * 64 };
	begin(c);
	q_rope_args a = {.qkv = numbers(c, dtype, ROWS * (HEADS + 2 * KV_HEADS) * dim, 8),
		.dtype = dtype,
		.heads = HEADS,
		.kv_heads = KV_HEADS,
		.dim = dim,
		.eps = 1e-6f,
		.rows = ROWS,
		.step = 2};
	if (rotate) a.cos = numbers(c, Q_F32, ROWS * dim / 2, 1), a.sin = numbers(c, Q_F32, ROWS * dim / 2, 1);
	if (weights) a.q_norm = numbers(c, dtype, dim, 2), a.k_norm = numbers(c, dtype, dim, 2);
	for (int i = 0; c->same && i < 2; i++) {
		a.q = c->output[i];
		a.k = c->output[i] + THIRD;
		a.v = c->output[i] + 2 * THIRD;
		q_parallel(NULL, 2, i ? c->code->rope_rows : q_code_at(Q_AVX2)->rope_rows, &a);
	}
	compare(c);
}

static void sampling(check *c, int dtype, int64_t vocabulary, float size) {
	// Each takes another way to its threshold: candidates, all tokens, histograms; and a row that has no distribution.
	static const struct {
		float temperature, top_p, min_p;
		int32_t top_k;
	} settings[] = {{0, 1, 0, 0}, {0.8f, 1, 0, 0}, {0.8f, 1, 0, 50}, {1.1f, 1, 0, 3000}, {1, 0.95f, 0, 0},
		{0.8f, 0.9f, 0, 40}, {50, 0.9f, 0, 0}, {1, 1, 0.05f, 0}, {1, 1, 0, 7}};
	// Likewise: top-n-sigma, typical, XTC's probability and threshold.
	static const float filters[][4] = {{0, 0.9f, 0, 0}, {2, 0, 0, 0}, {0, 0, 1, 0.01f}, {3, 0.3f, 1, 0.05f}};
	enum { FILTERS = sizeof filters / sizeof *filters };
	enum { ROWS = sizeof settings / sizeof *settings };
	begin(c);
	void *logits = numbers(c, dtype, vocabulary, size);
	float *temperature = part(c, 4 * ROWS), *top_p = part(c, 4 * ROWS), *min_p = part(c, 4 * ROWS);
	int32_t *top_k = part(c, 4 * ROWS), *position = part(c, 4 * ROWS);
	uint32_t *key = part(c, 8 * ROWS);
	int32_t *mask_of = part(c, 4 * ROWS);
	int64_t words = (vocabulary + 31) / 32;
	uint32_t *masks = part(c, 4 * words);
	float *filtered = part(c, 4 * 4 * ROWS);
	if (!c->same) return;
	for (int64_t w = 0; w < words; w++) masks[w] = w % 5 ? 0x9e3779b9u * (w + 7) : 0;
	q_sample_args a = {.dtype = dtype,
		.vocabulary = vocabulary,
		.temperature = temperature,
		.top_p = top_p,
		.min_p = min_p,
		.top_k = top_k,
		.key = key,
		.positions = position,
		.masks = masks,
		.num_masks = 1,
		.words = words,
		.lanes = 1,
		.mask_of = mask_of,
		.top_n_sigma = filtered,
		.typical = filtered + ROWS,
		.xtc_probability = filtered + 2 * ROWS,
		.xtc_threshold = filtered + 3 * ROWS};
	for (int r = 0; r < ROWS; r++) {
		temperature[r] = settings[r].temperature, top_p[r] = settings[r].top_p, min_p[r] = settings[r].min_p,
		top_k[r] = settings[r].top_k;
		position[r] = 40 + r, key[2 * r] = c->random + r, key[2 * r + 1] = 7;
	}
	for (int k = 0; k < 4 * ROWS; k++) {
		// Each row without a mask, and with one, without filters, and with one. All read the same logits, but for the
		// last, which has a NaN.
		int r = k / 4, masked = k % 4;
		mask_of[r] = masked % 2 - 1;
		const float *filter = filters[r % FILTERS];
		for (int n = 0; n < 4; n++) filtered[n * ROWS + r] = masked / 2 ? filter[n] : 0;
		a.logits = (char *)logits - r * vocabulary * q_size(dtype);
		if (r == ROWS - 1) memset((char *)logits + (vocabulary - 3) * q_size(dtype), 0xff, q_size(dtype));
		for (int i = 0; i < 2; i++) {
			a.token = (int32_t *)c->output[i] + 3 * ROWS * masked;
			a.logprob = (float *)a.token + ROWS;
			a.processed = (float *)a.token + 2 * ROWS;
			(i ? c->code->sample_row : q_code_at(Q_AVX2)->sample_row)(&a, r);
		}
	}
	compare(c);
}

static void logprobs(check *c, int dtype, int64_t rows, int64_t vocabulary, float size) {
	begin(c);
	int64_t width = vocabulary < 40 ? vocabulary : 40;
	int32_t *token = part(c, 4 * rows), *count = part(c, 4 * rows);
	q_logprobs_args a = {
		.of = {.logits = numbers(c, dtype, rows * vocabulary, size), .dtype = dtype, .vocabulary = vocabulary},
		.token = token,
		.count = count,
		.width = width};
	if (!c->same) return;
	for (int r = 0; r < rows; r++) token[r] = (7 * r) % vocabulary, count[r] = width - r % 2;
	for (int i = 0; i < 2; i++) {
		a.logprob = (float *)c->output[i];
		a.id = (int32_t *)c->output[i] + rows;
		a.top = (float *)c->output[i] + rows + rows * width;
		for (int r = 0; r < rows; r++) (i ? c->code->logprobs_row : q_code_at(Q_AVX2)->logprobs_row)(&a, r);
	}
	compare(c);
}

static void entropy(check *c, int dtype, int64_t rows, int64_t vocabulary, float size) {
	begin(c);
	q_entropy_args a = {
		.of = {.logits = numbers(c, dtype, rows * vocabulary, size), .dtype = dtype, .vocabulary = vocabulary}};
	if (!c->same) return;
	for (int i = 0; i < 2; i++) {
		a.entropy = (float *)c->output[i];
		for (int r = 0; r < rows; r++) (i ? c->code->entropy_row : q_code_at(Q_AVX2)->entropy_row)(&a, r);
	}
	compare(c);
}

// Two sequences of a step for recurrences: one starts, and its states are left in two pages; the other continues in its
// own page.
enum { TOKENS = 12, SEQUENCES = 2, STATES = 3 };
static const int32_t state_from[SEQUENCES] = {-1, 2}, state_begins[SEQUENCES + 1] = {0, 10, TOKENS},
					 state_to[TOKENS] = {-1, -1, -1, 0, -1, -1, -1, -1, -1, 1, -1, 2};

// states puts the cache at the start of both outputs, and returns the position after it, in bytes.
static int64_t states(check *c, q_sequences *s, int64_t count) {
	const void *values = numbers(c, Q_F32, STATES * count, 1);
	int64_t size = STATES * count * sizeof(float);
	if (size > OUTPUT / 2) return c->same = 0; // a mistake in the sizes below
	for (int i = 0; c->same && i < 2; i++) memcpy(c->output[i], values, size);
	*s = (q_sequences){.from = state_from,
		.to = state_to,
		.begins = state_begins,
		.sequences = SEQUENCES,
		.tokens = TOKENS,
		.pages = STATES,
		.numbers = count};
	return size;
}

static void delta(check *c, int type, int64_t key_dim, int64_t value_dim) {
	begin(c);
	q_delta a = {.dtype = type, .key_heads = 2, .group = 2, .key_dim = key_dim, .value_dim = value_dim, .k = 4};
	const int64_t heads = a.key_heads * a.group;
	a.values = heads * value_dim;
	a.channels = 2 * a.key_heads * key_dim + a.values;
	a.width = a.channels + a.values + 2 * heads;
	a.eps = 1e-6f;
	int64_t behind = states(c, &a.s, 3 * a.channels + heads * key_dim * value_dim);
	a.in = numbers(c, type, TOKENS * a.width, 4);
	a.taps = numbers(c, type, a.channels * a.k, 1);
	a.decay = numbers(c, Q_F32, heads, 1);
	a.bias = numbers(c, Q_F32, heads, 1);
	a.norm = numbers(c, Q_F32, value_dim, 1);
	for (int i = 0; c->same && i < 2; i++) {
		a.s.cache = (float *)c->output[i];
		a.y = c->output[i] + behind;
		q_parallel(NULL, SEQUENCES * a.key_heads, (i ? c->code : q_code_at(Q_AVX2))->recurrences->delta, &a);
	}
	compare(c);
}

static void mamba(check *c, int type, int64_t dim, int64_t n) {
	begin(c);
	q_mamba a = {.heads = 4, .dim = dim, .groups = 2, .n = n, .min_step = 0.01f, .max_step = 1};
	q_conv *v = &a.conv;
	int64_t inner = a.heads * dim;
	v->k = 4;
	v->first = inner;
	v->channels = inner + 2 * a.groups * n;
	v->width = inner + v->channels + a.heads;
	v->dtype = type;
	v->blocks = (v->channels + Q_CHANNELS - 1) / Q_CHANNELS;
	int64_t behind = states(c, &v->s, 3 * v->channels + inner * n);
	v->in = numbers(c, type, TOKENS * v->width, 4);
	v->taps = numbers(c, type, v->channels * v->k, 1);
	v->bias = numbers(c, Q_F32, v->channels, 1);
	a.decay = numbers(c, Q_F32, a.heads, 1);
	a.bias = numbers(c, Q_F32, a.heads, 1);
	a.skip = numbers(c, Q_F32, a.heads, 1);
	for (int i = 0; c->same && i < 2; i++) {
		const q_recurrences *code = (i ? c->code : q_code_at(Q_AVX2))->recurrences;
		v->s.cache = (float *)c->output[i];
		v->y = c->output[i] + behind;
		a.y = c->output[i] + behind + TOKENS * v->channels * sizeof(float);
		q_parallel(NULL, SEQUENCES * v->blocks, code->conv, v);
		q_parallel(NULL, SEQUENCES * a.heads, code->mamba, &a);
	}
	compare(c);
}

static void convolution(check *c, int type, int64_t channels) {
	begin(c);
	q_conv a = {.dtype = type, .channels = channels, .k = 3, .width = 3 * channels};
	a.blocks = (channels + Q_CHANNELS - 1) / Q_CHANNELS;
	int64_t behind = states(c, &a.s, 2 * channels);
	a.in = numbers(c, type, TOKENS * a.width, 4);
	a.taps = numbers(c, type, channels * a.k, 1);
	for (int i = 0; c->same && i < 2; i++) {
		a.s.cache = (float *)c->output[i];
		a.y = c->output[i] + behind;
		q_parallel(NULL, SEQUENCES * a.blocks, (i ? c->code : q_code_at(Q_AVX2))->recurrences->conv, &a);
	}
	compare(c);
}

static void gates(check *c, int type, int64_t width) {
	enum { ROWS = 3 };
	begin(c);
	const void *x = numbers(c, type, ROWS * width, 8), *gate = numbers(c, type, ROWS * width, 100);
	q_gate a = {.x = x, .gate = gate, .dtype = type, .width = width};
	q_gated_norm norm = {.x = x,
		.gate = gate,
		.weight = numbers(c, Q_F32, width, 2),
		.dtype = type,
		.width = width,
		.gates = width,
		.groups = 3,
		.eps = 1e-5f,
		.rows = ROWS,
		.step = 2};
	for (int i = 0; c->same && i < 2; i++) {
		const q_recurrences *code = (i ? c->code : q_code_at(Q_AVX2))->recurrences;
		a.y = c->output[i];
		norm.y = c->output[i] + OUTPUT / 2;
		q_parallel(NULL, ROWS, code->gate, &a);
		q_parallel(NULL, 2, code->gated_norm, &norm);
	}
	compare(c);
}

static void all(void *args, int64_t task) {
	check *c = args;
	static const int types[] = {Q_F32, Q_BF16, Q_F16};
	for (int t = 0; t < 3; t++) {
		const int type = types[t];
		for (int64_t group = 1; group <= 6; group++)
			attention(c, type, type, 2, group, 64, 1, 70 + group % 2, 0, 0); // a token of a decode step
		attention(c, type, type, 1, 3, 64, 5, 33, 0, 0);
		attention(c, type, type, 2, 1, 40, 7, 66, 21, 0);
		attention(c, type, type, 1, 2, 128, 8, 64, 0, 3);
		attention(c, type, type, 1, 1, 13, 1, 96, 0, 0);
		norm(c, type, type, 1, 576);
		norm(c, type, type, 3, 64 + 16 + 5);
		norm(c, type, type, 2, 7);
		for (int rotate = 0; rotate < 2; rotate++) {
			for (int weights = 0; weights < 2; weights++) {
				rope(c, type, 64, rotate, weights);
				rope(c, type, 74, rotate, weights);
			}
		}
		sampling(c, type, type == Q_F32 ? 9001 : 1500, 12);
		for (int64_t vocabulary = 3; vocabulary < 20; vocabulary += 7)
			sampling(c, type, vocabulary, 1.5f); // its results show single roundings
	}
	for (int t = 1; t < 3; t++) norm(c, types[t], Q_F32, 1, 64 + 16 + 5);
	for (int t = 0; t < 3; t++) {
		logprobs(c, types[t], 2, types[t] == Q_F32 ? 9001 : 1500, 12);
		logprobs(c, types[t], 100, 23, 1.5f);
	}
	static const int quantized[] = {Q_S8, Q_U8};
	for (int i = 0; i < 2; i++) {
		const int cache = quantized[i];
		for (int64_t group = 1; group <= 6; group++) attention(c, Q_F32, cache, 2, group, 64, 1, 70, 0, 0);
		attention(c, Q_F32, cache, 2, 1, 40, 7, 66, 21, 0);
		attention(c, Q_F32, cache, 1, 2, 128, 8, 64, 0, 3);
		for (int t = 0; t < 3; t++) quantize(c, types[t], cache, 77, 3);
	}
	for (int t = 0; t < 3; t++) {
		const int type = types[t];
		delta(c, type, 17, 32 + 16 + 5);
		delta(c, type, 8, 8);
		mamba(c, type, 32 + 16 + 5, 19);
		mamba(c, type, 64, 16);
		convolution(c, type, Q_CHANNELS + 44);
		gates(c, type, 3 * (64 + 16 + 5));
	}
	c->page = 32; // keys of sixteen tokens lie in one page
	attention(c, Q_BF16, Q_BF16, 2, 3, 64, 1, 70, 0, 0);
	attention(c, Q_BF16, Q_BF16, 1, 5, 96, 7, 66, 21, 0);
	c->rows = 1;
	for (int t = 0; t < 3; t++) attention(c, types[t], types[t], 2, 1, 40, 50, 66, 13, 0);
	c->rows = 0;
	c->each = 1;
	for (int t = 0; t < 3; t++) {
		attention(c, types[t], types[t], 1, 3, 64, 1, 71, 0, 0);
		attention(c, types[t], types[t], 1, 16, 96, 2, 66, 0, 0);
	}
	for (int t = 0; t < 3; t++) {
		entropy(c, types[t], 2, types[t] == Q_F32 ? 9001 : 1500, 12);
		entropy(c, types[t], 100, 23, 1.5f);
	}
	(void)task;
}

int q_code_same(const q_code *code) {
	char *memory = aligned_alloc(64, INPUT + 2 * OUTPUT);
	if (!memory) return 0;
	check c = {.code = code,
		.input = memory,
		.output = {memory + INPUT, memory + INPUT + OUTPUT},
		.random = 1,
		.page = 24,
		.each = 2,
		.same = 1};
	q_parallel(NULL, 1, all, &c); // q_parallel sets the mode that kernels compute in
	free(memory);
	return c.same;
}
