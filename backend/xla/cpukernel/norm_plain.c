#define Q_V16 0
#define Q_NORM_ROWS q_norm_rows_plain
#define Q_ROPE_ROWS q_rope_rows_plain
#include "norm_rows.h"
