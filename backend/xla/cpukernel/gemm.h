// Linear layers: rows of activations times a matrix that was packed when it was loaded.
//
// A matrix [out, in] is packed into panels of as many output columns as a kernel computes at once, each panel being
// read from its begin to its end: [ceil(out/panel)][padded in/group][panel][group], with zeros for what is past the
// ends; inputs are padded to a multiple. group is how many consecutive inputs an instruction takes at once. Gate and up
// projections, stacked in one matrix, are packed in turns of Q_TURN columns, so that a pair lies in one panel or in two
// neighbours.
//
// Every output is one sum over the inputs, the second of each two first, in float32 by fused multiply-adds (plain code:
// multiplications and additions), whatever the number of rows, their places, the threads and the blocks: the same bits.
// AVX2, AVX-512 and its dot products give the same; AMX sums bf16 in its own order.
// 16-bit numbers are widened exactly, and the result is rounded once. Weights of 8 bits are times activations that are
// rounded to 8 bits, each row by its own scale; those sums are integers, and exact.
#ifndef QUIRE_GEMM_H
#define QUIRE_GEMM_H

#include "ffi.h"

enum { Q_TURN = 16 };

// Activations, numbered as package linear does. Q_CLAMPED_SWIGLU is of gates and ups together.
enum { Q_NONE, Q_SILU, Q_GELU_TANH, Q_GELU, Q_RELU_SQUARED, Q_CLAMPED_SWIGLU, Q_ACTIVATIONS };

// The kernel's own shape of a packed matrix at the level in use, by its element type (Q_F32, Q_BF16, Q_F16, Q_S8).
typedef struct {
	int64_t panel, group, multiple;
} q_layout;

q_layout q_linear_layout(int dtype);

// q_blocks says what a matrix in blocks holds: see gemm_blocks.h. A number is scale * (quant - offset), plus a minimum
// if min; with a table a quant stands for a number of it, and with exponent a scale is a power of two. In a grouped
// format, group is the type of scales (1 float16, 2 bfloat16, 3 float32), zero says that blocks have zero points in
// place of the offset, and e4m3 that quants are floats of 8 bits. bits is 0 for other matrices.
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
	const float *scales;  // [out] in the matrix's own order, where weights are Q_S8
	const void *bias;     // [out], or NULL
	const void *residual; // [rows, columns of y], or NULL
	void *y;
	void *scratch; // of q_linear_scratch bytes, aligned to 64
} q_linear;

// q_linear_choose runs code beyond AVX2 once beside plain code, and settles for the highest level, of those up to
// q_level(), whose results are the same. It returns that level. Call it before the first matrix is packed.
int q_linear_choose(void);

// q_linear_scratch is the bytes that rows of activations need in the form the kernels read.
size_t q_linear_scratch(int64_t rows, int64_t in);

// q_linear_run computes y on the threads of a frame, or on the calling one where f is NULL.
void q_linear_run(q_frame *f, const q_linear *l);

// Q_PART_ROWS is the least rows of a part of a layer: see run_parts. AMX has no parts; they were not measured there.
enum { Q_PART_ROWS = 48 };

// A level's code: how many rows it takes at once, and the two steps.
typedef struct {
	int64_t tile_rows;
	void (*pack_tile)(void *job, int64_t tile);
	void (*panels)(void *job, int64_t task);
	int64_t own_floats, own_bytes; // the most numbers that each thread packs for itself, by the type of weights
	int64_t part_rows;             // the least rows that a thread multiplies by all weights, or 0 for never
} q_linear_code;

typedef struct {
	const q_linear *l;
	const q_linear_code *code;
	int64_t padded_in, tiles, panels, panels_a_task;
	void *rows;      // where pack_tile packs them
	int64_t packs;   // how many tiles are packed before: all, or none where each thread packs them
	uint64_t number; // no other job of the process has it
} q_linear_job;

// q_linear_plan says in how many tiles and tasks a layer of at least one row and output is computed: first pack_tile of
// packs tiles, then q_linear_panels of each share of panels_a_task of them.
q_linear_job q_linear_plan(q_frame *f, const q_linear *l);
void q_linear_panels(void *job, int64_t task);

extern const q_linear_code q_linear_plain, q_linear_avx2, q_linear_avx512, q_linear_avx512_16, q_linear_dot,
	q_linear_amx;

// q_pack packs n rows, from the first on, of a matrix [out, in] of dtype, row-major, as far as they are in panels
// [from, to). packed begins as zeros. gate_up packs in turns.
void q_pack(void *packed, const void *rows, int dtype, int64_t out, int64_t in, int gate_up, q_layout layout,
	int64_t first, int64_t n, int64_t from, int64_t to);

// q_panels is the number of panels, q_padded_in the inputs of each.
static inline int64_t q_panels(int64_t out, int gate_up, q_layout l) {
	int64_t columns = gate_up ? (out / 2 + Q_TURN - 1) / Q_TURN * 2 * Q_TURN : out;
	return (columns + l.panel - 1) / l.panel;
}
static inline int64_t q_padded_in(int64_t in, q_layout l) { return (in + l.multiple - 1) / l.multiple * l.multiple; }

// q_packed_column is where column c of a matrix is among those of the panels.
static inline int64_t q_packed_column(int64_t c, int64_t out, int gate_up) {
	if (!gate_up) return c;
	int64_t half = out / 2, i = c < half ? c : c - half;
	return i / Q_TURN * 2 * Q_TURN + i % Q_TURN + (c < half ? 0 : Q_TURN);
}

// quire_linear: x [T, in], packed weights, rows s32[], then scales f32[out], bias [out] and residual [T, columns] where
// the attributes of these names hold -> y [T, columns], scratch. Attributes: in, out, gate_up, activation, scales,
// bias, residual, blocks: of a matrix in blocks bits, size << 8, offset << 16, super << 24, min << 25, exponent << 26,
// table << 27, group << 29, zero << 31, e4m3 << 32; else 0.
q_error *quire_linear(q_frame *f);

// quire_linear_rows: ids s32[T], packed weights, rows s32[], then scales f32[out] where that attribute holds -> y [T,
// in]: the matrix's rows ids[t], times their scales. Attributes: in, out, gate_up, scales, blocks.
q_error *quire_linear_rows(q_frame *f);

#endif
