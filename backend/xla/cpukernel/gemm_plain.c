#define Q_V16 0
#define Q_CODE q_linear_plain
#define Q_WIDE 1
#define Q_ROWS 3
#include "gemm_kernel.h"
