#ifndef QUIRE_GEMM_CHECK_H
#define QUIRE_GEMM_CHECK_H

// q_linear_choose runs code beyond AVX2 once alongside plain code, and sets the highest level, of those up to
// q_level(), whose results are the same. It returns that level. Call it before the first matrix is packed.
int q_linear_choose(void);

#endif
