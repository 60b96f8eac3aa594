// Linear layers: rows of activations times a matrix that was packed when it was loaded.
//
// A matrix [out, in] is packed into panels of as many output columns as a kernel computes at once, and each panel is
// read sequentially: [ceil(out/panel)][padded in/group][panel][group], with zeros past the ends; inputs are padded to
// a multiple. group is how many consecutive inputs an instruction consumes at once. Gate and up projections, stacked
// in one matrix, are packed in alternating runs of Q_TURN columns, so that a pair is in one panel or in two adjacent
// ones.
//
// Every output is one sum over the inputs, the second of each two first, in float32 by fused multiply-adds (plain
// code: multiplications and additions), regardless of the number of rows, their places, the threads and the blocks:
// the same bits. AVX2, AVX-512 and its dot products give the same; AMX sums bf16 in its own order. 16-bit numbers are
// widened exactly, and the result is rounded once. 8-bit weights are multiplied by activations that are rounded to 8
// bits, each row with its own scale; those sums are integers, and exact.
#ifndef QUIRE_GEMM_H
#define QUIRE_GEMM_H

#include "ffi.h"

enum { Q_TURN = 16 };

// Activations, numbered as in package linear. Q_CLAMPED_SWIGLU applies to gates and ups together.
enum { Q_NONE, Q_SILU, Q_GELU_TANH, Q_GELU, Q_RELU_SQUARED, Q_CLAMPED_SWIGLU, Q_ACTIVATIONS };

// The kernel's own shape of a packed matrix at the level in use, by its element type (Q_F32, Q_BF16, Q_F16, Q_S8).
typedef struct {
	int64_t panel, group, multiple;
} q_layout;

q_layout q_linear_layout(int dtype);

// q_blocks describes the contents of a matrix in blocks: see gemm_blocks.h. A number is scale * (quant - offset),
// plus a minimum if min is set; with a table, a quant is an index of it, and with exponent, a scale is a power of
// two. In a grouped format, group is the type of scales (1 float16, 2 bfloat16, 3 float32), zero is set if blocks
// have zero points in place of the offset, and e4m3 if quants are 8-bit floats. bits is 0 for other matrices.
typedef struct {
	int bits, size, offset, super, min, exponent, table, group, zero, e4m3;
} q_blocks;

// q_blocks_of reads the attribute `blocks` of a kernel.
static inline q_blocks q_blocks_of(int64_t n) {
	return (q_blocks){n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24 & 1, n >> 25 & 1, n >> 26 & 1, n >> 27 & 3,
		n >> 29 & 3, n >> 31 & 1, n >> 32 & 1};
}

typedef struct {
	int weights_dtype; // of weights
	int dtype;         // of x, bias and residual
	int result_dtype;  // of y: dtype or Q_F32
	q_blocks blocks;   // of weights that are bytes, Q_U8
	int gate_up;       // y[:, i] = activation(gate[i]) * up[i], where out = 2 * columns of y
	int activation;
	int64_t rows, in, out;
	const void *x;        // [rows, in]
	const void *weights;  // packed
	const float *scales;  // [out] in the matrix's own order, if weights are Q_S8
	const void *bias;     // [out], or NULL
	const void *residual; // [rows, columns of y], or NULL
	void *y;
	void *scratch; // of q_linear_scratch bytes, aligned to 64
} q_linear;

// q_linear_choose runs code beyond AVX2 once and compares it with plain code. It chooses the highest level up to
// q_level() whose results are the same, and returns it. Call it before the first matrix is packed.
int q_linear_choose(void);

// q_linear_scratch returns the bytes that rows of activations need in the form that the kernels read.
size_t q_linear_scratch(int64_t rows, int64_t in);

// q_linear_run computes y on the threads of a frame, or on the calling one if f is NULL.
void q_linear_run(q_frame *f, const q_linear *l);

// Q_PART_ROWS is the minimum number of rows in a part of a layer: see run_parts. AMX has no parts, because they were
// not measured there.
enum { Q_PART_ROWS = 48 };

// A level's code: how many rows it takes at once, and the two steps.
typedef struct {
	int64_t tile_rows;
	void (*pack_tile)(void *job, int64_t tile);
	void (*panels)(void *job, int64_t task);
	int64_t own_floats, own_bytes; // the most numbers that each thread packs for itself, by the type of weights
	int64_t part_rows;             // the minimum of rows that a thread multiplies by all weights, or 0 for never
} q_linear_code;

typedef struct {
	const q_linear *l;
	const q_linear_code *code;
	int64_t padded_in, tiles, panels, panels_a_task;
	void *rows;      // where pack_tile writes packed rows
	int64_t packs;   // how many tiles are packed before: all, or none if each thread packs them
	uint64_t number; // unique among the jobs of the process
} q_linear_job;

// q_linear_plan computes in how many tiles and tasks a layer of at least one row and output is computed: first
// pack_tile for packs tiles, then q_linear_panels for each share of panels_a_task panels.
q_linear_job q_linear_plan(q_frame *f, const q_linear *l);
void q_linear_panels(void *job, int64_t task);

extern const q_linear_code q_linear_plain, q_linear_avx2, q_linear_avx512, q_linear_avx512_16, q_linear_dot,
	q_linear_amx;

// q_pack packs n rows, starting with first, of a matrix [out, in] of dtype, row-major, as far as they are in panels
// [from, to). packed initially is zeros. gate_up packs in alternating runs.
void q_pack(void *packed, const void *rows, int dtype, int64_t out, int64_t in, int gate_up, q_layout layout,
	int64_t first, int64_t n, int64_t from, int64_t to);

// q_panels returns the number of panels, q_padded_in the inputs of each.
static inline int64_t q_panels(int64_t out, int gate_up, q_layout l) {
	int64_t columns = gate_up ? (out / 2 + Q_TURN - 1) / Q_TURN * 2 * Q_TURN : out;
	return (columns + l.panel - 1) / l.panel;
}
static inline int64_t q_padded_in(int64_t in, q_layout l) { return (in + l.multiple - 1) / l.multiple * l.multiple; }

// q_packed_column returns the position of column c of a matrix among the columns of the panels.
static inline int64_t q_packed_column(int64_t c, int64_t out, int gate_up) {
	if (!gate_up) return c;
	int64_t half = out / 2, i = c < half ? c : c - half;
	return i / Q_TURN * 2 * Q_TURN + i % Q_TURN + (c < half ? 0 : Q_TURN);
}

// quire_linear: x [T, in], packed weights, rows s32[], then scales f32[out], bias [out] and residual [T, columns] if
// the attributes of these names are set -> y [T, columns], scratch. Attributes: in, out, gate_up, activation, scales,
// bias, residual, blocks: for a matrix in blocks bits, size << 8, offset << 16, super << 24, min << 25, exponent <<
// 26, table << 27, group << 29, zero << 31, e4m3 << 32; else 0.
q_error *quire_linear(q_frame *f);

// quire_linear_rows: ids s32[T], packed weights, rows s32[], then scales f32[out] if that attribute is set -> y [T,
// in]: the matrix's rows ids[t], times their scales. Attributes: in, out, gate_up, scales, blocks.
q_error *quire_linear_rows(q_frame *f);

#endif
