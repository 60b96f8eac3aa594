// The types of linear layers, which gemm.h describes, and the order of a packed matrix.
#ifndef QUIRE_GEMM_TYPES_H
#define QUIRE_GEMM_TYPES_H

#include "ffi.h"

enum { Q_TURN = 16 };

// Activations, numbered as package linear does. Q_CLAMPED_SWIGLU is of gates and ups together.
enum { Q_NONE, Q_SILU, Q_GELU_TANH, Q_GELU, Q_RELU_SQUARED, Q_CLAMPED_SWIGLU, Q_ACTIVATIONS };

// The kernel's own shape of a packed matrix at the level in use, by its element type (Q_F32, Q_BF16, Q_F16, Q_S8).
typedef struct {
	int64_t panel, group, multiple;
} q_layout;

// q_blocks describes a matrix in blocks: see gemm_blocks.h. A number is scale * (quant - offset), plus a minimum if
// min; with a table a quant is an index into it, and with exponent a scale is a power of two. In a grouped format,
// group is the type of scales (1 float16, 2 bfloat16, 3 float32), zero is set if blocks have zero points in place of
// the offset, and e4m3 if quants are floats of 8 bits. bits is 0 for other matrices.
typedef struct {
	int bits, size, offset, super, min, exponent, table, group, zero, e4m3;
} q_blocks;

// q_blocks_of reads the attribute `blocks` of a kernel.
static inline q_blocks q_blocks_of(int64_t n) {
	return (q_blocks){n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24 & 1, n >> 25 & 1, n >> 26 & 1, n >> 27 & 3,
		n >> 29 & 3, n >> 31 & 1, n >> 32 & 1};
}

// q_adapted is what low-rank adapters add to the products of rows: of each row the numbers inner [rows, ranks] times
// the matrix of its adapter.
typedef struct q_adapted {
	const float *inner;
	const char **matrices; // [rows]: [ranks, out] of the layer's dtype; NULL for rows without an adapter
	int64_t ranks, out;
	int64_t first; // the column of the matrices that belongs to the layer's first
	// Columns before the first cut have the first share of the ranks, and so on: the matrices are 0 elsewhere. A cut at
	// out is none.
	int64_t cuts[2], share;
} q_adapted;

typedef struct {
	int weights_dtype; // of weights
	int dtype;         // dtype of x, bias and residual
	int result_dtype;  // dtype of y: dtype or Q_F32
	q_blocks blocks;   // blocks of weights that are bytes, Q_U8
	int gate_up;       // y[:, i] = activation(gate[i]) * up[i], with out = 2 * columns of y
	int activation;
	int64_t rows, in, out;
	const void *x;        // [rows, in]
	const void *weights;  // packed
	const float *scales;  // [out] in the matrix's own order, if weights are Q_S8
	const void *bias;     // [out], or NULL
	const void *residual; // [rows, columns of y], or NULL
	const struct q_adapted *adapted; // low-rank adapters of the rows, or NULL
	void *y;
	void *scratch; // q_linear_scratch bytes, aligned to 64
} q_linear;

// A level's code: how many rows it takes at once, and the two steps.
typedef struct {
	int64_t tile_rows;
	void (*pack_tile)(void *job, int64_t tile);
	void (*panels)(void *job, int64_t task);
	int64_t own_floats, own_bytes; // the most numbers that each thread packs for itself, by the type of weights
	int64_t part_rows;             // the least rows that a thread multiplies by all weights, or 0 for never
	// The most rows of a task, in bytes and in tiles; 0 for all rows. Tasks with the same rows follow each other.
	int64_t task_bytes, task_tiles;
} q_linear_code;

typedef struct {
	const q_linear *l;
	const q_linear_code *code;
	int64_t padded_in, tiles, panels, panels_a_task, tiles_a_task;
	void *rows;      // destination of pack_tile
	int64_t packs;   // how many tiles are packed before: all, or none if each thread packs them
	uint64_t number; // unique among the jobs of the process
} q_linear_job;

// q_panels is the number of panels, q_padded_in the inputs of each.
static inline int64_t q_panels(int64_t out, int gate_up, q_layout l) {
	int64_t columns = gate_up ? (out / 2 + Q_TURN - 1) / Q_TURN * 2 * Q_TURN : out;
	return (columns + l.panel - 1) / l.panel;
}
static inline int64_t q_padded_in(int64_t in, q_layout l) { return (in + l.multiple - 1) / l.multiple * l.multiple; }

// q_packed_column returns the position of a matrix's column c among the columns of the panels.
static inline int64_t q_packed_column(int64_t c, int64_t out, int gate_up) {
	if (!gate_up) return c;
	int64_t half = out / 2, i = c < half ? c : c - half;
	return i / Q_TURN * 2 * Q_TURN + i % Q_TURN + (c < half ? 0 : Q_TURN);
}

#endif
