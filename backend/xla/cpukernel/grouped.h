// Linear layers of which each row has a matrix of its own, such as those of experts and of adapters: rows are brought
// into the order of their matrices, and each matrix is read once for all of its rows.
#ifndef QUIRE_GROUPED_H
#define QUIRE_GROUPED_H

#include "gemm.h"

typedef struct {
	int64_t matrices;
	int64_t *begins;      // [matrices + 1]: the first place of each matrix's rows, in the order of matrices
	int64_t count;        // how many layers have rows
	q_linear *layers;     // of matrices that have rows
	q_linear_job *jobs;   // the same
	int64_t *tiles, *tasks; // [count + 1]: the first of each
} q_groups;

// q_groups_make allocates for so many matrices. It returns 0 if there is no memory.
int q_groups_make(q_groups *g, int64_t matrices);
void q_groups_free(q_groups *g);

// q_groups_sort sets begins, and the place in the order of matrices of each of the elements of of, which are numbers of
// matrices: -1 for numbers outside [0, matrices). Elements with the same matrix keep their order.
void q_groups_sort(q_groups *g, const int32_t *of, int64_t elements, int32_t *order);

// q_groups_tiles bounds the rows of elements in whole tiles, each matrix's starting with a new one.
int64_t q_groups_tiles(int64_t elements, int64_t matrices);

// q_groups_run computes a layer of all matrices that have rows. of is what they share, with the arrays of matrix 0 and
// of the first place; its scratch has room for q_groups_tiles rows.
void q_groups_run(q_frame *f, q_groups *g, const q_linear *of, int64_t matrix_bytes);

#endif
