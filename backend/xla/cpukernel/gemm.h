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

#include "gemm_types.h"

q_layout q_linear_layout(int dtype);

// q_linear_set_level sets the level of the code of linear layers. Call it before the first matrix is packed.
void q_linear_set_level(int level);

// The layout and the code of another level, for gemm_check.c.
q_layout q_linear_layout_at(int level, int dtype);
void q_linear_run_at(int level, q_frame *f, const q_linear *l);

// q_linear_scratch returns the bytes that rows of activations need in the form that the kernels read.
size_t q_linear_scratch(int64_t rows, int64_t in);

// q_linear_run computes y on the threads of a frame, or on the calling one if f is NULL.
void q_linear_run(q_frame *f, const q_linear *l);

// Q_PART_ROWS is the minimum number of rows in a part of a layer: see run_parts. AMX has no parts, because they were
// not measured there.
enum { Q_PART_ROWS = 48 };

// q_linear_plan shares out a layer of at least one row and output: first pack_tile of packs tiles, then q_linear_panels
// of each of q_linear_tasks tasks.
q_linear_job q_linear_plan(q_frame *f, const q_linear *l);
int64_t q_linear_tasks(const q_linear_job *j);
void q_linear_panels(void *job, int64_t task);

extern const q_linear_code q_linear_plain, q_linear_avx2, q_linear_avx512, q_linear_avx512_16, q_linear_dot,
	q_linear_amx;

// q_pack packs n rows, starting with first, of a matrix [out, in] of dtype, row-major, as far as they are in panels
// [from, to). packed initially is zeros. gate_up packs in alternating runs.
void q_pack(void *packed, const void *rows, int dtype, int64_t out, int64_t in, int gate_up, q_layout layout,
	int64_t first, int64_t n, int64_t from, int64_t to);

// quire_linear: x [T, in], packed weights, rows s32[], then scales f32[out], bias [out] and residual [T, columns] if
// the attributes of these names are set -> y [T, columns], scratch. Attributes: in, out, gate_up, activation, scales,
// bias, residual, blocks: of a matrix in blocks bits, size << 8, offset << 16, super << 24, min << 25, exponent << 26,
// table << 27, group << 29, zero << 31, e4m3 << 32; else 0.
q_error *quire_linear(q_frame *f);

// quire_linear_adapted is quire_linear with three more operands at the end, inner f32[T, ranks], adapters s32[T] and
// their matrices [N, ranks, all]: see q_adapted. More attributes: first, cut1, cut2.
q_error *quire_linear_adapted(q_frame *f);

// quire_linear_rows: ids s32[T], packed weights, rows s32[], then scales f32[out] if that attribute is set -> y [T,
// in]: the matrix's rows ids[t], times their scales. Attributes: in, out, gate_up, scales, blocks.
q_error *quire_linear_rows(q_frame *f);

#endif
