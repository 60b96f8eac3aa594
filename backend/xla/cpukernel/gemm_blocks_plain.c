#define Q_V16 0
#define Q_CODE q_blocks_plain
#define Q_WIDE 1
#define Q_ROWS 4
#include "gemm_blocks_code.h"
