// The choice of the code of linear layers: code beyond AVX2, which few tests have run, is compared with plain code and
// with AVX2 when a process starts.
#include "gemm_check.h"

#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "cpu.h"
#include "gemm.h"
#include "gemm_blocks.h"

// same_at reports whether a level's code has the results of plain code, within rounding, and below AMX exactly the
// results of AVX2.
static int same_at(int level, int weights_dtype, int dtype) {
	enum { ROWS = 37, IN = 150, OUT = 2 * 45, SIZE = 4 * 4 * (ROWS + OUT) * (IN + 70) };
	static float numbers[OUT * IN], x[ROWS * IN], scales[OUT];
	uint32_t random = 1;
	// Numbers use all bits, because sums of short numbers are exact in any order.
	for (int i = 0; i < OUT * IN + ROWS * IN; i++) {
		const float number = (float)((random = random * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1;
		if (i < OUT * IN) numbers[i] = number;
		else x[i - OUT * IN] = number;
	}
	for (int i = 0; i < OUT; i++) scales[i] = 1.0f / 64;
	char *memory = aligned_alloc(64, 5 * SIZE / 64 * 64);
	if (!memory) return 0;
	char *parts[5];
	for (int i = 0; i < 5; i++) parts[i] = memory + i * (SIZE / 64 * 64);
	for (int i = 0; i < OUT * IN; i++) {
		if (weights_dtype == Q_F32) ((float *)parts[0])[i] = numbers[i];
		else if (weights_dtype == Q_S8) parts[0][i] = (char)(numbers[i] * 127);
		else ((uint16_t *)parts[0])[i] = weights_dtype == Q_BF16 ? q_to_bf16(numbers[i]) : q_to_f16(numbers[i]);
	}
	for (int i = 0; i < ROWS * IN; i++) {
		if (dtype == Q_F32) ((float *)parts[1])[i] = x[i];
		else ((uint16_t *)parts[1])[i] = dtype == Q_BF16 ? q_to_bf16(x[i]) : q_to_f16(x[i]);
	}
	static float y[3][ROWS * OUT / 2];
	const int levels[] = {Q_PLAIN, level, Q_AVX2}, runs = level < Q_AMX ? 3 : 2;
	q_linear l = {.weights_dtype = weights_dtype,
		.dtype = dtype,
		.result_dtype = Q_F32,
		.gate_up = 1,
		.activation = Q_SILU,
		.rows = ROWS,
		.in = IN,
		.out = OUT};
	l.x = parts[1];
	l.weights = parts[2];
	l.scales = weights_dtype == Q_S8 ? scales : NULL;
	l.scratch = parts[3];
	for (int i = 0; i < runs; i++) {
		q_layout layout = q_linear_layout_at(levels[i], weights_dtype);
		memset(parts[2], 0, SIZE / 64 * 64);
		q_pack(parts[2], parts[0], weights_dtype, OUT, IN, 1, layout, 0, OUT, 0, q_panels(OUT, 1, layout));
		l.y = y[i];
		q_linear_run_at(levels[i], NULL, &l);
	}
	free(memory);
	if (runs == 3 && memcmp(y[1], y[2], sizeof y[1])) return 0;
	for (int i = 0; i < ROWS * OUT / 2; i++) {
		float difference = y[0][i] - y[1][i], size = y[0][i] < 0 ? -y[0][i] : y[0][i];
		if (!(difference <= 1e-4f * (1 + size) && -difference <= 1e-4f * (1 + size))) return 0;
	}
	return 1;
}

// same_blocks_at is same_at for matrices in blocks. Few rows, which have code of their own, must have the same bits as
// among many.
static int same_blocks_at(int level, q_blocks b) {
	enum { ROWS = 37, FEW = 3, IN = 512, OUT = 2 * 40, N = OUT * IN, SCALES = N / 16, SIZE = OUT * IN * 2 };
	static uint8_t quants[N];
	static uint16_t scales[SCALES], minima[SCALES], factors[N / 256];
	static float group_scales[N / 32];
	static uint8_t zeros[N / 32];
	static float x[ROWS * IN], y[3][ROWS * OUT / 2], y_few[FEW * OUT / 2];
	uint32_t random = 1;
	for (int i = 0; i < N; i++) quants[i] = (random = random * 1664525 + 1013904223) >> (32 - b.bits);
	for (int i = 0; i < SCALES; i++)
		scales[i] = b.super      ? 1 + i % 60
		            : b.exponent ? 118 + i % 3
		                         : q_to_f16(0.01f + i % 7 * 0.001f),
		minima[i] = b.super ? i % 61 : q_to_f16(-0.1f);
	for (int i = 0; i < N / 256; i++) factors[i] = q_to_f16(0.001f);
	for (int i = 0; i < N / 32; i++) group_scales[i] = b.e4m3 ? 0.0001f : 0.01f + i % 7 * 0.001f, zeros[i] = i % 15;
	for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((random = random * 1664525 + 1013904223) >> 24) / 128 - 1;
	char *memory = aligned_alloc(64, SIZE + (size_t)(q_linear_scratch(ROWS, IN) + 63) / 64 * 64);
	if (!memory) return 0;
	q_linear l = {.weights_dtype = Q_U8,
		.dtype = Q_F32,
		.result_dtype = Q_F32,
		.blocks = b,
		.gate_up = 1,
		.activation = Q_SILU,
		.rows = ROWS,
		.in = IN,
		.out = OUT};
	l.x = x;
	l.weights = memory;
	l.scratch = memory + SIZE;
	const int levels[] = {Q_PLAIN, Q_AVX2, level};
	for (int i = 0; i < 3; i++) {
		q_layout layout = q_linear_layout_at(levels[i], Q_U8);
		memset(memory, 0, SIZE);
		q_pack_blocks(memory, b, (q_blocks_rows){quants, scales, minima, factors, factors, group_scales, zeros}, OUT,
			IN, 1, layout.panel, 0, OUT, 0, q_panels(OUT, 1, layout));
		l.y = y[i];
		q_linear_run_at(levels[i], NULL, &l);
	}
	l.rows = FEW;
	l.y = y_few;
	q_linear_run_at(level, NULL, &l);
	free(memory);
	if (memcmp(y_few, y[2], sizeof y_few) || (level < Q_AMX && memcmp(y[1], y[2], sizeof y[1]))) return 0;
	for (int i = 0; i < ROWS * OUT / 2; i++) {
		float difference = y[0][i] - y[2][i], size = y[0][i] < 0 ? -y[0][i] : y[0][i];
		if (!(difference <= 1e-4f * (1 + size) && -difference <= 1e-4f * (1 + size))) return 0;
	}
	return 1;
}

// same_blocks calls same_blocks_at for a matrix of each kind.
static int same_blocks(int level) {
	static const q_blocks kinds[] = {
		{.bits = 4, .size = 32, .offset = 8},
		{.bits = 5, .size = 32, .super = 1, .min = 1},
		{.bits = 6, .size = 16, .offset = 32, .super = 1},
		{.bits = 8, .size = 32, .offset = 128},
		{.bits = 4, .size = 32, .offset = 128, .super = 1, .table = Q_CURVE},
		{.bits = 4, .size = 32, .offset = 12, .exponent = 1, .table = Q_FLOATS4},
		{.bits = 4, .size = 128, .group = 1, .zero = 1},
		{.bits = 8, .size = 64, .group = 2, .zero = 1},
		{.bits = 8, .size = 128, .group = 3, .e4m3 = 1},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!same_blocks_at(level, kinds[i])) return 0;
	return 1;
}

int q_linear_choose(void) {
	int l = q_level();
	for (; l > Q_AVX2; l--) {
		if (same_at(l, Q_F32, Q_F32) && same_at(l, Q_F16, Q_F16) && same_at(l, Q_BF16, Q_BF16) &&
			same_at(l, Q_BF16, Q_F32) && same_at(l, Q_S8, Q_F32) && same_at(l, Q_S8, Q_BF16) && same_blocks(l))
			break;
	}
	q_linear_set_level(l);
	return l;
}
